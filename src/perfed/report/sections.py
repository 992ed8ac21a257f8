"""What a page says about runs, section by section; how it looks is the template's business."""

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..runs.parse import flat
from ..units import signed, weighed
from . import figures, glance, intervals, pictures
from .formats import ANCHORS, MOMENTS, USUAL
from .gains import same_clients
from .main_score import MainScore, used
from .names import title
from .read import PLACES, Record, differing, labels
from .read import options as asked
from .significance import paired
from .tables import MISSING, Printed, Table, quoted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH = 10.2  # inches: figures fill the page's column
MAIN = ("method", "model", "data", "partition", "split", "clients", "rounds", "seeds", "budget", "norm", "augment")
ROUNDS = {"validation": "the round chosen on validation data", "last": "the last round"}
LISTED = 200  # clients listed one by one


class Section(NamedTuple):
    """A heading and the parts below it: pairs of a kind that the template knows and what it shows."""

    anchor: str
    title: str
    parts: list[tuple[str, Any]]


class Picture(NamedTuple):
    """A figure and what a reader must know to read it."""

    picture: "Figure"
    caption: str


class Fold(NamedTuple):
    """Rows that open on a click."""

    summary: str
    rows: list[list[str]]


class Notes(NamedTuple):
    """Remarks below a table, or warnings."""

    lines: Sequence[str]
    warn: bool = False


def sections(runs: Sequence[Record], table: Table, **options: str) -> list[Section]:
    """Return everything a page shows; sections without content are left out."""
    found = [
        _glance(runs, table, options),
        _asked(runs),
        _results(runs, table, options),
        _curves(runs, options),
        _gains(runs),
        _clients(runs, table),
        _split(runs[0]),
        _cost(runs),
        _repeat(runs),
    ]
    return [section for section in found if section.parts]


def lead(table: Table, score: MainScore) -> str:
    """Return the page's first sentence: who is best, and what Local, FedAvg and guessing reach.

    It never quotes the round that was chosen on test data.
    """
    moment = quoted(table)
    table = table.pick(f"{moment}.weighted")
    first = {row.name: _unbroken(row.cells[0]) for row in table.rows}
    guess = f"{score.guessing} {first[score.guess]}"
    best, *others = sorted(table.rows[1:], key=lambda row: -(row.cells[0].value or 0.0))
    of = "" if not score.before else f" {score.name}"
    reached = f"{first[best.name]}{of} in {ROUNDS[moment]}"
    if not others:
        return f"{best.name} reaches {reached}; {guess}."
    rest = "".join(f"{row.name} {first[row.name]}, " for row in table.rows if row in others and row.method in ANCHORS)
    return f"{best.name} scores highest of {len(others) + 1}: {reached}; {rest}{guess}."


def facts(runs: Sequence[Record]) -> list[tuple[str, str]]:
    """Return the main settings that all runs have in common."""
    return [(key, _shown(value)) for key, value in _shared(runs).items() if key.split(".")[0] in MAIN and value is not None]


def _shared(runs: Sequence[Record]) -> dict[str, Any]:
    apart = differing(runs)
    return {key: used(runs[0], key, value) for key, value in flat(runs[0].settings).items() if key not in (*apart, *PLACES)}


def _asked(runs: Sequence[Record]) -> Section:
    apart, shared = differing(runs), _shared(runs)
    parts: list[tuple[str, Any]] = [("facts", facts(runs))]
    columns = [key for key in apart if key != "method"]
    if len(runs) > 1 and columns:
        rows = [["Method", "Settings of its own"]]
        for run, name in zip(runs, labels(runs), strict=True):
            own = flat(run.settings)
            chosen = [f"{key}={_shown(own[key])}" for key in columns if key in own]
            if chosen:
                rows.append([name, "  ".join(chosen)])
        parts.append(("grid", rows))
    rest = [[key, _shown(value)] for key, value in shared.items() if key.split(".")[0] not in MAIN]
    if rest:
        parts.append(("details", Fold("All other settings", [["Setting", "Value"], *rest])))
    return Section("asked", "What was run", parts)


def _glance(runs: Sequence[Record], table: Table, options: dict[str, str]) -> Section:
    """What a reader came for, where there is something to compare with."""
    if len(runs) < 3 or not any(run.method in ANCHORS for run in runs):
        return Section("glance", "At a glance", [])
    moment = quoted(table)
    marks = glance.marks(runs, moment, options)
    score = MainScore.of(runs, options.get("series", "test"))
    lines = f"dashed: alone (Local) and one model for all (FedAvg). {glance.said(marks)}."
    text = f"{score.begins} on test data in {ROUNDS[moment]}; {lines}"
    picture = glance.glance({"": marks}, score.name, width=WIDTH)
    return Section("glance", "At a glance", [("figure", Picture(picture, text))])


