"""The reference of settings, read from the models that check them."""

import inspect
import re

from source import Field, cell, code, fields_of, inherited, table

import perfed
from perfed import methods, models, partition
from perfed.local.budget import Budget
from perfed.report.names import title
from perfed.sampling import Sampling

GROUPS = {
    "What is trained": ("method", "model", "norm", "precision", "rounds", "seeds"),
    "On whose data": ("data", "partition", "clients", "validation", "test", "split", "split_seed", "augment", "inputs", "text"),
    "What is measured": ("every", "after", "report", "best", "series"),
    "Where and how it runs": ("transport", "workers", "device", "memory", "out", "name", "checkpoint", "snapshots"),
}
MEANINGS = {  # where the source has no comment yet
    "method": "the method, by name; its own fields follow as `method.FIELD`",
    "model": "the network, by name; its options follow as `model.OPTION`",
    "data": "the data set, by name, or data of your own: `folder:PATH`, `npz:PATH`, `csv:PATH`",
    "partition": "how samples are shared among clients; options follow as `partition.OPTION`",
    "rounds": "how often the server and the clients exchange",
    "seeds": "the whole experiment is repeated once for each; one seed decides split, start and order",
    "test": "share of every client's own data that is kept for testing",
    "report": "whether every sample counts alike or every client",
    "best": "one best round for all, or each client's own",
    "series": "which tests the summary reads: of the served model, or right after local training",
    "precision": "arithmetic; `bf16` pays only on processors that have it",
    "transport": "how clients are trained on this machine; `auto` measures and chooses",
    "device": "`cpu`, `cuda`, `cuda:1`",
    "out": "the folder that gets the run's folder",
    "budget.lr": "step size",
    "budget.epochs": "passes over a client's own data in a round",
    "budget.batch_size": "samples in a step",
    "budget.momentum": "of SGD",
    "budget.weight_decay": "pull towards zero in every step",
    "budget.optimizer": "its state starts anew in every round",
    "sampling.ratio": "share of the clients that take part in a round",
    "sampling.ratio_min": "if set, the share is drawn anew in every round between this and `ratio`",
    "sampling.drop": "chance that a participant trains but its answer is lost",
}


def page() -> str:
    """Return the whole reference."""
    return "\n\n".join([*_general(), _records(), _partitions(), _models(), _methods()])


def _general() -> list[str]:
    found = {field.name: field for field in fields_of(perfed.Experiment)}
    grouped = [name for names in GROUPS.values() for name in names]
    rest = [name for name in found if name not in (*grouped, "budget", "sampling")]
    parts = []
    for heading, names in (GROUPS | ({"More": tuple(rest)} if rest else {})).items():
        rows = [_row("", found[name]) for name in names if name in found]
        parts.append(f"## {heading}\n\n{_table(rows)}")
    return parts


def _records() -> str:
    parts = []
    for name, kind, said in (
        ("budget", Budget, "What a client may spend in a round; the same for every method of a comparison."),
        ("sampling", Sampling, "Who takes part in a round."),
    ):
        parts.append(f"## {name}\n\n{said}\n\n{_table([_row(f'{name}.', field) for field in fields_of(kind)])}")
    return "\n\n".join(parts)


def _partitions() -> str:
    parts = ["## partition\n\nEach is explained in [Partitions](../partitions.md)."]
    for name, kind in sorted(partition.PARTITIONS.items()):
        said = (inspect.getdoc(kind) or "").splitlines()[0]
        parts.append(f"### partition={name}\n\n{said}\n\n{_table([_row('partition.', field) for field in inherited(kind)])}")
    return "\n\n".join(parts)


def _models() -> str:
    rows = []
    for name, build in sorted(models.MODELS.items()):
        options = models.options_of(name)
        said = (inspect.getdoc(build) or "").splitlines()[0]
        rows.append([f"`model={name}`", ", ".join(f"`model.{option}`" for option in options), cell(said)])
    return f"## model\n\nEach is described in [Networks](../models.md).\n\n{table(['setting', 'options', 'what it is'], rows)}"


def _methods() -> str:
    parts = ["## method\n\nDefaults are the papers' values. Every method's page says where it departs from its paper."]
    for name in sorted(methods.CATALOGUE):
        rows = [_row("method.", field) for field in fields_of(methods.find(name))]
        said = _table(rows) if rows else "No fields of its own."
        parts.append(f"### method={name}\n\n[{title(name)}](../methods/{name}.md).\n\n{said}")
    return "\n\n".join(parts)


def _table(rows: list[list[str]]) -> str:
    return table(["setting", "type", "default", "meaning"], rows)


def _row(prefix: str, field: Field) -> list[str]:
    key = f"{prefix}{field.name}"
    said = re.sub(r"^None: ", "by default ", field.meaning) or MEANINGS.get(key, "")
    return [code(key), code(_type(field.type)), code(_default(field.default)), cell(said[:1].upper() + said[1:])]


def _type(written: str) -> str:
    """Return a type as a person says it: the choices of a Literal, a list, true or false."""
    plain = re.sub(r"Literal\[(.*?)\]", lambda found: found[1].replace("'", "").replace(", ", " | "), written)
    known = {"Choice": "name", "bool": "true | false", "float": "number", "int": "whole number", "str": "text", "Path": "path"}
    plain = plain.removesuffix(" | None").removesuffix(" | Split")
    if plain.startswith("tuple["):
        return f"list of {known.get(plain[6:].split(',')[0], plain[6:].split(',')[0])}s"
    if plain.startswith("dict["):
        return "options"
    return known.get(plain, plain)


def _default(written: str) -> str:
    """Return a default as it would be typed."""
    named = re.match(r"Choice\(name='(\w+)'\)|Path\('(.*)'\)$", written)
    if named:
        return named[1] or named[2]
    listed = re.match(r"\((.*?),?\)$", written)
    plain = listed[1].replace(", ", ",") if listed else written.strip("'")
    return {"None": "", "False": "false", "True": "true", "Field(default_factory=dict)": ""}.get(plain, plain)
