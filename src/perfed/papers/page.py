"""The page of a paper's table: our numbers beside the published ones, curves, analyses, and how to repeat it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..report import figures, studies
from ..report import page as pages
from ..report.read import Record, options, read
from ..report.sections import WIDTH, Notes, Picture, Section
from ..report.tables import Table
from .agree import agreement, sentence
from .beside import beside, compared
from .origin import origin
from .recipe import Recipe

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from .show import Shown


SPLIT = ("data", "partition", "clients", "split", "split_seed", "validation", "test", "series")  # what decides who has what


def page(recipe: Recipe, found: Sequence["Shown"], table: Table, folder: Path, command: str = "") -> Path:
    """Write ``report.html`` of a table or figure."""
    paper = recipe.paper
    title = f"{recipe.name}: {recipe.title}"
    lead = f"{paper.authors.split(',')[0]} et al., {paper.venue} {paper.year}. {recipe.shows} {_counted(found)}"
    content = [_beside(recipe, found, table), _analyses(recipe, folder), *_curves(found), _paper(recipe)]
    content.append(_repeat(recipe, found, command))
    return pages.put(pages.compose(title, lead, [section for section in content if section.parts]), folder / "report.html")


def _counted(found: Sequence["Shown"]) -> str:
    ran = sum(a.ours.mean is not None for a in found)
    return f"{ran} of {len(found)} cells have been run here."


def _beside(recipe: Recipe, found: Sequence["Shown"], table: Table) -> Section:
    if recipe.numbers == "drawn" and "sweep" not in recipe.analysis and "curves" not in recipe.analysis:
        parts: list[tuple[str, Any]] = []
    else:
        parts = [("results", table)]
        drawn = recipe.numbers == "drawn"
        rest = "; the paper only draws these values." if drawn else ", the printed value, and ours minus printed."
        parts.append(("soft", f"Ours as the paper scores it{rest}"))
    if "sweep" in recipe.analysis:
        parts += [("figure", Picture(sweep(recipe, found), "Our values over what is varied."))]
    if table.notes:
        parts += [("heading", "What differs from the paper’s experiment"), ("notes", Notes(table.notes, warn=True))]
    if compared(found):
        what = "Published values as open squares, ours filled; bars are deviations over runs where there are several."
        parts += [("figure", Picture(beside(recipe, found, WIDTH), what))]
    said = [f"{_column(recipe, entry['column'])}: {sentence(entry)}." for entry in agreement(found)]
    if said:
        parts += [("heading", "Whether the order of the rows is the paper’s"), ("notes", Notes(said))]
    failed = _without(found)
    if failed:
        shown = failed[:12] + ([f"and {len(failed) - 12} more"] if len(failed) > 12 else [])
        parts += [("heading", "Without a number"), ("notes", Notes(shown))]
    return Section("beside", "Beside the paper", parts)


def _without(found: Sequence["Shown"]) -> list[str]:
    """Say why cells have no number, once for all rows of a column that have the same reason."""
    rows: dict[tuple[str, str], list[str]] = {}
    for a in found:
        if a.ours.mean is None and a.ours.note:
            rows.setdefault((a.column.label, a.ours.note), []).append(a.row.label)
    all_of = Counter(a.column.label for a in found)
    return [
        f"{column if len(who) == all_of[column] else ', '.join(who) + ' on ' + column}: {why}"
        for (column, why), who in rows.items()
    ]


def sweep(recipe: Recipe, found: Sequence["Shown"]) -> "Figure":
    """Draw a table of numbers over what its columns vary: a panel per group of columns, a line per row."""
    frames = []
    for group in dict.fromkeys(a.column.group for a in found):
        columns = [c for c in recipe.columns if c.group == group and any(a.column.id == c.id for a in found)]
        places = [_number(c.label) for c in columns]
        x = [float(n) if None in places else float(places[n] or 0) for n in range(len(columns))]
        lines = []
        for row in recipe.rows:
            own = {a.column.id: a.ours.mean for a in found if a.row.id == row.id}
            if any(own.get(c.id) is not None for c in columns):
                lines.append(studies.Line(row.label, x, [own.get(c.id) for c in columns]))
        name = columns[0].label.partition("=")[0].strip() if "=" in columns[0].label else "column"
        frames.append(studies.Frame(group, lines, "accuracy (%)", name))
    return studies.lines(frames, width=WIDTH)


def _number(label: str) -> float | None:
    try:
        return float(label.rpartition("=")[2])
    except ValueError:
        return None


def _column(recipe: Recipe, name: str) -> str:
    from .show import heading

    return next(heading(recipe, column) for column in recipe.columns if column.id == name)


def _curves(found: Sequence["Shown"]) -> list[Section]:
    """Draw the runs that share their clients' data in one frame each."""
    together: dict[str, tuple[str, list[tuple[Shown, Record]]]] = {}
    seen: set[Path] = set()
    for answer in found:
        if answer.run is None or answer.ours.rounds < 2 or answer.run.resolve() in seen:
            continue
        seen.add(answer.run.resolve())
        run = read(answer.run)
        name = str(run.settings.get("data") if not isinstance(run.settings.get("data"), dict) else run.settings["data"]["name"])
        together.setdefault(repr([run.settings.get(key) for key in SPLIT]), (name, []))[1].append((answer, run))
    parts: list[tuple[str, Any]] = []
    for name, drawn in together.values():
        runs = [replace(run, called=called) for called, (_, run) in zip(names([a for a, _ in drawn]), drawn, strict=True)]
        series = options(runs)["series"]
        what = "right after local training" if series == "after" else "of the model every client would serve"
        picture = figures.curves(runs, series=series, figure=options(runs)["report"], width=WIDTH)
        parts.append(("figure", Picture(picture, f"{name}, {_partition(runs[0])}: test accuracy {what}, round by round.")))
    return [Section("curves", "Curves", parts)]


