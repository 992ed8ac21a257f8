"""What a client's scores are measured by: each metric is a function of one client's scores and labels, and a catalogue line."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..errors import InputError, suggest
from . import measures
from .scores import Score, Value

if TYPE_CHECKING:
    from torch import Tensor

Function = Callable[["Tensor", "Tensor"], Any]  # scores (N×C, float64, on the CPU) and labels (N) to what is measured


@dataclass(frozen=True)
class Metric:
    """A named function of one client's scores and labels; ``nan`` (or ``None`` in a list) says that it is undefined there.

    With ``per="sample"`` the function returns one value for each sample: a client's is their mean, and so is that over all
    clients' samples. With ``per="client"`` it returns the client's number, or a list of numbers.
    """

    name: str
    of: Function
    title: str = ""
    per: Literal["sample", "client"] = "client"
    higher: bool = True  # whether more is better
    whole: bool = False  # whether a sample's value is 0 or 1, so that sums are whole numbers
    unit: str = "%"  # as tables print it: a share in %, or "" for the number itself
    digits: int = 2  # as tables print it
    kept: int | None = None  # decimals in the record; None keeps all
    listed: bool = False  # whether its value is a list: it has no mean and chooses nothing
    pooled: tuple[str, Callable[[Any], Any]] | None = None  # over all samples: from which listed metric's sum, and how

    @property
    def scale(self) -> float:
        """By how much a value is multiplied when it is printed."""
        return 100.0 if self.unit == "%" else 1.0

    def value(self, scores: "Tensor", y: "Tensor") -> Value:
        """Return one client's value."""
        found = self.of(scores, y)
        return finite(found.double().sum().item() / len(y)) if self.per == "sample" else finite(found)


def _from(whole: Function, part: Callable[[Any], Any]) -> Function:
    """Return a metric that a client computes from a table of its samples."""
    return lambda scores, y: part(whole(scores, y))


CATALOGUE: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("accuracy", measures.accuracy, "accuracy", per="sample", whole=True),
        Metric("loss", measures.loss, "loss", per="sample", higher=False, unit="", digits=4, kept=6),
        Metric(
            "balanced_accuracy",
            _from(measures.confusion, measures.balanced),
            "balanced accuracy",
            pooled=("confusion", measures.balanced),
        ),
        Metric("f1", _from(measures.confusion, measures.f1), "macro-F1", pooled=("confusion", measures.f1)),
        Metric("auc", measures.auc, "AUC"),
        Metric("auc_weighted", measures.auc_weighted, "weighted AUC"),
        Metric("average_precision", measures.average_precision, "average precision"),
        Metric("brier", measures.brier, "Brier score", per="sample", higher=False, unit="", digits=4),
        Metric("ece", _from(measures.reliability, measures.ece), "ECE", higher=False, pooled=("reliability", measures.ece)),
        Metric(
            "recall",
            _from(measures.confusion, measures.recall),
            "recall per class",
            listed=True,
            pooled=("confusion", measures.recall),
        ),
        Metric("confusion", measures.confusion, "confusion matrix", listed=True, pooled=("confusion", lambda matrix: matrix)),
        Metric("reliability", measures.reliability, "reliability", listed=True, pooled=("reliability", lambda bins: bins)),
    )
}
DECIMALS = {metric.name: metric.kept for metric in CATALOGUE.values() if metric.kept is not None}
ALWAYS = ("accuracy", "loss")  # what every run measures: tables, curves and the watch for runaway losses need them


Asked = str | Metric | Function  # a name, a metric, or a function that is named after itself


def select(asked: Iterable[Asked]) -> tuple[Metric, ...]:
    """Return the metrics that are asked for, after those that are always measured."""
    found = [*(CATALOGUE[name] for name in ALWAYS), *map(find, asked)]
    return tuple({metric.name: metric for metric in found}.values())


def find(asked: Asked) -> Metric:
    """Return the metric of a name, or make one of a function."""
    if isinstance(asked, Metric):
        return asked
    if not isinstance(asked, str):
        return Metric(asked.__name__, asked, asked.__name__.replace("_", " "), unit="", digits=4)
    if asked not in CATALOGUE:
        raise suggest("metric", asked, CATALOGUE)
    return CATALOGUE[asked]


def known(name: str) -> Metric:
    """Return the metric of a name in a record; one that is not in the catalogue was somebody's own."""
    return CATALOGUE.get(name) or Metric(name, lambda scores, y: math.nan, name.replace("_", " "), unit="", digits=4)


def refuse(chooser: Asked) -> None:
    """Refuse a metric by which nothing can be chosen."""
    if (metric := find(chooser)).listed:
        raise InputError(f"choose={metric.name} is no single number; choose by one such as {', '.join(list(CATALOGUE)[:5])}")


def defined(chooser: Asked, labels: Iterable["Tensor"], classes: int) -> None:
    """Refuse a metric that is undefined for every client, whatever the scores: tell by each one's labels."""
    metric, tested = find(chooser), [y.cpu() for y in labels if len(y)]
    made_up = (y.new_ones(len(y), classes).double().cumsum(0).sin() for y in tested)
    if tested and all(metric.value(scores, y) is None for scores, y in zip(made_up, tested, strict=True)):
        raise InputError(f"choose={metric.name} is undefined for every client (one class only?); choose=accuracy is not")


def measure(metrics: Sequence[Metric], scores: "Tensor", y: "Tensor") -> Score:
    """Return one client's score; in float64 on the CPU, where many small steps cost least."""
    if not len(y):
        return Score(0, dict.fromkeys(metric.name for metric in metrics))
    scores, y = scores.detach().cpu().double(), y.cpu()
    return Score(len(y), {metric.name: metric.value(scores, y) for metric in metrics})


def measure_each(metrics: Sequence[Metric], scores: "Tensor", y: "Tensor", sizes: Sequence[int]) -> list[Score]:
    """Return the scores of several clients (clients × samples × classes), each padded beyond its own number of samples."""
    scores, y, size = scores.detach().cpu().double(), y.cpu(), y.new_tensor(sizes, device="cpu")
    padding = y.new_ones(y.shape, device="cpu").cumsum(1) > size[:, None]
    sums = {}
    for metric in metrics:
        if metric.per == "sample":
            values = metric.of(scores.flatten(0, 1), y.flatten()).double().unflatten(0, y.shape)
            sums[metric.name] = values.masked_fill(padding, 0.0).sum(1).tolist()
    found = []
    for i, n in enumerate(sizes):
        own = scores[i, :n], y[i, :n]
        values = {m.name: finite(sums[m.name][i] / n) if m.per == "sample" else m.value(*own) for m in metrics} if n else {}
        found.append(Score(n, values or dict.fromkeys(metric.name for metric in metrics)))
    return found


def finite(found: Any) -> Value:
    """Return a number, or lists of numbers, with ``None`` for everything that is not finite."""
    if found is None or isinstance(found, float | int):
        return found if found is not None and math.isfinite(found) else None
    if isinstance(found, list | tuple):
        return [finite(entry) for entry in found]
    array = np.asarray(found)
    return array.tolist() if np.isfinite(array).all() else finite(array.tolist())
