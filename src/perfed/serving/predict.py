"""Predictions for files of inputs: tables, folders of pictures, archives of arrays."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..data import csvs
from ..data.archives import Archive
from ..data.folders import SUFFIXES, found
from ..data.frames import told
from ..errors import DataError, InputError, suggest
from .card import describe, measured
from .files import Scores, read_onnx, read_program, read_tensors
from .fit import Fit
from .personal import PersonalModel, scores_of
from .rebuild import OwnCode

NUMBERS = {"regression": "value", "survival": "risk"}  # what a model gives that tells no classes apart
BATCH = 1000  # samples at once, as when a client is tested: the same sums in the same order


@dataclass(frozen=True)
class Predictor:
    """A model in use: what it says of itself, and a function from stored samples to scores."""

    card: dict[str, Any]
    score: Scores
    name: str  # where it comes from

    @property
    def fit(self) -> Fit:
        """What it takes."""
        return Fit(self.card)

    @property
    def classes(self) -> list[str]:
        """The classes' names."""
        return list(self.card["classes"])

    def scores(self, x: Tensor) -> Tensor:
        """Return the scores of stored samples."""
        return torch.cat([self.score(part) for part in torch.split(x, BATCH)])

    def answers(self, scores: Tensor) -> list[dict[str, Any]]:
        """Return for each sample's scores the class and all probabilities; of labels those that hold; of numbers the number."""
        task = self.card.get("task", "classification")
        names = self.classes or [str(place) for place in range(scores.shape[1])]
        if task in NUMBERS:
            return [{NUMBERS[task]: row[0]} for row in scores.double().tolist()]
        several = task == "multilabel"
        shares = torch.sigmoid(scores.double()) if several else torch.softmax(scores.double(), 1)
        return [(_labels if several else _class)(dict(zip(names, row, strict=True))) for row in shares.tolist()]


def _class(shares: dict[str, float]) -> dict[str, Any]:
    best = max(shares, key=shares.__getitem__)
    return {"class": best, "probability": shares[best], "probabilities": shares}


def _labels(shares: dict[str, float]) -> dict[str, Any]:
    return {"labels": [name for name, share in shares.items() if share > 0.5], "probabilities": shares}


@dataclass(frozen=True)
class Given:
    """The samples of one input, and what is said of each."""

    file: str
    x: Tensor
    rows: list[str]  # a picture's path, a table's line, an array's place
    labels: list[str] | None = None
    kept: dict[str, list[Any]] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)  # what was done about gaps


def load(path: Path, own: OwnCode | None = None, trust: bool = False) -> Predictor:
    """Return the model of an exported file; a .pt2 only where its maker is trusted."""
    if not path.is_file():
        raise InputError(f"there is no file '{path}'; `perfed export` writes models")
    if path.suffix == ".pt2" and not trust:
        raise InputError(
            f"torch may run code that is in '{path}' when it loads it; --trust does so, .onnx and .safetensors need no trust"
        )
    readers = {
        ".safetensors": lambda: read_tensors(path, own),
        ".onnx": lambda: read_onnx(path),
        ".pt2": lambda: read_program(path),
    }
    if path.suffix not in readers:
        raise InputError(f"a model's file ends in {', '.join(readers)}, got '{path.name}'")
    score, card = readers[path.suffix]()
    return Predictor(card, score, str(path))


def held(model: PersonalModel, about: Mapping[str, Any], samples: tuple[Tensor, Tensor], name: str) -> Predictor:
    """Return a model that is in memory, as its file would be, scored on samples of its own."""
    card = describe(model, {}, (), about)
    del card["parameters"]  # which of its tensors it uses is found out when a file is written
    if card["task"] == "classification":
        card["scores"] = measured(scores_of(model, samples[0], BATCH), samples[1].cpu(), card["classes"])
    return Predictor(card, lambda x: scores_of(model, x, BATCH), name)


