"""A table's numbers beside the published ones: as text, Markdown, CSV, LaTeX, and as a page."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..disk import put, put_json
from ..report.canvas import save
from ..report.tables import MISSING, Column, Printed, Row, Table, csv, latex, markdown
from ..units import signed
from .agree import agreement, sentence
from .beside import beside, compared
from .origin import origin
from .plan import Plan
from .recipe import Heading, Published, Reading, Recipe
from .run import alone, recalled
from .values import Value, value


@dataclass(frozen=True)
class Shown:
    """One cell: what we found, what was printed, and how the experiments differ."""

    row: Heading
    column: Heading
    reading: Reading
    published: Published | None
    ours: Value
    run: Path | None
    reduced: tuple[str, ...]
    comparable: bool  # False where another data set stands in

    @property
    def difference(self) -> float | None:
        """Ours minus the published value."""
        if not self.comparable or self.ours.mean is None or self.published is None or self.published.mean is None:
            return None
        return self.ours.mean - self.published.mean


def answers(recipe: Recipe, folder: Path, only: Sequence[Plan] | None = None) -> list[Shown]:
    """Return every cell that was ever asked for in ``folder`` (or of ``only``), in the table's order."""
    known = recalled(folder / "cells.json")
    wanted = None if only is None else {plan.name for plan in only}
    found = []
    for cell in recipe.cells():
        name = f"{cell.row.id}/{cell.column.id}"
        entry = known.get(name)
        if entry is None or (wanted is not None and name not in wanted):
            continue
        reading = recipe.reading(cell.row, cell.column)
        path = folder / entry["run"] if entry.get("run") else None
        if path is None:
            ours = Value(None, note=entry.get("missing", ""))
        elif entry.get("refused") and not path.exists():
            ours = Value(None, note=entry["refused"])
        else:
            ours = value(path, reading, entry.get("place"))
        reduced = _seeds(entry.get("reduced", []), ours, len(recipe.settings(cell.row, cell.column)["seeds"]))
        comparable = not entry.get("stand_in", False)
        found.append(Shown(cell.row, cell.column, reading, cell.published, ours, path, reduced, comparable))
    return found


def _seeds(reduced: Sequence[str], ours: Value, planned: int) -> tuple[str, ...]:
    """Say how many seeds there are now: later calls may have added some."""
    kept = [note for note in reduced if not note.endswith(" seeds")]
    if 0 < ours.seeds < planned:
        kept.append(f"{ours.seeds} of {planned} seeds")
    if ours.stopped:
        span = sorted({min(ours.stopped), max(ours.stopped)})
        kept.append(f"stopped {_how(ours)}, after {' to '.join(map(str, span))} of {ours.planned} rounds")
    elif ours.rounds < ours.planned:
        kept.append(f"unfinished: {ours.rounds} of {ours.planned} rounds so far")
    if ours.under_way:
        kept.append(f"seed {', '.join(map(str, sorted(ours.under_way)))} under way, not counted yet")
    return tuple(kept)


def _how(ours: Value) -> str:
    """Say whether the seeds that ended early were flat there; with ``--at-most`` some may be and others not."""
    if ours.flat == len(ours.stopped):
        return "when flat"
    return f"{ours.flat} of {len(ours.stopped)} seeds when flat, the others while rising" if ours.flat else "while rising"


def table(recipe: Recipe, found: Sequence[Shown]) -> Table:
    """Return ours, the published value and the difference for every column that was asked for."""
    wide = 3 if recipe.numbers == "printed" else 1  # what is only drawn cannot be compared
    columns: list[Column] = []
    shown = [column for column in recipe.columns if any(a.column.id == column.id for a in found)]
    rows = [row for row in recipe.rows if any(a.row.id == row.id for a in found)]
    cells: dict[str, list[Printed]] = {row.id: [] for row in rows}
    for column in shown:
        reading = next(a.reading for a in found if a.column.id == column.id)
        above = heading(recipe, column)
        columns += [
            Column(f"{column.id}.ours", above, f"ours {reading.unit}", 1.0, reading.digits),
            Column(f"{column.id}.published", above, "paper", 1.0, reading.digits),
            Column(f"{column.id}.difference", above, "difference", 1.0, reading.digits),
        ][:wide]
        own = {a.row.id: a for a in found if a.column.id == column.id}
        for row in rows:
            cells[row.id] += _cells(own.get(row.id), reading)[:wide]
    titled = [Row(row.method or row.id, _title(row), tuple(cells[row.id])) for row in rows]
    return Table(tuple(columns), tuple(titled), tuple(reductions(found)))


def heading(recipe: Recipe, column: Heading) -> str:
    """Return what stands above a column: the heading of its group and its own."""
    return f"{column.group}, {column.label}" if column.group else column.label


def _title(row: Heading) -> str:
    return f"{row.group}, {row.label}" if row.group else row.label


