"""Figures of analyses: lines over rounds, bars and ranges per client, matrices, maps of points, sheets of pictures."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .canvas import WIDTH, sheet, styled
from .names import shorten
from .style import DOTS, LONG, MIXED, Look

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TINTS = ("#0b63a5", "#d1410c", "#00876c", "#7a5195", "#b5651d", "#6e6e6e", "#b0307f", "#74b816", "#1098ad", "#e0a100")
MARKS = "os^DvPXh*d"
DASHES = ("-", LONG, DOTS, MIXED)
SHADES = "Blues"
CROWD = 12  # more lines than this are drawn faintly, with their mean


Points = tuple[ArrayLike, ArrayLike, ArrayLike]  # places on the map, labels, owners


class Line(NamedTuple):
    """One line of a figure; ``None`` leaves a gap."""

    label: str
    x: Sequence[float]
    y: Sequence[float | None]
    faint: bool = False


class Frame(NamedTuple):
    """One panel of lines."""

    title: str
    lines: Sequence[Line]
    ylabel: str
    xlabel: str = "round"


def look(number: int) -> Look:
    """Return the look of the nth line: no two of the first forty share tint and dash, nor marker and dash."""
    return Look(TINTS[number % len(TINTS)], DASHES[(number // len(TINTS) + number) % len(DASHES)], MARKS[number % len(MARKS)])


def lines(frames: Sequence[Frame], *, width: float = WIDTH, legend: bool = True) -> "Figure":
    """Draw panels of lines side by side, at most three in a row."""
    wide = min(3, len(frames))
    high = -(-len(frames) // wide)
    with styled():
        page, axes = sheet(width, 0.5 + 2.6 * high, nrows=high, ncols=wide, squeeze=False)
        named: dict[str, Any] = {}
        for axis, frame in zip(axes.flat, frames, strict=False):
            for number, line in enumerate(frame.lines):
                named.setdefault(line.label, _line(axis, line, number))
            axis.set_title(frame.title)
            axis.set_xlabel(frame.xlabel)
            axis.set_ylabel(frame.ylabel)
            if frame.xlabel == "round":
                axis.xaxis.get_major_locator().set_params(integer=True)
        for axis in axes.flat[len(frames) :]:
            axis.set_visible(False)
        shown = {label: handle for label, handle in named.items() if label}
        if legend and len(shown) > 1:
            page.legend(shown.values(), shown.keys(), loc="outside lower center", ncols=min(5, len(shown)), handlelength=3)
    return page


def _line(axis: Any, line: Line, number: int) -> Any:
    y = np.array([np.nan if value is None else value for value in line.y], float)
    if line.faint:
        (drawn,) = axis.plot(line.x, y, color="#9aa5b1", lw=0.7, alpha=0.6)
        return drawn
    style = look(number)
    every = max(1, len(y) // 8)
    (drawn,) = axis.plot(line.x, y, color=style.colour, ls=style.dash, marker=style.marker, markevery=every)
    return drawn


def bars(groups: Mapping[str, Sequence[float | None]], names: Sequence[str], ylabel: str, *, width: float = WIDTH) -> "Figure":
    """Draw one group of bars per client or domain; the kinds of bars differ in tint and hatching."""
    what, short = shorten(names)
    thick = 0.8 / len(groups)
    with styled():
        page, axis = sheet(width, 2.9)
        for number, (label, values) in enumerate(groups.items()):
            heights = np.array([np.nan if value is None else value for value in values], float)
            places = np.arange(len(heights)) + (number - (len(groups) - 1) / 2) * thick
            face = TINTS[number % len(TINTS)]
            hatch = ("", "////", "....", "xxxx")[number % 4]
            fill = "white" if hatch else face
            axis.bar(places, heights, 0.92 * thick, color=fill, edgecolor=face, hatch=hatch, lw=0.7, label=label)
        _names(axis, short, what)
        axis.set_ylabel(ylabel)
        if len(groups) > 1:
            page.legend(loc="outside upper left", ncols=4)
    return page


def ranges(
    quantiles: Sequence[Sequence[float]], names: Sequence[str], ylabel: str, *, centre: float | None = None, width: float = WIDTH
) -> "Figure":
    """Draw per client the seven quantiles 0, 5, 25, 50, 75, 95, 100 % as whisker, box and median."""
    what, short = shorten(names)
    rows = np.asarray(quantiles, float)
    places = np.arange(len(rows))
    with styled():
        page, axis = sheet(width, 2.9)
        axis.vlines(places, rows[:, 0], rows[:, 6], color="#b9c4d0", lw=0.8)
        axis.vlines(places, rows[:, 1], rows[:, 5], color="#4a6f94", lw=1.4)
        axis.bar(places, rows[:, 4] - rows[:, 2], 0.6, rows[:, 2], color="#c7d8ea", edgecolor="#0b63a5", lw=0.8)
        axis.hlines(rows[:, 3], places - 0.3, places + 0.3, color="#d1410c", lw=1.6)
        if centre is not None:
            axis.axhline(centre, color="#444444", ls=DOTS, lw=0.9)
        _names(axis, short, what)
        axis.set_ylabel(ylabel)
    return page


def matrices(tables: Mapping[str, ArrayLike], names: Sequence[str], label: str, *, width: float = WIDTH) -> "Figure":
    """Draw square tables (clients × clients) side by side, each on its own scale, with values where they fit."""
    what, short = shorten(names)
    found = {title: np.asarray(values, float) for title, values in tables.items()}
    with styled():
        side = (width - 1.0) / len(found)
        page, axes = sheet(min(width, 1.2 + 4.6 * len(found)), min(side, 4.2) + 0.5, ncols=len(found), squeeze=False)
        for axis, (title, table) in zip(axes.flat, found.items(), strict=True):
            shown = np.where(np.eye(len(table), dtype=bool), np.nan, table)  # everybody is like oneself
            low, high = float(np.nanmin(shown)), float(np.nanmax(shown))
            image = axis.imshow(shown, cmap=SHADES, vmin=low, vmax=max(high, low + 1e-9))
            page.colorbar(image, ax=axis, shrink=0.8, label=label)
            axis.set_title(title)
            axis.grid(visible=False)
            _ticks(axis, short, what)
            if len(table) <= 8:
                _print(axis, shown, low, high)
    return page


def heat(
    table: ArrayLike, rows: Sequence[str], xlabel: str, label: str, columns: Sequence[str] = (), *, width: float = WIDTH
) -> "Figure":
    """Draw one table, rows by name, as shades; few columns may have names too."""
    values = np.asarray(table, float)
    with styled():
        page, axis = sheet(width, 1.0 + min(5.0, 0.24 * len(values)) + (0.5 if 0 < len(columns) <= 24 else 0))
        image = axis.imshow(values, cmap=SHADES, aspect="auto", interpolation="nearest")
        axis.set_yticks(range(len(rows)), rows)
        axis.set_xlabel(xlabel)
        if 0 < len(columns) <= 24:
            axis.set_xticks(range(len(columns)), columns, rotation=60, ha="right", size=6.5)
        axis.grid(visible=False)
        page.colorbar(image, ax=axis, label=label)
    return page


def maps(panels: Mapping[str, Points], classes: Sequence[str], clients: Sequence[str], *, width: float = WIDTH) -> "Figure":
    """Draw maps of points (points, labels, owners): a tint per class, a marker per client."""
    with styled():
        tall = (width - 0.2) / len(panels) * (0.92 if len(panels) > 1 else 0.6)
        page, axes = sheet(width, tall + 0.3, ncols=len(panels), squeeze=False)
        for axis, (title, (points, labels, owners)) in zip(axes.flat, panels.items(), strict=True):
            _points(axis, np.asarray(points, float), np.asarray(labels), np.asarray(owners))
            axis.set_title(title)
            axis.set_xticks([])
            axis.set_yticks([])
            axis.grid(visible=False)
        _keys(page, classes, clients, {int(label) for _, labels, _ in panels.values() for label in np.asarray(labels)})
    return page


def _points(axis: Any, points: NDArray[Any], labels: NDArray[Any], owners: NDArray[Any]) -> None:
    for owner in sorted(set(owners.tolist())):
        for label in sorted(set(labels.tolist())):
            here = points[(owners == owner) & (labels == label)]
            if len(here):
                tint, mark = TINTS[label % len(TINTS)], MARKS[owner % len(MARKS)]
                axis.scatter(*here.T, s=9, color=tint, marker=mark, lw=0, alpha=0.75, rasterized=len(points) > 2000)


def _keys(page: "Figure", classes: Sequence[str], clients: Sequence[str], shown: set[int]) -> None:
    from matplotlib.lines import Line2D

    handles = []
    if len(shown) <= 20:
        handles = [Line2D([], [], color=TINTS[n % len(TINTS)], marker="s", ls="", label=classes[n]) for n in sorted(shown)]
    if 1 < len(clients) <= 10:
        handles += [Line2D([], [], color="#444444", marker=MARKS[n % len(MARKS)], ls="", label=c) for n, c in enumerate(clients)]
    if handles:
        page.legend(handles=handles, loc="outside lower center", ncols=min(8, len(handles)), fontsize=7, columnspacing=1)


def gallery(
    rows: Mapping[str, ArrayLike], captions: Mapping[str, Sequence[str]] | None = None, *, width: float = WIDTH
) -> "Figure":
    """Draw named rows of pictures (k × channels × height × width, in [0, 1]), with a caption under each."""
    found = {name: _pictures(pixels) for name, pixels in rows.items()}
    wide = max(len(pixels) for pixels in found.values())
    side = min(1.15, (width - 1.1) / wide)
    captions = captions or {}
    with styled():
        page, axes = sheet(1.1 + side * wide, (side + 0.22) * len(found), nrows=len(found), ncols=wide, squeeze=False)
        for strip, (name, pixels) in zip(axes, found.items(), strict=True):
            for number, axis in enumerate(strip):
                axis.set_xticks([])
                axis.set_yticks([])
                axis.grid(visible=False)
                for edge in axis.spines.values():
                    edge.set_visible(False)
                if number < len(pixels):
                    axis.imshow(pixels[number], vmin=0, vmax=1, cmap="gray", interpolation="nearest")
                    axis.set_xlabel(captions[name][number] if name in captions else "", fontsize=6.5, labelpad=2)
            strip[0].set_ylabel(name, rotation=0, ha="right", va="center", fontsize=8)
    return page


def heated(images: ArrayLike, maps: ArrayLike) -> NDArray[np.float64]:
    """Return pictures with a map in [0, 1] laid over them as warm colour."""
    from matplotlib import colormaps

    base = np.stack(_pictures(images))
    if base.ndim == 3:
        base = np.repeat(base[..., None], 3, -1)
    weight = np.asarray(maps, float)[..., None]
    colour = colormaps["inferno"](weight[..., 0])[..., :3]
    return np.moveaxis(np.clip((1 - 0.55 * weight) * base * 0.8 + 0.55 * weight * colour + 0.1 * colour, 0, 1), -1, 1)


def _pictures(pixels: ArrayLike) -> list[NDArray[np.float64]]:
    stack = np.clip(np.asarray(pixels, float), 0, 1)
    return [picture[0] if len(picture) == 1 else np.moveaxis(picture, 0, -1) for picture in stack]


def _names(axis: Any, short: Sequence[str], what: str) -> None:
    long = max(map(len, short), default=0) > 3 and len(short) > 6
    step = max(1, len(short) // 40)
    axis.set_xticks(range(0, len(short), step), short[::step], rotation=60 if long else 0, ha="right" if long else "center")
    if what:
        axis.set_xlabel(what)


def _ticks(axis: Any, short: Sequence[str], what: str) -> None:
    step = max(1, len(short) // 12)
    places = range(0, len(short), step)
    axis.set_xticks(places, short[::step], rotation=60 if max(map(len, short)) > 3 else 0)
    axis.set_yticks(places, short[::step])
    if what:
        axis.set_xlabel(what)


def _print(axis: Any, table: NDArray[np.float64], low: float, high: float) -> None:
    for (row, column), value in np.ndenumerate(table):
        if not np.isnan(value):
            dark = value > low + 0.6 * (high - low)
            axis.text(column, row, f"{value:.2f}", ha="center", va="center", size=7, color="white" if dark else "#222222")
