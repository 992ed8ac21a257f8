"""Figures that compare runs: curves over rounds, gains and accuracies of every client, and what a run costs."""

from collections.abc import Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..evaluate.scores import today
from ..evaluate.summary import Moment, majority, rates
from ..evaluate.summary import curves as curve
from ..units import signed, unit
from .canvas import WIDTH, sheet, styled
from .gains import compared
from .main_score import MainScore
from .names import title
from .read import Record, labels
from .style import LOOKS, Look, looks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]

CROWD = 8  # more lines than this cannot be told apart in one frame
LETTERS = 12  # of a panel's title that fit into an inch
POINTS = 200  # per line; more are not visible at the width of a page
AXIS = {
    "weighted": "{}, weighted by samples (%)",
    "mean": "{}, mean over clients (%)",
    "std": "deviation over clients (points)",
    "loss": "loss",
}


def curves(runs: Sequence[Record], *, figure: str = "weighted", series: str = "test", width: float = WIDTH) -> "Figure":
    """Draw a figure over rounds, with a band of one deviation over seeds; many methods get a panel each."""
    if figure not in AXIS:
        raise InputError(f"there is no curve of '{figure}'; there are {', '.join(AXIS)}")
    scale = 1.0 if figure == "loss" else 100.0
    lines = [_line(run, figure, series, scale) for run in runs]
    guess = 100 * majority(runs[0].clients)[figure]["mean"] if figure in ("weighted", "mean") else None
    with styled():
        draw = _panels if len(runs) > CROWD else _frame
        return draw(runs, lines, guess, AXIS[figure].format(MainScore.of(runs, series).name), width)


def gains(runs: Sequence[Record], over: str = "local", *, moment: Moment = "last", width: float = WIDTH) -> "Figure | None":
    """Draw what every client gains over the run of method ``over``, sorted; ``None`` if nothing can be compared.

    A client that is the same in all seeds is averaged over them; otherwise every client of every seed has a bar.
    """
    found = [entry for entry in compared(runs, over, moment) if entry.gain.size]
    if not found:
        return None
    look = dict(zip(labels(runs), looks([run.method for run in runs]), strict=True))
    wide = min(4, len(found))
    high = -(-len(found) // wide)
    named = wide * max(entry.gain.size for entry in found) <= 8 * width  # seven points of width per name
    tall = 0.55 + (1.45 + 0.35 * named) * high
    with styled():
        page, axes = sheet(width, tall, nrows=high, ncols=wide, sharey=True, squeeze=False)
        for axis, entry in zip(axes.flat, found, strict=False):
            order = np.argsort(-entry.gain, kind="stable")
            _bars(axis, entry.gain[order] * 100, look[entry.name])
            if named:
                axis.set_xticks(range(len(order)), [entry.clients[number] for number in order], rotation=90, size=6.5)
            axis.set_title(f"{entry.name}\n", fontsize=8)
            up, down = int((entry.gain > 0).sum()), int((entry.gain < 0).sum())
            text = f"{up} gain, {down} lose, mean {signed(100 * entry.gain.mean(), 1)}"
            axis.text(0, 1.02, text, transform=axis.transAxes, size=7)
        for axis in axes.flat[len(found) :]:
            axis.set_visible(False)
        page.supylabel(f"gain over {title(over)} (points)", fontsize=9)
        page.supxlabel("clients, sorted by gain", fontsize=9)
    return page


def spread(runs: Sequence[Record], *, moment: Moment = "last", width: float = WIDTH) -> "Figure":
    """Draw every client's main score as a dot, one row per method, with the mean as a bar."""
    guess = np.concatenate([rates(today(clients["majority"])) for clients in runs[0].clients.values()])
    score = MainScore.of(runs)
    rows = [(score.guess, LOOKS["majority"], guess)]
    for run, name, look in zip(runs, labels(runs), looks([run.method for run in runs]), strict=True):
        rows.append((name, look, np.concatenate(list(run.accuracies(moment).values()) or [np.empty(0)])))
    dense = sum(len(values) for *_, values in rows) > 3000
    size = 4.5 if max(len(values) for *_, values in rows) < 30 else 2.8
    with styled():
        page, axis = sheet(width, 0.6 + 0.26 * len(rows))
        for place, (_, look, values) in enumerate(rows):
            values = np.sort(values[~np.isnan(values)]) * 100
            shift = 0.24 * np.resize([0, 1, -1, 0.5, -0.5], len(values))
            axis.plot(
                values,
                place + shift,
                look.marker or "o",
                ms=size,
                mew=0,
                alpha=0.55,
                color=look.colour,
                rasterized=dense,
            )
            if len(values):
                axis.plot([values.mean()] * 2, [place - 0.38, place + 0.38], color="black", lw=1.6)
        axis.set_yticks(range(len(rows)), [name for name, *_ in rows])
        axis.set_ylim(len(rows) - 0.4, -0.6)
        axis.grid(axis="x")
        axis.set_xlabel(f"{score.name} of a client (%)")
    return page


def costs(runs: Sequence[Record], *, width: float = WIDTH) -> "Figure":
    """Draw bytes up and down and the seconds of training and testing, means over seeds."""
    names = labels(runs)
    style = looks([run.method for run in runs])
    places = np.arange(len(runs))
    mean = {
        field: np.array([np.mean(run.total(field)) for run in runs])
        for field in ("bytes_up", "bytes_down", "seconds", "seconds_train", "seconds_test")
    }
    most = max(mean["bytes_up"].max(), mean["bytes_down"].max())
    size, scale = unit(most)
    with styled():
        page, (left, right) = sheet(width, 0.95 + 0.34 * len(runs), ncols=2, sharey=True)
        for shift, field, hatch in ((-0.2, "bytes_up", ""), (0.2, "bytes_down", "////")):
            values = mean[field] / size
            faces = [look.colour if not hatch else "white" for look in style]
            edges = [look.colour for look in style]
            left.barh(places + shift, values, 0.36, color=faces, edgecolor=edges, hatch=hatch, lw=0.6)
            for place, value in zip(places + shift, values, strict=True):
                left.annotate(f"{value:.3g}", (value, place), (3, 0), textcoords="offset points", va="center", size=7)
        start = np.zeros(len(runs))
        rest = np.maximum(mean["seconds"] - mean["seconds_train"] - mean["seconds_test"], 0)
        parts = (
            ("training", mean["seconds_train"], "#555555"),
            ("testing", mean["seconds_test"], "#a9a9a9"),
            ("rest", rest, "#e3e3e3"),
        )
        for name, values, colour in parts:
            right.barh(places, values, 0.5, left=start, color=colour, edgecolor="#333333", lw=0.4, label=name)
            start = start + values
        for place, value in zip(places, start, strict=True):
            right.annotate(f"{value:.3g}", (value, place), (3, 0), textcoords="offset points", va="center", size=7)
        left.set_yticks(places, names)
        left.set_ylim(len(runs) - 0.4, -0.6)
        left.set_xlabel(f"whole run ({scale}): filled = up, hatched = down")
        right.set_xlabel("whole run (seconds)")
        right.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)
        for axis in (left, right):
            axis.grid(axis="x")
            axis.grid(visible=False, axis="y")
            axis.set_xlim(0, 1.14 * max(most / size if axis is left else start.max(), 1e-9))
    return page