def names(found: Sequence["Shown"]) -> list[str]:
    """Return what the table calls the cells of one frame: their rows, their columns, or both, whatever tells them apart."""
    for labels in ([a.row.label for a in found], [a.column.label for a in found]):
        if len(set(labels)) == len(labels):
            return labels
    return [f"{a.row.label}, {a.column.label}" for a in found]


def _partition(run: Record) -> str:
    chosen = run.settings.get("partition")
    clients = len(next(iter(run.clients.values()))["names"])
    if isinstance(chosen, dict):
        own = ", ".join(f"{key} {value}" for key, value in chosen.items() if key != "name")
        return f"{chosen['name']} ({own}), {clients} clients"
    return f"{chosen}, {clients} clients"


def _analyses(recipe: Recipe, folder: Path) -> Section:
    """Show the pictures that the recipe's analyses left in the folder; one that several cells share, as their split, once."""
    from base64 import b64encode

    from markupsafe import Markup

    from ..analysis.catalogue import CATALOGUE

    labels = {entry.id: entry.label for entry in (*recipe.rows, *recipe.columns)}
    cells: dict[tuple[str, bytes], list[str]] = {}
    for picture in sorted((folder / "figures").glob("*.png")):
        what, *cell = picture.stem.split("--")
        cells.setdefault((what, picture.read_bytes()), []).append(", ".join(labels.get(name, name) for name in cell))
    parts: list[tuple[str, Any]] = []
    for (what, picture_bytes), names in cells.items():
        name = f"{'; '.join(names)}: {CATALOGUE[what].shows}"
        data = b64encode(picture_bytes).decode()
        image = Markup('<img alt="{}" src="data:image/png;base64,{}" style="width:72%">').format(name, data)
        parts.append(("html", Markup("<figure>{}<figcaption>{}</figcaption></figure>").format(image, name)))
    return Section("analyses", "Analyses", parts)


def _paper(recipe: Recipe) -> Section:
    paper = recipe.paper
    facts = [("Title", paper.title), ("Authors", paper.authors), ("Venue", f"{paper.venue} {paper.year}")]
    parts: list[tuple[str, Any]] = [("facts", facts)]
    for heading, said in (
        ("What the paper says one sees", recipe.expect),
        ("What the paper does not say and the recipe chose", recipe.assumed),
        ("Remarks", [*recipe.notes, *paper.notes]),
    ):
        if said:
            parts += [("heading", heading), ("notes", Notes(said))]
    return Section("paper", "The paper", parts)


def _repeat(recipe: Recipe, found: Sequence["Shown"], command: str) -> Section:
    from .run import recalled

    runs = [a.run for a in found if a.run is not None]
    known = recalled(runs[0].parent.parent / recipe.name.replace("/", "-") / "cells.json") if runs else {}
    commands = dict.fromkeys([*(entry.get("command", "") for entry in known.values()), command])
    text = "\n".join(line for line in commands if line)
    parts: list[tuple[str, Any]] = [("code", text)] if text else []
    return Section("repeat", "How to repeat it", [*parts, *(("soft", line) for line in origin(found))])