def _results(runs: Sequence[Record], table: Table, options: dict[str, str]) -> Section:
    parts: list[tuple[str, Any]] = [("results", table.pick(*USUAL))]
    score = MainScore.of(runs, options.get("series", "test"))
    seeds = max(len(run.rounds) for run in runs)
    over = f" ± one deviation over {seeds} seeds" if seeds > 1 else " (one seed)"
    text = (
        f"{score.begins} on test data in per cent{over}. “Weighted” counts every sample alike, “mean” every client."
        " The best round is chosen on test data, as papers do; the validated round on validation data."
        " Best bold, second underlined."
    )
    parts.append(("soft", text))
    if others := list(dict.fromkeys(column.group for column in table.columns if column.group not in (*MOMENTS, "cost"))):
        parts.append(("results", table.pick(*others)))
    if table.notes:
        parts.append(("notes", Notes(table.notes, warn=True)))
    moment = quoted(table)
    pairs = paired(runs, figure=f"{moment}.weighted", **options)
    if pairs:
        rows = [["Against", "Seeds", "Difference (points)", "p, paired t", "p, Holm", "p, Wilcoxon"]]
        for pair in pairs:
            chances = [_chance(value) for value in (pair.student, pair.holm, pair.wilcoxon)]
            rows.append([pair.other, str(pair.seeds), signed(100 * pair.difference, 2), *chances])
        text = f"Whether {pairs[0].leader} is ahead, seed by seed ({ROUNDS[moment]}, weighted)"
        parts += [("heading", text), ("numbers", rows)]
        parts.append(("soft", "Two-sided. Holm's correction is for the number of rows; the leader was picked by looking."))
    return Section("results", "Results", parts)


def _curves(runs: Sequence[Record], options: dict[str, str]) -> Section:
    series = options.get("series", "test")
    score = MainScore.of(runs, series)
    text = f"{score.begins} of the model every client would serve, after each round." if series == "test" else ""
    if max(len(run.rounds) for run in runs) > 1:
        text += " Bands: one deviation over seeds."
    if len(runs) > figures.CROWD:
        text += f" The number in a panel is the {score.name} of the last round."
    picture = figures.curves(runs, series=series, width=WIDTH)
    if figures.cut(picture):
        text += " The axis begins where the lowest curve is after a tenth of the rounds."
    return Section("curves", "Curves", [("figure", Picture(picture, text.strip()))])


def _gains(runs: Sequence[Record]) -> Section:
    parts: list[tuple[str, Any]] = []
    for over in ANCHORS:
        figure = figures.gains(runs, over, width=WIDTH)
        if figure is not None:
            bars = "A bar is a client" if same_clients(runs[0]) else "A bar is a client of one seed"
            if figures.labelled(figure) and not same_clients(runs[0]):
                bars += " (below it: client/seed)"
            score = MainScore.of(runs).name
            text = f"{bars}: its {score} in the last round less that with {title(over)}. Filled bars gain, hatched lose."
            parts += [("heading", f"Over {title(over)}"), ("figure", Picture(figure, text))]
    return Section("gains", "Who gains, who loses", parts)


def _clients(runs: Sequence[Record], table: Table) -> Section:
    text = "A mark is a client (of one seed) in the last round, the bar their mean."
    parts: list[tuple[str, Any]] = [("figure", Picture(figures.spread(runs, width=WIDTH), text))]
    keys = [f"{moment}.{figure}" for moment in MOMENTS for figure in ("std", "cv")]
    parts.append(("results", table.pick(*keys)))
    name = MainScore.of(runs).name
    parts.append(("soft", f"Spread over clients in points: lower is fairer. cv is the deviation divided by weighted {name}."))
    seed = next(iter(runs[0].clients))
    described = runs[0].clients[seed]
    columns = [run.accuracies("last").get(seed) for run in runs]
    rows = [["Client", "train", "test", *labels(runs)]]
    clients = len(described["names"])
    for number in range(clients)[:LISTED]:
        sizes = [str(described[part][number]) if part in described else MISSING for part in ("train", "test")]
        scores = [_percent(column[number]) if column is not None and number < len(column) else MISSING for column in columns]
        rows.append([described["names"][number], *sizes, *scores])
    listed = f"the first {LISTED} of {clients}" if clients > LISTED else f"all {clients}"
    parts.append(("clients", Fold(f"Last round of seed {seed}, {listed} clients one by one (%)", rows)))
    moment = quoted(table)
    if sure := intervals.rows(runs, moment, asked(runs)):
        text = f"AUC in per cent with the 95 % interval that a client's test samples leave (seed {seed}, {ROUNDS[moment]})"
        parts += [("heading", text), ("numbers", sure)]
    return Section("clients", f"Every client's {name}", parts)


