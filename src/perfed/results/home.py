"""What a model that is taken home from a run says of the run: how its inputs were read, how it was scored and chosen."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..data.catalogue import CATALOGUE
from ..evaluate.metrics import Metric, select
from ..federation import PARTS, Federation
from ..runs.assemble import metrics_of
from ..runs.experiment import Choice, Experiment
from ..serving.personal import Trained
from .run import Run

TESTED = {"test": "its own test samples", "validation": "its own validation samples", "train": "the samples it was trained on"}


def origin(run: Run, trained: Trained, client: int, at: int | None = None) -> dict[str, Any]:
    """Return what is noted in the file and on the card of a client's model."""
    experiment, federation = run.experiment, trained.site.federation
    lines = run.rounds[federation.seed]
    name = {} if run.path is None else {"run": run.path.name}
    command = {} if run.folder is None else {"command": run.folder.manifest.get("command", "")}
    record = recorded(lines, client, trained.number, chooser(experiment))
    return {
        **name,
        **command,
        "seed": federation.seed,
        "rounds": experiment.rounds,
        "samples": TESTED[scored_on(federation, client)],
        "chosen": chosen(trained.number, at),
        "record": record,
        **reading(experiment.data),
    }


def chosen(number: int, at: int | None) -> str:
    """Return why it is this round's model."""
    if at is not None:
        return f"Round {number} was asked for; no score chose it."
    return "It is the model after the last round; no score chose it."


def scored_on(federation: Federation, client: int) -> str:
    """Return which part of a client's data `Federation.some` takes."""
    return next(part for part in reversed(PARTS) if len(getattr(federation, part)[client]))


def chooser(experiment: Experiment) -> Metric:
    """Return the metric by which rounds are chosen."""
    return next(metric for metric in (*metrics_of(experiment), *select(())) if metric.name == experiment.choose)


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
    elif scheme == "csv":
        found["columns"] = [{"name": name, "kind": "number"} for name in _header(Path(choice.name.partition(":")[2]), options)]
    return found


def _header(path: Path, options: Mapping[str, Any]) -> list[str]:
    """Return the names of a table's input columns."""
    import pandas as pd

    path = sorted(path.glob("*.csv"))[0] if path.is_dir() else path
    special = {str(options.get("label", "label")), options.get("client"), options.get("test")}
    return [name for name in map(str, pd.read_csv(path.expanduser(), nrows=0).columns) if name not in special]
