"""What a client's scores are measured by: each metric is a function of one client's scores and labels, and a catalogue line."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from perfed.errors import suggest
from perfed.evaluate.scores import Score, Value

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

    @property
    def scale(self) -> float:
        """By how much a value is multiplied when it is printed."""
        return 100.0 if self.unit == "%" else 1.0

    def value(self, scores: "Tensor", y: "Tensor") -> Value:
        """Return one client's value."""
        found = self.of(scores, y)
        return finite(found.double().sum().item() / len(y)) if self.per == "sample" else finite(found)


def accuracy(scores: "Tensor", y: "Tensor") -> "Tensor":
    """Whether the highest score is the label's."""
    return scores.argmax(1) == y


def loss(scores: "Tensor", y: "Tensor") -> "Tensor":
    """Cross-entropy."""
    return -scores.log_softmax(1).gather(1, y[:, None])[:, 0]


CATALOGUE: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("accuracy", accuracy, "accuracy", per="sample", whole=True),
        Metric("loss", loss, "loss", per="sample", higher=False, unit="", digits=4, kept=6),
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
        return Metric(asked.__name__, asked, asked.__name__.replace("_", " "))
    if asked not in CATALOGUE:
        raise suggest("metric", asked, CATALOGUE)
    return CATALOGUE[asked]


def known(name: str) -> Metric:
    """Return the metric of a name in a record; one that is not in the catalogue was somebody's own."""
    return CATALOGUE.get(name) or Metric(name, lambda scores, y: math.nan, name.replace("_", " "), unit="", digits=4)


def measure(metrics: Sequence[Metric], scores: "Tensor", y: "Tensor") -> Score:
    """Return one client's score; in float64 on the CPU, where many small steps cost least."""
    if not len(y):
        return Score(0, dict.fromkeys(metric.name for metric in metrics))
    scores, y = scores.cpu().double(), y.cpu()
    return Score(len(y), {metric.name: metric.value(scores, y) for metric in metrics})


def measure_each(metrics: Sequence[Metric], scores: "Tensor", y: "Tensor", sizes: Sequence[int]) -> list[Score]:
    """Return the scores of several clients (clients × samples × classes), each padded beyond its own number of samples."""
    scores, y, size = scores.cpu().double(), y.cpu(), y.new_tensor(sizes, device="cpu")
    padding = y.new_ones(y.shape, device="cpu").cumsum(1) > size[:, None]
    found: list[dict[str, Value]] = [{} for _ in sizes]
    for metric in metrics:
        if metric.per == "sample":
            values = metric.of(scores.flatten(0, 1), y.flatten()).double().unflatten(0, y.shape)
            sums = values.masked_fill(padding, 0.0).sum(1).tolist()
            own = [finite(total / n) if n else None for total, n in zip(sums, sizes, strict=True)]
        else:
            own = [finite(metric.of(scores[i, :n], y[i, :n])) if n else None for i, n in enumerate(sizes)]
        for entry, value in zip(found, own, strict=True):
            entry[metric.name] = value
    return [Score(n, entry) for n, entry in zip(sizes, found, strict=True)]


def finite(found: Any) -> Value:
    """Return a number or nested list of numbers with ``None`` for everything that is not finite."""
    plain = found.tolist() if hasattr(found, "tolist") else found
    if isinstance(plain, list | tuple):
        return [finite(entry) for entry in plain]
    return plain if plain is not None and math.isfinite(plain) else None