def _cells(answer: Shown | None, reading: Reading) -> list[Printed]:
    if answer is None:
        return [Printed(None, None, MISSING)] * 3
    digits, ours, printed = reading.digits, answer.ours, answer.published
    own = Printed(None, None, MISSING)
    if ours.mean is not None:
        plus = f"{ours.std:.{digits}f}" if ours.seeds > 1 and ours.std is not None else ""
        own = Printed(ours.mean, ours.std, f"{ours.mean:.{digits}f}", plus)
    theirs = Printed(None, None, printed.note if printed is not None and printed.note else MISSING)
    if printed is not None and printed.mean is not None:
        plus = "" if printed.std is None else f"{printed.std:.{digits}f}"
        theirs = Printed(printed.mean, printed.std, f"{printed.mean:.{digits}f}", plus)
    gap = answer.difference
    apart = Printed(None, None, MISSING) if gap is None else Printed(gap, None, signed(gap, digits))
    return [own, theirs, apart]


def reductions(found: Sequence[Shown]) -> list[str]:
    """Say what is smaller than in the paper; what holds for all cells is said once."""
    ran = [a for a in found if a.run is not None]
    if not ran:
        return []
    shared = [note for note in ran[0].reduced if all(note in a.reduced for a in ran)]
    lines = [f"All cells: {'; '.join(shared)}."] if shared else []
    apart: dict[str, list[str]] = {}
    for a in ran:
        for note in a.reduced:
            if note not in shared:
                apart.setdefault(note, []).append(f"{a.row.label} · {a.column.label}")
    for note, where in apart.items():
        lines.append(f"{note}: {_places(where, ran, note)}.")
    lines += [f"{a.column.label}: {a.ours.note}." for a in ran if a.ours.mean is not None and a.ours.note]
    if any(not a.comparable for a in ran):
        lines.append("Where another data set stands in there is nothing to compare with.")
    return lines


def _places(where: Sequence[str], ran: Sequence[Shown], note: str) -> str:
    columns = dict.fromkeys(a.column.label for a in ran if note in a.reduced)
    whole = [c for c in columns if all(note in a.reduced for a in ran if a.column.label == c)]
    if sum(1 for a in ran if a.column.label in whole) == len(where):
        return ", ".join(whole)
    names = list(dict.fromkeys(where))  # columns under two headings may have one name
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")


def records(recipe: Recipe, found: Sequence[Shown]) -> list[dict[str, Any]]:
    """Return one object per cell, for JSON."""
    return [
        {
            "row": a.row.id,
            "column": a.column.id,
            "measure": a.reading.measure,
            "unit": a.reading.unit,
            "ours": None
            if a.ours.mean is None
            else {"mean": a.ours.mean, "std": a.ours.std, "seeds": a.ours.seeds, "each": dict(a.ours.each)},
            "published": None if a.published is None else a.published.model_dump(),
            "difference": a.difference,
            "rounds": a.ours.rounds,
            "note": a.ours.note,
            "reduced": list(a.reduced),
            "run": None if a.run is None else str(a.run.resolve()),
        }
        for a in found
    ]


def lines(found: Sequence[Shown]) -> tuple[list[str], list[list[str]]]:
    """Return headings and one row per cell, for a terminal."""
    rows = []
    for a in found:
        ours, theirs, apart = _cells(a, a.reading)
        group = f"{a.column.group}: " if a.column.group else ""
        shown = ours.both if ours.value is not None else (a.ours.note or MISSING)
        rows.append([_title(a.row), f"{group}{a.column.label}", shown, theirs.both, apart.text, a.reading.unit])
    return ["row", "column", "ours", "paper", "difference", "unit"], rows


def _agrees(recipe: Recipe, found: Sequence[Shown]) -> list[str]:
    names = {column.id: heading(recipe, column) for column in recipe.columns}
    return [f"{names[entry['column']]}: {sentence(entry)}." for entry in agreement(found)]


def write(recipe: Recipe, found: Sequence[Shown], folder: Path, command: str = "") -> dict[str, str]:
    """Write table.md, .csv, .tex and .json, the page, and the figure beside the paper; return where they are."""
    from .page import page

    made = table(recipe, found)
    below = "".join(f"\n- {note}" for note in (*made.notes, *_agrees(recipe, found), *recipe.notes, *origin(found)))
    texts = {
        "table.md": f"# {recipe.name}: {recipe.title}\n\n{recipe.shows}\n\n{markdown(made)}{below}\n",
        "table.csv": csv(made),
        "table.tex": latex(made),
    }
    with alone(folder):
        for name, text in texts.items():
            put(folder / name, text.encode())
        put_json(
            folder / "table.json",
            {"recipe": recipe.name, "cells": records(recipe, found), "agreement": agreement(found), "origin": origin(found)},
        )
        written = {name: str(folder / name) for name in (*texts, "table.json")}
        if any(a.run is not None and a.ours.rounds for a in found):
            written["report.html"] = str(page(recipe, found, made, folder, command))
        if compared(found):
            written["beside.svg"] = str(save(beside(recipe, found), folder / "beside.svg"))
    return written