def read(path: Path, model: Predictor, label: str | None = None, keep: Sequence[str] = ()) -> Given:
    """Return the samples at ``path``; what does not fit the model is refused."""
    if not path.exists():
        raise InputError(f"there is nothing at '{path}'")
    task = model.card.get("task", "classification")
    if label is not None and task != "classification":
        raise InputError(f"--label compares classes, and this model is for {task}; --keep {label} carries the column over")
    pictures = path.is_dir() or path.suffix.lower() in SUFFIXES
    if (pictures or path.suffix == ".npz") and keep:
        raise InputError(f"--keep carries columns of tables over, and '{path}' is none")
    if pictures:
        return _checked(_pictures(path, model.fit, label), model)
    if path.suffix == ".npz":
        return _checked(_arrays(path, model, label, task == "classification"), model)
    if path.suffix == ".csv":
        return _checked(_table(path, model, label, keep), model)
    raise InputError(f"'{path}' is no input: there are .csv, .npz, pictures and folders of pictures")


def _table(path: Path, model: Predictor, label: str | None, keep: Sequence[str]) -> Given:
    raw, wanted = csvs.read(path), model.fit.columns
    aside = [name for name in (label, *keep) if name is not None]
    for name in aside:
        if name not in raw.columns:
            raise suggest(f"column in {path}", name, raw.names)
    inputs = {name: cells for name, cells in raw.columns.items() if name not in aside or name in wanted}
    if not inputs:
        raise DataError(f"{path} has no column for the model")
    x, said = model.fit.table(replace(raw, columns=inputs))
    kept = {name: list(raw.columns[name]) for name in keep}
    names = None if label is None else [_named(value) for value in told(raw.columns[label])]
    return Given(str(path), x, [str(row) for row in raw.origin.rows[0]], names, kept, said)


def _pictures(path: Path, fit: Fit, label: str | None) -> Given:
    if label not in (None, "folder"):
        raise InputError(f"a picture's label is the folder it lies in: --label folder, not --label {label}")
    paths = [path] if path.is_file() else found(path)
    if not paths:
        raise DataError(f"{path} has no pictures in it or below")
    x = torch.cat([fit.picture(one, str(one)) for one in paths])
    names = None if label is None else [one.parent.name for one in paths]
    rows = [one.name if path.is_file() else one.relative_to(path).as_posix() for one in paths]
    return Given(str(path), x, rows, names)


def _arrays(path: Path, model: Predictor, label: str | None, classes: bool) -> Given:
    with Archive(path) as arrays:
        key = "x" if "x" in arrays or "x_test" not in arrays else "x_test"
        x = model.fit.array(arrays[key], f"{path}: {key}")
        labels_key = label or key.replace("x", "y", 1)
        values = arrays[labels_key].tolist() if classes and (label or labels_key in arrays) else None
        names = arrays.names("classes") or arrays.names("label_names")
    labels = None if values is None else [names[v] if names and isinstance(v, int) else _named(v) for v in values]
    if labels is not None and len(labels) != len(x):
        raise DataError(f"{path}: {key} has {len(x)} samples, but {labels_key} has {len(labels)}")
    return Given(str(path), x, [str(row) for row in range(len(x))], labels)


def _checked(given: Given, model: Predictor) -> Given:
    """Refuse a label that is none of the model's classes."""
    for row, name in zip(given.rows, given.labels or (), strict=False):
        if model.classes and name not in model.classes:
            known = ", ".join(model.classes[:8])
            raise DataError(f"{given.file}: row {row} is labelled '{name}', which is none of the model's classes: {known}")
    return given


def _named(value: Any) -> str:
    """Return a label as classes are called: whole numbers without a point."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def compared(model: Predictor, given: Sequence[Given], scores: Sequence[Tensor]) -> dict[str, Any] | None:
    """Return how labelled inputs were scored, beside how the model scored when it was exported; nothing without labels."""
    labelled = [(one.labels, own) for one, own in zip(given, scores, strict=True) if one.labels is not None]
    if not labelled:
        return None
    names = model.classes
    places = torch.tensor([names.index(name) for labels, _ in labelled for name in labels])
    return {"now": measured(torch.cat([own for _, own in labelled]), places, names), "then": model.card.get("scores")}
