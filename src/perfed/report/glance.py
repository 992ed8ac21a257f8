"""The figure a page opens with: every method's accuracy in the round that is quoted, beside Local and FedAvg."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .canvas import WIDTH, sheet, styled
from .names import title
from .read import Record, labels
from .style import Look, looks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ANCHORS = ("local", "fedavg")  # alone, and one model for all

Mark = tuple[str, str, Look, float, float]  # name, method, look, mean and deviation over seeds in per cent


def marks(runs: Sequence[Record], moment: str, options: Mapping[str, str]) -> list[Mark]:
    """Return every run's figure in the quoted round, the highest first; runs that have none are left out."""
    found = []
    figure = options.get("report", "weighted")
    for run, name, look in zip(runs, labels(runs), looks([run.method for run in runs]), strict=True):
        there = (run.summary(**options).get(moment) or {}).get(figure) or {"mean": None}
        if there["mean"] is not None:
            found.append((name, run.method, look, 100 * there["mean"], 100 * there["std"]))
    return sorted(found, key=lambda mark: -mark[3])


def glance(panels: Mapping[str, Sequence[Mark]], score: str = "accuracy", *, width: float = WIDTH) -> "Figure":
    """Draw a panel of marks for each heading: dots with their deviation, and lines where Local and FedAvg are."""
    rows = max(len(found) for found in panels.values())
    with styled():
        page, axes = sheet(width, 0.9 + 0.27 * rows, ncols=len(panels), squeeze=False)
        for axis, (heading, found) in zip(axes.flat, panels.items(), strict=True):
            _panel(axis, found)
            axis.set_title(heading, loc="left", fontweight="bold", fontsize=9)
        what = "% of test samples right" if score == "accuracy" else f"{score} on test data (%)"
        page.supxlabel(f"{what}; bars: deviation over seeds", fontsize=8)
    return page


def _panel(axis: Any, found: Sequence[Mark]) -> None:
    names = [name for name, *_ in found]
    for name, method, look, mean, deviation in found:
        place = names.index(name)
        if method in ANCHORS:
            axis.axvline(mean, color=look.colour, lw=1, ls="--", zorder=0)
        axis.errorbar(mean, place, xerr=deviation, color=look.colour, marker="o", ms=6, lw=1.6, capsize=2.5)
        box = {"facecolor": "white", "edgecolor": "none", "pad": 0.4}  # a dashed line may run below it
        near = {"textcoords": "offset points", "ha": "center", "size": 7, "color": look.colour, "bbox": box}
        axis.annotate(f"{mean:.1f}", (mean, place), (0, 5.5), **near)
    axis.set_yticks(range(len(found)), names)
    for tick, (_, method, *_) in zip(axis.get_yticklabels(), found, strict=True):
        tick.set_fontweight("bold" if method in ANCHORS else "normal")
    axis.set_ylim(len(found) - 0.4, -0.8)
    axis.margins(x=0.06)
    axis.grid(axis="x")
    axis.spines["left"].set_visible(False)
    axis.tick_params(axis="y", length=0)


def said(found: Sequence[Mark]) -> str:
    """Say how many methods are above Local and above FedAvg, and by how much the first of them."""
    parts = []
    for anchor in ANCHORS:
        base = next((mark for mark in found if mark[1] == anchor), None)
        if base is not None:
            others = [mark for mark in found if mark[1] not in ANCHORS]
            above = [mark for mark in others if mark[3] > base[3]]
            most = f", {above[0][0]} by {above[0][3] - base[3]:.1f} points" if above else ""
            parts.append(f"{len(above)} of {len(others)} are above {title(anchor)}{most}")
    return "; ".join(parts)