def _split(run: Record) -> Section:
    seed = next(iter(run.clients))
    described = run.clients[seed]
    rows = [["Samples", "clients", "smallest", "median", "largest", "all"]]
    for part in ("train", "validation", "test"):
        sizes = np.array(described.get(part, []))
        if sizes.sum() > 0:
            figures_ = (sizes.min(), np.median(sizes), sizes.max(), sizes.sum())
            rows.append([part, str(int((sizes > 0).sum())), *(f"{value:.0f}" for value in figures_)])
    chart = pictures.bubbles(described["labels"], described["names"], described["classes"], width=WIDTH)
    text = f"Who holds which labels (train, validation and test together), seed {seed}."
    return Section("split", "Data of the clients", [("figure", Picture(chart, text)), ("numbers", rows)])


def _cost(runs: Sequence[Record]) -> Section:
    chart = figures.costs(runs, width=WIDTH)
    rows = [["Method", "up, per client and round", "down, per client and round"]]
    for run, name in zip(runs, labels(runs), strict=True):
        rows.append([name, _fields(run, "up"), _fields(run, "down")])
    text = "Bytes of the messages as encoded, all clients and rounds together; means over seeds."
    return Section("cost", "Bytes and seconds", [("figure", Picture(chart, text)), ("grid", rows)])


def _fields(run: Record, way: str) -> str:
    """What crosses the wire, field by field, on average over participants and rounds."""
    lines = [line for part in run.rounds.values() for line in part if line.get("participants")]
    names = dict.fromkeys(name for line in lines for name in line.get(way) or {})
    messages = sum(len(line["participants"]) for line in lines)
    sizes = {name: sum((line.get(way) or {}).get(name, 0) for line in lines) / messages for name in names}
    return ", ".join(f"{name} {weighed(value)}" for name, value in sizes.items() if value) or "nothing"


def _repeat(runs: Sequence[Record]) -> Section:
    commands = dict.fromkeys(command(run) for run in runs)
    parts: list[tuple[str, Any]] = [("code", "\n".join(commands))]
    chosen = _chosen(runs)
    if "stacked" in chosen:
        taken = "; ".join(f"{transport} for {', '.join(names)}" for transport, names in chosen.items())
        advice = "Stacked rounds differently, by 10⁻⁵: name the transport for the same bits."
        parts.append(("soft", f"transport=auto chose {taken}. {advice}"))
    first = flat({key: value for key, value in runs[0].manifest.items() if key != "command"})
    shared = [[key, _shown(value)] for key, value in first.items() if all(flat(run.manifest).get(key) == value for run in runs)]
    if shared:
        parts.append(("details", Fold("Versions, machine and hashes", [["What", "Value"], *shared])))
    return Section("repeat", "How to repeat it", parts)


def _chosen(runs: Sequence[Record]) -> dict[str, list[str]]:
    """Return the transports that were chosen by measuring, each with the runs that took it."""
    found: dict[str, list[str]] = {}
    for run, name in zip(runs, labels(runs), strict=True):
        if run.settings.get("transport") == "auto":
            for transport in dict.fromkeys(note["name"] for note in run.manifest.get("transport", {}).values()):
                found.setdefault(transport, []).append(name)
    return found


def command(run: Record) -> str:
    """Return the command that made a run: as recorded, or else rebuilt from its settings."""
    recorded = run.manifest.get("command")
    if recorded:
        return recorded if isinstance(recorded, str) else shlex.join(map(str, recorded))
    given = {key: value for key, value in flat(run.settings).items() if value is not None and key not in PLACES}
    return shlex.join(["perfed", "run", *(f"{key}={_shown(value).replace(' ', '')}" for key, value in given.items())])


def _shown(value: Any) -> str:
    if value is None:
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    return ", ".join(map(_shown, value)) if isinstance(value, list | tuple) else str(value)


def _unbroken(cell: Printed) -> str:
    return f"{cell.both} %".replace(" ", "\N{NO-BREAK SPACE}")


def _chance(value: float) -> str:
    return f"{value:.4f}" if value >= 0.0001 else "< 0.0001"


def _percent(value: float) -> str:
    return MISSING if np.isnan(value) else f"{100 * value:.1f}"
