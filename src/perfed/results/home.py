"""What a model that is taken home from a run says of the run: how its inputs were read, how it was scored and chosen."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..data import csvs
from ..data.catalogue import CATALOGUE
from ..data.entry import options_of
from ..data.own import SCHEMES, frame
from ..data.tabular import TableRoles
from ..evaluate.metrics import Metric, chosen_by
from ..federation import PARTS, Federation
from ..runs.assemble import metrics_of
from ..runs.choice import Choice
from ..runs.experiment import Experiment
from ..serving.personal import Trained
from ..task import Task
from .run import Run

TABLES = {
    "csv": (csvs.read, SCHEMES["csv"][1]),
    "parquet": (lambda path: frame(path, "parquet"), SCHEMES["parquet"][1]),
}
TESTED = {"test": "its own test samples", "validation": "its own validation samples", "train": "the samples it was trained on"}


def origin(run: Run, trained: Trained, client: int, facts: Mapping[str, Any], at: int | None = None) -> dict[str, Any]:
    """Return what is noted in the file and on the card of a client's model, whose own facts are known."""
    experiment, federation = run.experiment, trained.site.federation
    lines = run.rounds[federation.seed]
    name = {} if run.path is None else {"run": run.path.name}
    command = {} if run.folder is None else {"command": run.folder.manifest.get("command", "")}
    record = recorded(lines, client, trained.number, chooser(experiment, trained.site.task))
    return {
        **name,
        **command,
        "seed": federation.seed,
        "rounds": experiment.rounds,
        "samples": TESTED[scored_on(federation, client)],
        "chosen": chosen(trained.number, at),
        "record": record,
        **reading(experiment.data),
        **tabled(experiment.data, facts),
    }


def chosen(number: int, at: int | None) -> str:
    """Return why it is this round's model."""
    if at is not None:
        return f"Round {number} was asked for; no score chose it."
    return "It is the model after the last round; no score chose it."


def scored_on(federation: Federation, client: int) -> str:
    """Return which part of a client's data `Federation.some` takes."""
    return next(part for part in reversed(PARTS) if len(getattr(federation, part)[client]))


def chooser(experiment: Experiment, task: Task) -> Metric:
    """Return the metric by which rounds are chosen."""
    by = chosen_by(experiment.choose, task.goal)
    return next(metric for metric in metrics_of(experiment, task) if metric.name == by)


def recorded(lines: Sequence[Mapping[str, Any]], client: int, number: int, by: Metric) -> dict[str, Any]:
    """Return how the record scores a client in a round, and its best round on validation data."""
    found: dict[str, Any] = {}
    line: Mapping[str, Any] = next((line for line in reversed(lines) if line["round"] == number), {})
    for part in ("test", "validation"):
        if line.get(part):
            figures = {name: values[client] for name, values in line[part].items()}
            found[part] = {name: value for name, value in figures.items() if isinstance(value, int | float)}
    tried = [(line["round"], line["validation"].get(by.name, {})) for line in lines if line.get("validation")]
    scored = [(values[client], number) for number, values in tried if values and values[client] is not None]
    if scored:
        value, first = max(scored, key=lambda one: (one[0] if by.higher else -one[0], -one[1]))
        found["best"] = {"metric": by.name, "round": first, "value": value}
    return found


def reading(choice: Choice) -> dict[str, Any]:
    """Return how inputs were read, so that others can be read in the same way: pictures' size and colours, a text's column."""
    scheme = choice.name.partition(":")[0] if ":" in choice.name else ""
    options, entry = choice.options, CATALOGUE.get(choice.name)
    size = options.get("size", entry.size if entry is not None else None)
    found: dict[str, Any] = {"pictures": {"size": size, "converted": scheme == "folder"}} if size or scheme == "folder" else {}
    if options.get("text"):
        found["text"] = str(options["text"])
    if words := {name: options[name] for name in ("missing", "decimal") if options.get(name) is not None}:
        found["words"] = words
    return found


def tabled(choice: Choice, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the names of a table's columns where nothing was decided for them, so that no decision names them."""
    scheme, mark, place = choice.name.partition(":")
    if not mark or scheme not in TABLES or choice.options.get("text") or "columns" in facts:
        return {}
    path, suffix = Path(place).expanduser(), f".{scheme}"
    path = next(file for file in sorted(path.iterdir()) if file.suffix == suffix) if path.is_dir() else path
    special = TableRoles.of(options_of(choice.name, choice.options, TABLES[scheme][1])).special
    names = [name for name in TABLES[scheme][0](path).names if name not in special]
    return {"columns": [{"name": name, "kind": "number"} for name in names], "strict": True}
