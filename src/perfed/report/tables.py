"""Tables of results: every format prints the same formatted cells, so that all agree to the last digit."""

import csv as csvs
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from ..errors import InputError, RunError
from ..evaluate.rising import rising
from ..evaluate.summary import Moment, majority, over, runaway
from ..units import signed, unit
from . import attacked, helped, measured, refused, unseen
from .guarded import guarded
from .main_score import MainScore
from .read import Record, labels

MISSING = "–"
STILL = "Curves still rise"
UNFINISHED = "is unfinished"


@dataclass(frozen=True)
class Column:
    """What stands in a column: its key such as ``best.weighted``, the heading above its group, its own heading."""

    key: str
    above: str
    title: str
    scale: float = 100.0
    digits: int = 2
    ranked: bool = False
    higher: bool = True  # whether more is better

    @property
    def group(self) -> str:
        """The key's first part: ``best``, ``last``, ``validation`` or ``cost``."""
        return self.key.split(".")[0]

    @property
    def heading(self) -> str:
        """Both headings in one line."""
        return f"{self.above}: {self.title}"


@dataclass(frozen=True)
class Printed:
    """A value with its deviation over seeds, once as numbers and once as printed."""

    value: float | None
    spread: float | None
    text: str
    plus: str = ""
    mark: Literal["", "best", "second"] = ""

    @property
    def both(self) -> str:
        """``93.12 ± 0.34``, or the value alone where there is one seed."""
        return f"{self.text} ± {self.plus}" if self.plus else self.text


@dataclass(frozen=True)
class Row:
    """A method's cells, in the order of the table's columns."""

    method: str
    name: str
    cells: tuple[Printed, ...]


