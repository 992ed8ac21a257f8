"""A table as text to paste elsewhere, and every figure of a page as files."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from ..disk import writing
from ..errors import suggest
from . import figures, pictures
from .canvas import FORMATS as DRAWN
from .canvas import save
from .read import Record, options
from .tables import Table, comparison, csv, latex, markdown, records

ANCHORS = ("local", "fedavg")  # what every method is measured against
MOMENTS = ("best", "last", "validation")
USUAL = (*(f"{moment}.{figure}" for moment in MOMENTS for figure in ("weighted", "mean")), "cost")  # what fits a page


def _markdown(table: Table) -> str:
    below = "".join(f"- {note}\n" for note in table.notes)
    return f"{markdown(table)}\n{below}" if below else markdown(table)


def _latex(table: Table) -> str:
    return "".join(f"% {note}\n" for note in table.notes) + latex(table)


def _json(table: Table) -> str:
    return json.dumps({"table": records(table), "notes": list(table.notes)}, indent=1) + "\n"


WRITERS: dict[str, Callable[[Table], str]] = {"csv": csv, "json": _json, "latex": _latex, "md": _markdown}


def text(runs: Sequence[Record], kind: str, columns: Sequence[str] = ()) -> str:
    """Return the table of runs in a format; of the columns those named by key or group, else those that fit the format."""
    if kind not in WRITERS:
        raise suggest("format", kind, [*WRITERS, "html"])
    table = comparison(runs, **options(runs))
    chosen = columns or (USUAL if kind in ("latex", "md") else ())
    return WRITERS[kind](table.pick(*chosen) if chosen else table)


def draw(runs: Sequence[Record], folder: Path) -> list[Path]:
    """Write every figure of the runs' page as PNG, SVG and PDF; return the files."""
    series, first = options(runs)["series"], next(iter(runs[0].clients.values()))
    made = {
        "curves": figures.curves(runs, series=series),
        "loss": figures.curves(runs, series=series, figure="loss"),
        **{f"gains-over-{over}": figures.gains(runs, over) for over in ANCHORS},
        "clients": figures.spread(runs),
        "labels": pictures.bubbles(first["labels"], first["names"], first["classes"]),
        "costs": figures.costs(runs),
    }
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        drawn = {name: figure for name, figure in made.items() if figure is not None}
        return [save(figure, folder / f"{name}.{kind}") for name, figure in drawn.items() for kind in DRAWN]
