"""The figure of a table: what was published and what was measured, row by row, each with its deviation over runs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..report.canvas import WIDTH, sheet, styled
from ..report.style import looks
from .recipe import Recipe

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from .show import Shown

WIDE = 3  # panels beside each other


def compared(found: Sequence["Shown"]) -> list["Shown"]:
    """Return the cells that have a published value and ours."""
    return [a for a in found if a.difference is not None]


def beside(recipe: Recipe, found: Sequence["Shown"], width: float = WIDTH) -> "Figure":
    """Draw a panel per column: published values as open squares, ours in the method's colour, bars over runs."""
    from .show import heading

    shown = compared(found)
    columns = [column for column in recipe.columns if any(a.column.id == column.id for a in shown)]
    rows = [row for row in recipe.rows if any(a.row.id == row.id for a in shown)]
    colours = {row.id: look for row, look in zip(rows, looks([row.method or row.id for row in rows]), strict=True)}
    wide = min(WIDE, len(columns))
    high = -(-len(columns) // wide)
    with styled():
        page, axes = sheet(width, high * (0.8 + 0.26 * len(rows)) + 0.3, nrows=high, ncols=wide, squeeze=False, sharey=True)
        for axis, column in zip(axes.flat, columns, strict=False):
            own = {a.row.id: a for a in shown if a.column.id == column.id}
            for place, row in enumerate(rows):
                if row.id in own:
                    _row(axis, place, own[row.id], colours[row.id])
            axis.set_title(heading(recipe, column))
            axis.set_xlabel(next(iter(own.values())).reading.unit)
            axis.set_yticks(range(len(rows)), [row.label for row in rows])
            axis.set_ylim(len(rows) - 0.4, -0.6)
            axis.grid(axis="x")
        for axis in axes.flat[len(columns) :]:
            axis.set_visible(False)
        page.legend(*_legend(), loc="outside lower center", ncols=2)
    return page


def _row(axis: Any, place: int, answer: "Shown", look: Any) -> None:
    ours, printed = answer.ours, answer.published
    assert printed is not None
    axis.plot([printed.mean, ours.mean], [place, place], color="#c5ccd3", lw=1.2, zorder=1)
    axis.errorbar(
        printed.mean, place, xerr=printed.std or None, fmt="s", mfc="white", mec="#555555", ecolor="#555555", ms=5, capsize=2
    )
    spread = ours.std if ours.seeds > 1 else None
    axis.errorbar(ours.mean, place, xerr=spread, fmt="o", color=look.colour, ms=5, capsize=2, zorder=3)


def _legend() -> tuple[list[Any], list[str]]:
    from matplotlib.lines import Line2D

    open_square = Line2D([], [], ls="", marker="s", mfc="white", mec="#555555")
    return [open_square, Line2D([], [], ls="", marker="o", color="#555555")], ["published", "measured"]
