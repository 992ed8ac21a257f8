"""Every setting there is: type, default, meaning, an example and what it applies to, as the source states them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from . import listing, sources
from .errors import suggest
from .methods import CATALOGUE

EXPERIMENT = ("Experiment", "runs/experiment.py")
SETS = ("data/catalogue.py", "data/domain_sets.py")  # where the entries of data sets are
PARTITION = tuple(f"partition/{name}.py" for name in ("owned", "pooled", "clientwise", "grouped"))
MODEL = tuple(f"models/{name}.py" for name in ("alexnet", "cnn", "digits", "efficientnet", "mlp", "resnet", "sensors", "text"))
GROUPS = ("budget", "sampling", "privacy", "join", "attack", "inputs", "text", "engine")  # settings that are made of others
CHOICES = ("method", "partition", "model", "data")  # settings that are a name, whose options stand behind a dot
SAID = {  # of what has no line of its own in the source
    "inputs.crop": "pad training pictures by so many black pixels, then cut the old size out at random; needs augment=true",
    "inputs.flip": "mirror half of the training pictures; needs augment=true",
    "inputs.mean": "what is taken off every channel: one number, or one per channel",
    "inputs.rotate": "turn training pictures by up to so many degrees; needs augment=true",
    "inputs.size": "resize pictures to so many pixels on either side",
    "inputs.std": "what every channel is divided by: one number, or one per channel",
    "model.bias": "whether layers before a BatchNorm have a bias",
    "model.features": "width of the features between body and head",
    "model.head": "the classifier of the digits' network: linear, or as deep as the original's",
    "model.hidden": "width of the hidden layer, or of several",
    "model.paired": "whether two classes share one score, as they do in logistic regression",
    "model.sparse": "whether gradients of the first layer touch only the words of a batch",
    "text.least": "how often a word must occur in the training texts to have a number of its own",
    "text.length": "words of a text that are read",
    "text.size": "entries of the vocabulary at most",
}
EXAMPLES = {
    "attack.name": "sign", "attack.strength": "2",
    "budget.steps": "100", "checkpoint": "300", "clients": "10", "data": "csv:patients.csv", "data.categories": "ward,stage",
    "data.client": "hospital", "data.columns": "columns.json", "data.decimal": ",", "data.domains": "art_painting,photo",
    "data.drop": "patient,comment", "data.label": "diagnosis", "data.missing": "-999,unknown", "data.scale": "client",
    "data.size": "64", "data.standardise": "hospital,hospital", "data.task": "regression", "data.test": "is_test",
    "data.text": "review", "device": "cuda", "devices": "cuda:0,cuda:1",
    "engine.gpus": "0.25", "engine.memory": "8", "inputs.mean": "60,120,0.5", "inputs.size": "32", "inputs.std": "10,20,0.1",
    "keep": "best", "method": "fedcp", "method.personal_epochs": "2", "method.step": "0.01", "model": "cnn",
    "model.adapters": "query,value", "model.alpha": "16", "model.rank": "8", "model.sha256": "9f86d081884c7d65",
    "model.features": "128", "model.hidden": "128,64",
    "model.projector": "256", "model.weights": "resnet18.pth", "name": "first-try", "norm": "local_all", "out": "results",
    "partition": "natural", "partition.of": "cleveland", "partition.samples": "500", "partition.subset_of": "50",
    "privacy": "client", "privacy.stop": "8",
    "sampling.drop": "0.1", "sampling.ratio": "0.5", "sampling.ratio_min": "0.1", "seeds": "0,1,2", "snapshots": "10",
    "split": "my.split", "split_seed": "0", "text.size": "20000", "track": "tensorboard", "unseen": "0.2",
    "workers": "4",
}  # fmt: skip


@dataclass(frozen=True)
class Setting:
    """A setting as the reference shows it."""

    path: str  # as it is written before the equals sign
    type: str
    default: Any
    meaning: str
    applies: tuple[str, ...] = ()  # the methods, partitions, networks or data sets that have it; empty: every run

    @property
    def leaf(self) -> str:
        return self.path.rpartition(".")[2]

    @property
    def example(self) -> str:
        """One that can be typed as it stands."""
        choices = [part for part in self.type.split(" | ") if part != self.default]
        if self.path in EXAMPLES:
            shown = EXAMPLES[self.path]
        elif self.type == "true or false":
            shown = "false" if self.default is True else "true"
        elif " | " in self.type and choices:
            shown = choices[0]
        else:
            shown = plain(self.default)
        return f"{self.path}={shown}"


@cache
def everything() -> tuple[Setting, ...]:
    """Return every setting: the experiment's own, then what stands behind a dot."""
    parts = [s for part in (*GROUPS, "partition", "model", "data") for s in _part(part)]
    return (*top(), *parts, *(s for name in CATALOGUE for s in _method(name)))


@cache
def top() -> tuple[Setting, ...]:
    """Return the settings without a dot."""
    return tuple(_setting(field.name, field) for field in sources.fields(*EXPERIMENT) if field.name not in GROUPS)