@dataclass(frozen=True)
class Table:
    """Columns, rows and what a reader must know beside them."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    def pick(self, *keys: str) -> "Table":
        """Return the table with only the columns whose key or group is named."""
        kept = [number for number, column in enumerate(self.columns) if column.key in keys or column.group in keys]
        if not kept:
            raise InputError(f"no column {' or '.join(keys)}; there are {', '.join(c.key for c in self.columns)}")
        rows = tuple(replace(row, cells=tuple(row.cells[number] for number in kept)) for row in self.rows)
        return replace(self, columns=tuple(self.columns[number] for number in kept), rows=rows)


def comparison(
    runs: Sequence[Record], *, report: str = "weighted", best: str = "round", series: str = "test", choose: str = "accuracy"
) -> Table:
    """Return the table of runs: the main score at three moments, its spread over clients and seeds, bytes and seconds.

    Then come other metrics where the runs measured some, and under ``protocol=pflbench`` who is helped and who is hurt.
    The first row is the majority class: each client's most frequent training label, without any learning.
    """
    options = {"report": report, "best": best, "series": series, "choose": choose}
    more = measured.names(runs, series)
    further = (*measured.columns(runs, options), *helped.columns(runs), *unseen.columns(runs), *attacked.columns(runs))
    columns = _columns(runs, best, MainScore.of(runs, series)) + tuple(Column(**own) for own in further)
    guess = _majority(runs[0])
    values = [dict.fromkeys(("best", "last", "validation"), guess) | _costs(None)]
    for run in runs:
        others = measured.values(run, more, options) | helped.values(run, runs, options) | unseen.values(run, runs, options)
        others |= attacked.values(run, runs, options)
        values.append(run.summary(**options) | _costs(run) | others)
    if all(entry["validation"] is None for entry in values[1:]):
        columns = tuple(column for column in columns if "validation" not in column.key.split("."))
    seeds = [len(runs[0].clients), *(len(run.rounds) for run in runs)]
    cells = [[_cell(entry, column, count) for column in columns] for entry, count in zip(values, seeds, strict=True)]
    marked = _mark(columns, cells)
    names = [MainScore.of(runs, series).guess, *labels(runs)]
    methods = ["majority", *(run.method for run in runs)]
    rows = tuple(Row(*row) for row in zip(methods, names, marked, strict=True))
    notes = _notes(runs, report, best, series) + measured.notes(runs, options) + helped.notes(runs) + unseen.notes(runs)
    notes += attacked.notes(runs) + refused.notes(runs)
    return Table(columns, rows, tuple(notes))


def quoted(table: Table) -> Moment:
    """Return the moment to quote where one number must do: the validated round, else the last; never one chosen on test data."""
    places = [number for number, column in enumerate(table.columns) if column.key == "validation.weighted"]
    known = bool(places) and all(row.cells[places[0]].value is not None for row in table.rows)
    return "validation" if known else "last"


def markdown(table: Table) -> str:
    """Return a Markdown table: best bold, second underlined."""
    head = ["Method", *(column.heading for column in table.columns)]
    lines = [head, ["---", *("---:" for _ in table.columns)]]
    wraps = {"": "{}", "best": "**{}**", "second": "<ins>{}</ins>"}
    for row in table.rows:
        cells = [wraps[cell.mark].format(cell.text) + (f" ± {cell.plus}" if cell.plus else "") for cell in row.cells]
        lines.append([row.name.replace("|", "\\|"), *cells])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def csv(table: Table) -> str:
    """Return comma-separated values; a column with a deviation over seeds is followed by one that holds it."""
    spread = [any(row.cells[number].plus for row in table.rows) for number in range(len(table.columns))]
    head = ["method"]
    for column, wide in zip(table.columns, spread, strict=True):
        head += [column.heading, f"{column.heading} ± over seeds"] if wide else [column.heading]
    out = io.StringIO()
    writer = csvs.writer(out, lineterminator="\n")
    writer.writerow(head)
    for row in table.rows:
        line = [row.name]
        for cell, wide in zip(row.cells, spread, strict=True):
            text = "" if cell.text == MISSING else cell.text
            line += [text, cell.plus] if wide else [text]
        writer.writerow(line)
    return out.getvalue()


def latex(table: Table) -> str:
    """Return a LaTeX tabular in the style of the booktabs package: best bold, second underlined."""
    above = groups(table.columns)
    rules, start = [], 2
    for _, width in above:
        rules.append(f"\\cmidrule(lr){{{start}-{start + width - 1}}}")
        start += width
    top = " & ".join(["", *(f"\\multicolumn{{{width}}}{{c}}{{{_tex(group)}}}" for group, width in above)])
    head = " & ".join(["Method", *(_tex(column.title) for column in table.columns)])
    lines = [f"\\begin{{tabular}}{{l{'r' * len(table.columns)}}}", "\\toprule", f"{top} \\\\", " ".join(rules)]
    lines += [f"{head} \\\\", "\\midrule"]
    wraps = {"": "{}", "best": "\\textbf{{{}}}", "second": "\\underline{{{}}}"}
    for row in table.rows:
        cells = [_tex(row.name)]
        for cell in row.cells:
            text = "--" if cell.text == MISSING else wraps[cell.mark].format(cell.text)
            cells.append(f"{text} $\\pm$ {cell.plus}" if cell.plus else text)
        lines.append(f"{' & '.join(cells)} \\\\")
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}", ""])


def plain(table: Table) -> list[list[str]]:
    """Return heading and rows as text, for a terminal."""
    head = ["Method", *(column.heading for column in table.columns)]
    return [head, *([row.name, *(cell.both for cell in row.cells)] for row in table.rows)]


SHORT = helped.SHORT | {  # for a terminal: heading of a column
    "best.weighted": "best, weighted",
    "best.mean": "best, mean",
    "best.std": "std clients",
    "last.weighted": "last, weighted",
    "validation.weighted": "validated",
    "unseen.accuracy": "unseen",
    "unseen.gap": "− seen",
    "attack.honest": "honest",
    "attack.backdoor": "backdoor",
    "cost.bytes_up": "",  # its own title has the unit
    "cost.seconds": "s",
}


def short(table: Table) -> tuple[list[str], list[list[str]]]:
    """Return headings and rows of the columns that fit a terminal."""
    kept = [number for number, column in enumerate(table.columns) if column.key in SHORT]
    heads = [table.columns[n].title if table.columns[n].key == "cost.bytes_up" else _short(table.columns[n]) for n in kept]
    return ["method", *heads], [[row.name, *(row.cells[number].both for number in kept)] for row in table.rows]


def _short(column: Column) -> str:
    named, _, _ = column.title.rpartition(", weighted %")
    return f"{SHORT[column.key]} {named}" if named else SHORT[column.key]  # what is no accuracy is named


def records(table: Table) -> list[dict[str, Any]]:
    """Return one object per row with unrounded values (fractions, bytes, seconds), for JSON."""
    return [
        {"method": row.method, "name": row.name}
        | {column.key: {"mean": cell.value, "std": cell.spread} for column, cell in zip(table.columns, row.cells, strict=True)}
        for row in table.rows
    ]


def groups(columns: Sequence[Column]) -> list[tuple[str, int]]:
    """Return the headings above the columns with the number of columns each spans."""
    found: list[tuple[str, int]] = []
    for column in columns:
        if found and found[-1][0] == column.above:
            found[-1] = (column.above, found[-1][1] + 1)
        else:
            found.append((column.above, 1))
    return found


def _columns(runs: Sequence[Record], best: str, score: MainScore) -> tuple[Column, ...]:
    top = "best round" if best == "round" else "best per client (optimistic)"
    columns = []
    for moment, above in (("best", top), ("last", "last round"), ("validation", "validated round")):
        columns += [
            Column(f"{moment}.weighted", above, f"{score.before}weighted %", ranked=True),
            Column(f"{moment}.mean", above, f"{score.before}mean %", ranked=True),
            Column(f"{moment}.std", above, "std over clients"),
            Column(f"{moment}.cv", above, "cv over clients %"),
        ]
    for way in ("up", "down"):
        largest = max(float(np.mean(run.total(f"bytes_{way}"))) for run in runs)
        size, name = unit(largest)
        columns.append(Column(f"cost.bytes_{way}", "whole run", f"{way} {name}", 1 / size, 2))
    return (*columns, Column("cost.seconds", "whole run", "seconds", 1.0, 1))


def _majority(run: Record) -> dict[str, Any]:
    try:
        return majority(run.clients)
    except KeyError as error:
        raise RunError(f"'{run.path}' has a clients.json without {error}; it cannot be compared with guessing") from error


def _costs(run: Record | None) -> dict[str, Any]:
    if run is None:  # guessing sends nothing and takes no time worth a number
        return {"cost": {"bytes_up": over([0]), "bytes_down": over([0]), "seconds": over([None])}}
    return {"cost": {field: over(run.total(field)) for field in ("bytes_up", "bytes_down", "seconds")}}


def _cell(entry: Mapping[str, Any], column: Column, seeds: int) -> Printed:
    group, figure = column.key.split(".")
    found = (entry.get(group) or {}).get(figure, {"mean": None, "std": None})
    value, spread = found["mean"], found["std"]
    if value is None:
        return Printed(None, None, found.get("said") or MISSING)
    plus = f"{spread * column.scale:.{column.digits}f}" if seeds > 1 and not figure.startswith("bytes") else ""
    return Printed(value, spread, f"{value * column.scale:.{column.digits}f}", plus)


def _mark(columns: Sequence[Column], cells: list[list[Printed]]) -> list[tuple[Printed, ...]]:
    """Mark the best and the second of every ranked column, by the printed value: equal in print is equal in rank."""
    for number, column in enumerate(columns):
        printed = [float(row[number].text) for row in cells if row[number].value is not None]
        order = sorted(set(printed), reverse=column.higher)
        if not column.ranked or len(cells) < 3 or len(order) < 2:
            continue
        for row in cells:
            if row[number].value is not None and float(row[number].text) in order[:2]:
                place = order.index(float(row[number].text))
                row[number] = replace(row[number], mark="second" if place else "best")
    return [tuple(row) for row in cells]


def _notes(runs: Sequence[Record], report: str, best: str, series: str) -> list[str]:
    notes = []
    seeds = {tuple(run.rounds) for run in runs}
    if len(seeds) > 1:
        notes.append("The runs do not share their seeds, so deviations are over different numbers of runs.")
    if any(split(run) != split(runs[0]) for run in runs):
        notes.append("The runs do not share their clients' data; the majority class is that of the first run.")
    for run, name in zip(runs, labels(runs), strict=True):
        planned = run.settings.get("rounds")
        spent = guarded(name, run.settings, run.rounds)
        notes += [spent] if spent else []
        if isinstance(planned, int) and run.done < planned:
            notes.append(f"{name} {UNFINISHED}: {run.done} of {planned} rounds.")
        since = {seed: found for seed, lines in run.rounds.items() if (found := runaway(lines)) is not None}
        notes += [refused.ran_away(name, since)] if since else []
    rises = {
        name: climb.rise
        for run, name in zip(runs, labels(runs), strict=True)
        if (climb := rising(run.rounds, report=report, series=series)) is not None
    }
    notes += [still_rising(rises)] if rises else []
    if "local" not in {run.method for run in runs}:
        notes.append("Local was not run; without it nobody can tell whether taking part pays.")
    if best == "per_client":
        notes.append("Best per client: every client keeps its own best round. No model reaches this; it is optimistic.")
    if series == "after":
        notes.append("Scored right after local training, before the server's answer; participants only.")
    return notes


def still_rising(rises: Mapping[str, float]) -> str:
    """Return what to say of runs whose curves still rise, with their rises as fractions."""
    said = ", ".join(f"{name} {signed(100 * rise, 1)}" for name, rise in rises.items())
    return (
        f"{STILL} (points from the last tenth but one of the rounds to the last): {said}. "
        "More rounds (`perfed resume … --rounds N`) or a larger budget.lr may change the order."
    )


def split(run: Record) -> list[Any]:
    """Return what tells two splits apart: label counts and sizes of every client, by seed."""
    return [(seed, [clients.get(key) for key in ("labels", "test", "majority")]) for seed, clients in run.clients.items()]


def _tex(text: str) -> str:
    for mark in ("&", "%", "_", "#"):
        text = text.replace(mark, f"\\{mark}")
    return text.replace("±", "$\\pm$")