def labelled(figure: "Figure") -> bool:
    """Whether the clients' names stand below the bars of a figure of gains."""
    return any(len(axis.get_xticks()) for axis in figure.axes if axis.get_visible())


def cut(figure: "Figure") -> bool:
    """Whether the axis of a figure of curves begins above the lowest point of a curve."""
    axis = figure.axes[0]
    lowest = min(float(np.nanmin(np.asarray(line.get_ydata(), float))) for line in axis.lines)
    return lowest < float(axis.get_ylim()[0])


def _line(run: Record, figure: str, series: str, scale: float) -> tuple[Array, Array, Array]:
    """Rounds, means and deviations over seeds, thinned to what can be seen."""
    found = curve(run.rounds, series=series)
    rounds = np.array(found["round"], float)
    mean, std = (np.array(found[figure][key], float) * scale for key in ("mean", "std"))
    if len(rounds) > POINTS:
        kept = np.unique(np.linspace(0, len(rounds) - 1, POINTS).round().astype(int))
        return rounds[kept], mean[kept], std[kept]
    return rounds, mean, std


def _draw(axis: Any, line: tuple[Array, Array, Array], look: Look, offset: int = 0, **options: Any) -> None:
    rounds, mean, std = line
    if std.any():
        axis.fill_between(rounds, mean - std, mean + std, color=look.colour, alpha=0.16, lw=0)
    every = max(1, len(rounds) // 7)
    marks = (offset % every, every)
    axis.plot(rounds, mean, color=look.colour, ls=look.dash, marker=look.marker, markevery=marks, **options)


def _floor(lines: Sequence[tuple[Array, Array, Array]], guess: float | None) -> float | None:
    """The lowest value once a tenth of the rounds is over: the first climb would squeeze everything else."""
    late = [mean[rounds >= rounds[-1] / 10].min() for rounds, mean, _ in lines if len(rounds) > 10]
    return float(min([*late, guess] if guess is not None else late)) if len(late) == len(lines) else None


def _limits(axis: Any, lines: Sequence[tuple[Array, Array, Array]], guess: float | None, label: str) -> None:
    low = _floor(lines, guess) if label.endswith(" (%)") else None
    top = max(float(np.nanmax(mean + std)) for _, mean, std in lines)
    if low is not None and top > low:
        axis.set_ylim(low - 0.06 * (top - low), top + 0.05 * (top - low))


def _frame(
    runs: Sequence[Record], lines: Sequence[tuple[Array, Array, Array]], guess: float | None, label: str, width: float
) -> "Figure":
    page, axis = sheet(width, 3.5)
    chosen = looks([run.method for run in runs])
    order = sorted(range(len(runs)), key=lambda number: -lines[number][1][-1])
    for number in order:
        _draw(axis, lines[number], chosen[number], offset=number, label=labels(runs)[number])
    if guess is not None:
        axis.axhline(guess, color=LOOKS["majority"].colour, ls=LOOKS["majority"].dash, lw=1, label=MainScore.of(runs).guess)
    _limits(axis, lines, guess, label)
    axis.xaxis.get_major_locator().set_params(integer=True)
    axis.set_xlabel("round")
    axis.set_ylabel(label)
    axis.margins(x=0.02)
    page.legend(loc="outside right upper", handlelength=3)
    return page


def _panels(
    runs: Sequence[Record], lines: Sequence[tuple[Array, Array, Array]], guess: float | None, label: str, width: float
) -> "Figure":
    """One panel per method, in front of the range of all methods, with Local and FedAvg to compare with."""
    wide = 5
    high = -(-len(runs) // wide)
    titles = [fill(name, int(LETTERS * width / wide)) for name in labels(runs)]
    tall = 1.35 + 0.14 * max(title.count("\n") for title in titles)
    page, axes = sheet(width, 0.6 + tall * high, nrows=high, ncols=wide, sharex=True, sharey=True, squeeze=False)
    chosen = looks([run.method for run in runs])
    shared = min((line[0] for line in lines), key=lambda rounds: float(rounds[-1]))
    stack = np.stack([np.interp(shared, rounds, mean) for rounds, mean, _ in lines])
    anchors = [number for number, run in enumerate(runs) if run.method in ("local", "fedavg")]
    line = LOOKS["majority"]
    for number, (axis, name) in enumerate(zip(axes.flat, titles, strict=False)):
        axis.fill_between(shared, stack.min(0), stack.max(0), color="#ececec", lw=0, label="range of all methods")
        for anchor in anchors:
            if anchor != number:
                look, text = chosen[anchor], labels(runs)[anchor]
                axis.plot(*lines[anchor][:2], color=look.colour, ls=look.dash, lw=0.7, label=text)
        _draw(axis, lines[number], chosen[number], lw=1.5, ms=3)
        if guess is not None:
            axis.axhline(guess, color=line.colour, ls=line.dash, lw=0.7, label=MainScore.of(runs).guess)
        axis.set_title(name, fontsize=8)
        box = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}  # a line may run below it
        axis.text(0.98, 0.06, f"{lines[number][1][-1]:.1f}", transform=axis.transAxes, ha="right", size=8, bbox=box)
    for axis in axes.flat[len(runs) :]:
        axis.set_visible(False)
    _limits(axes.flat[0], lines, guess, label)
    page.legend(*axes.flat[len(runs) - 1].get_legend_handles_labels(), loc="outside upper left", ncols=4)
    page.supylabel(label, fontsize=9)
    page.supxlabel("round", fontsize=9)
    return page


def _bars(axis: Any, values: Array, look: Look) -> None:
    """Gains filled, losses hatched; a crowd becomes one outline, which is lighter than a thousand bars."""
    places = np.arange(len(values))
    if len(values) > 80:
        axis.stairs(np.maximum(values, 0), fill=True, color=look.colour)
        axis.stairs(np.minimum(values, 0), fill=True, facecolor="white", edgecolor="#333333", hatch="////", lw=0.5)
    else:
        up = values >= 0
        axis.bar(places[up], values[up], 0.82, color=look.colour)
        axis.bar(places[~up], values[~up], 0.82, facecolor="white", edgecolor="#333333", hatch="////", lw=0.5)
    axis.axhline(0, color="#333333", lw=0.7)
    axis.set_xticks([])