def options(part: str, name: str) -> dict[str, Setting]:
    """Return what may stand behind the dot of a part, such as ``partition``, of which ``name`` is chosen."""
    if part == "method":
        return {s.leaf: s for s in _method(name)} if name in CATALOGUE else {}
    return {s.leaf: s for s in _part(part) if part in GROUPS or name in s.applies}


def names(part: str) -> set[str]:
    """Return the partitions, networks or data sets that are known by name."""
    return set({"partition": _partitions, "model": _models, "data": _data}[part]())


def find(path: str) -> list[Setting]:
    """Return a setting, or all behind a part; an unknown one is refused with the nearest."""
    found = [s for s in everything() if s.path == path] or [s for s in everything() if s.path.startswith(f"{path}.")]
    if not found:
        found = [s for s in everything() if s.leaf == path]
    if not found:
        raise suggest("setting", path, {s.path for s in everything()})
    return found


@cache
def _part(part: str) -> tuple[Setting, ...]:
    """Return what stands behind the dot of a part other than the method."""
    records = {
        "budget": ("Budget", "local/budget.py"),
        "sampling": ("Sampling", "sampling.py"),
        "privacy": ("Privacy", "privacy/settings.py"),
        "join": ("Join", "sampling.py"),
        "attack": ("Attack", "attacks/attack.py"),
        "inputs": ("Wishes", "data/inputs.py"),
        "engine": ("Engine", "runs/engine.py"),
    }
    if part in GROUPS:
        own = sources.fields(*records[part]) if part in records else sources.options("tokenised", "data/text.py")
        return tuple(_setting(part if field.name == "name" else f"{part}.{field.name}", field) for field in own)
    return tuple(_chosen(part, {"partition": _partitions, "model": _models, "data": _data}[part]()))


def _partitions() -> dict[str, tuple[sources.Field, ...]]:
    kinds = sources.constant("partition/__init__.py", "PARTITIONS")
    return {name: sources.fields(kind, *PARTITION) for name, kind in kinds.items()}


def _models() -> dict[str, tuple[sources.Field, ...]]:
    every = sources.fields("Beginning", "models/pretrained.py")
    known = sources.constant("models/__init__.py", "MODELS").items()
    return {name: (*sources.options(made, *MODEL), *every) for name, made in known}


def _data() -> dict[str, tuple[sources.Field, ...]]:
    known = {field.name: field for field in sources.fields("ReaderOptions", "data/entry.py")}
    sets = {entry["name"]: entry.get("options", ()) for file in SETS for entry in sources.calls(file, "Entry")}
    sets |= {f"{scheme}:": allowed for scheme, (_, allowed) in sources.constant("data/own.py", "SCHEMES").items()}
    return {name: tuple(known[option] for option in (*own, "fraction")) for name, own in sets.items()}


def _chosen(part: str, found: dict[str, tuple[sources.Field, ...]]) -> Iterator[Setting]:
    """Yield every option of a part once, with all the names that have it."""
    fields: dict[str, sources.Field] = {}
    names: dict[str, list[str]] = {}
    for name, own in found.items():
        for field in own:
            fields.setdefault(field.name, field)
            names.setdefault(field.name, []).append(name)
    for option, field in fields.items():
        yield _setting(f"{part}.{option}", field, tuple(sorted(names[option], key=lambda name: (len(name), name))))


@cache
def _method(name: str) -> tuple[Setting, ...]:
    """Return the fields of a method: what two methods call by one name may be two things."""
    own = [sources.Field(**field) for field in listing.meanings(name) if field["name"] != "norm"]
    return tuple(_setting(f"method.{field.name}", field, (name,)) for field in own)


def _setting(path: str, field: sources.Field, applies: tuple[str, ...] = ()) -> Setting:
    return Setting(path, kind(field.type), default(field.default), SAID.get(path) or field.meaning, applies)


def kind(text: str) -> str:
    """Return a type as people say it."""
    choices = re.findall(r"'([^']*)'", text) if "Literal" in text else []
    if choices:
        return " | ".join(choices)
    words = {"int": "whole number", "float": "number", "bool": "true or false", "str": "text", "Path": "path", "Choice": "name"}
    if text.startswith("tuple["):
        inner = re.match(r"tuple\[(\w+)", text)
        return f"list of {words.get(inner[1] if inner else '', 'value')}s"
    if "tuple[str" in text:
        return "number, or list of names"
    if "Sequence" in text or text == "Values":
        return "number or list of numbers"
    return words.get(text.split(" | ")[0], text)


def default(value: Any) -> Any:
    """Return a default without the code around it."""
    if isinstance(value, str) and (inner := re.fullmatch(r"(?:Choice|Path)\((?:name=)?'([^']*)'(?:, open=True)?\)", value)):
        return inner[1]
    return value


def plain(value: Any) -> str:
    """Return a value as it is written on the command line."""
    if isinstance(value, tuple | list):
        return ",".join(map(plain, value))
    if isinstance(value, bool):
        return str(value).lower()
    return "–" if value is None else str(value)
