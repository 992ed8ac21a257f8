"""What a client's scores are measured by: each metric is a function of one client's scores and labels, and a catalogue line."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from ..errors import InputError, suggest
from . import batched, measures
from .batched import alone, label_auc
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
    goals: tuple[str, ...] = ("classification",)  # for what it can be measured; one's own can for anything
    batch: batched.Batch | None = None  # the same of many clients at once

    @property
    def scale(self) -> float:
        """By how much a value is multiplied when it is printed."""
        return 100.0 if self.unit == "%" else 1.0

    def value(self, scores: "Tensor", y: "Tensor") -> Value:
        """Return one client's value."""
        found = self.of(scores, y)
        return finite(found.double().sum().item() / len(y)) if self.per == "sample" else finite(found)


def _from(part: Callable[[measures.Counts], Any]) -> Callable[[Any], Any]:
    """Return a function of counts as one of a confusion matrix."""
    return lambda matrix: part(measures.Counts.of(matrix))


def _many(name: str, title: str, **options: Any) -> Metric:
    """Return a metric that is computed of many clients at once."""
    return Metric(name, alone(name), title, batch=batched.BATCHED[name], **options)


GOALS = ("classification", "multilabel", "regression", "survival")
CATALOGUE: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("accuracy", measures.accuracy, "accuracy", per="sample", whole=True),
        Metric("loss", measures.loss, "loss", per="sample", higher=False, unit="", digits=4, kept=6, goals=GOALS),
        _many("balanced_accuracy", "balanced accuracy", pooled=("confusion", _from(measures.balanced))),
        _many("f1", "macro-F1", pooled=("confusion", _from(measures.f1))),
        _many("auc", "AUC"),
        _many("auc_weighted", "weighted AUC"),
        _many("average_precision", "average precision"),
        replace(_many("brier", "Brier score", higher=False, unit="", digits=4), of=measures.brier, per="sample"),
        _many("ece", "ECE", higher=False, pooled=("reliability", measures.ece)),
        _many("recall", "recall per class", listed=True, pooled=("confusion", _from(measures.recall))),
        _many("auc_interval", "95 % interval of the AUC", listed=True),
        Metric("label_accuracy", measures.label_accuracy, "right labels", per="sample", goals=("multilabel",)),
        Metric("label_auc", label_auc, "AUC over labels", goals=("multilabel",)),
        Metric("r2", measures.r2, "R²", goals=("regression",)),
        Metric("mae", measures.absolute, "absolute error", per="sample", higher=False, unit="", digits=4, goals=("regression",)),
        Metric("rmse", measures.rmse, "root of squared error", higher=False, unit="", digits=4, goals=("regression",)),
        Metric("concordance", measures.concordance, "concordance", goals=("survival",)),
        _many("confusion", "confusion matrix", listed=True, pooled=("confusion", lambda matrix: matrix)),
        _many("reliability", "reliability", listed=True, pooled=("reliability", lambda bins: bins)),
    )
}
DECIMALS = {metric.name: metric.kept for metric in CATALOGUE.values() if metric.kept is not None}
ALWAYS = ("accuracy", "loss")  # what every run measures: tables, curves and the watch for runaway losses need them
MAIN = {"multilabel": "label_accuracy", "regression": "r2", "survival": "concordance"}  # in the place of accuracy
TOGETHER = 1 << 16  # scores that are measured at once: more is no faster


_OWN: dict[str, Metric] = {}  # somebody's own that were asked for, or that a record told of
_TOLD = ("title", "per", "higher", "whole", "unit", "digits")  # of one's own, in a run's record

Asked = str | Metric | Function  # a name, a metric, or a function that is named after itself


def select(asked: Iterable[Asked], goal: str | None = "classification") -> tuple[Metric, ...]:
    """Return the metrics that are asked for, after those that are always measured; one for something else is refused.

    Where the goal is not known yet (None), only names are checked.
    """
    wanted = [*map(find, asked)]
    for metric in wanted:
        if goal is not None and metric.name in CATALOGUE and goal not in metric.goals:
            there = ", ".join(name for name, known in CATALOGUE.items() if goal in known.goals)
            raise InputError(f"{metric.name} is measured for {' and '.join(metric.goals)}, not for {goal}; there are {there}")
    always = ALWAYS if goal not in MAIN else (MAIN[goal], "loss")
    found = [*(CATALOGUE[name] for name in always), *wanted]
    _OWN.update({metric.name: metric for metric in wanted if metric.name not in CATALOGUE})
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


def chosen_by(name: str, goal: str) -> str:
    """Return the metric by which rounds are chosen: accuracy stands for the main score of whatever is learned."""
    return MAIN.get(goal, name) if name == "accuracy" else name


def with_loss(metrics: Sequence[Metric], goal: str, each: Function) -> tuple[Metric, ...]:
    """Return metrics whose loss is what is minimised: of survival the mean over a client, whose samples are at risk together."""
    if goal == "classification":
        return tuple(metrics)
    own = {"of": measures.cox, "per": "client"} if goal == "survival" else {"of": each}
    return tuple(replace(metric, **own) if metric.name == "loss" else metric for metric in metrics)


def known(name: str) -> Metric:
    """Return the metric of a name in a record; one that is not in the catalogue was somebody's own."""
    return (
        CATALOGUE.get(name)
        or _OWN.get(name)
        or Metric(name, lambda scores, y: math.nan, name.replace("_", " "), unit="", digits=4)
    )


def facts(metrics: Iterable[Asked]) -> dict[str, dict[str, Any]]:
    """Return what a record must tell of somebody's own metrics: how they are printed, and whether less is better."""
    own = [metric for metric in map(find, metrics) if metric.name not in CATALOGUE]
    return {metric.name: {name: getattr(metric, name) for name in _TOLD} for metric in own}


def learn(told: Mapping[str, Mapping[str, Any]]) -> None:
    """Take in what a record tells of somebody's own metrics."""
    for name, own in told.items():
        if name not in CATALOGUE:
            _OWN[name] = Metric(name, lambda scores, y: math.nan, **{key: own[key] for key in _TOLD if key in own})


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


class Begun(NamedTuple):
    """One client's scores (float64, on the CPU) and labels, and what was measured of it by itself."""

    scores: "Tensor"
    y: "Tensor"
    values: dict[str, Value]


def measure(metrics: Sequence[Metric], scores: "Tensor", y: "Tensor") -> Score:
    """Return one client's score."""
    return next(finish(metrics, [begin(metrics, scores, y)]))


def begin(metrics: Sequence[Metric], scores: "Tensor", y: "Tensor") -> Begun:
    """Measure what each client is measured by on its own; in float64 on the CPU, where many small steps cost least."""
    if not len(y):
        return Begun(scores, y, {})
    scores, y = scores.detach().cpu().double(), y.cpu()
    return Begun(scores, y, {metric.name: metric.value(scores, y) for metric in metrics if metric.batch is None})


def finish(metrics: Sequence[Metric], begun: Iterable[Begun]) -> Iterator[Score]:
    """Measure the rest, of as many clients at once as fit, and yield the scores; with whom a client is measured moves no bit."""
    names, shared = [metric.name for metric in metrics], [metric for metric in metrics if metric.batch is not None]
    for group in _groups(begun) if shared else ([own] for own in begun):
        if shared:
            _together(shared, [own for own in group if len(own.y)])
        for own in group:
            yield Score(len(own.y), {name: own.values.get(name) for name in names})


def _together(shared: Sequence[Metric], group: Sequence[Begun]) -> None:
    """Measure a group of clients in one pass."""
    if not group:
        return
    batch = batched.Everyone(*_padded(group), [len(own.y) for own in group])
    for metric in shared:
        assert metric.batch is not None
        for own, value in zip(group, batched.values(batch, metric.batch), strict=True):
            own.values[metric.name] = value


def _padded(group: Sequence[Begun]) -> tuple["Tensor", "Tensor"]:
    """Return clients' scores and labels along a first axis, with zeros beyond a client's own samples."""
    from torch.nn.utils.rnn import pad_sequence

    if len(group) == 1:
        return group[0].scores[None], group[0].y[None]
    return pad_sequence([own.scores for own in group], batch_first=True), pad_sequence([own.y for own in group], batch_first=True)


def _groups(begun: Iterable[Begun]) -> Iterator[list[Begun]]:
    """Yield clients in groups that take little memory, padded to the largest among them."""
    group, most = list[Begun](), 0
    for own in begun:
        most = max(most, own.scores.numel())
        if group and most * (len(group) + 1) > TOGETHER:
            yield group
            group, most = [], own.scores.numel()
        group.append(own)
    yield group


def measure_each(metrics: Sequence[Metric], scores: "Tensor", y: "Tensor", sizes: Sequence[int]) -> list[Score]:
    """Return the scores of several clients (clients × samples × classes), each padded beyond its own number of samples."""
    scores, y = scores.detach().cpu().double(), y.cpu()
    size = y.new_tensor(sizes).long()
    padding = size.new_ones(y.shape[:2]).cumsum(1) > size[:, None]
    batch = batched.Everyone(scores, y, sizes) if any(metric.batch for metric in metrics) else None
    columns: list[list[Value]] = []
    for metric in metrics:
        if batch is not None and metric.batch is not None:
            columns.append(batched.values(batch, metric.batch))
        elif metric.per == "sample":
            values = metric.of(scores.flatten(0, 1), y.flatten(0, 1)).double().unflatten(0, y.shape[:2])
            sums = values.masked_fill(padding, 0.0).sum(1).tolist()
            columns.append([finite(found / max(n, 1)) for found, n in zip(sums, sizes, strict=True)])
        else:
            columns.append([metric.value(scores[i, :n], y[i, :n]) if n else None for i, n in enumerate(sizes)])
    names = [metric.name for metric in metrics]
    rows = zip(*columns, strict=True)
    return [
        Score(n, dict(zip(names, row, strict=True)) if n else dict.fromkeys(names)) for n, row in zip(sizes, rows, strict=True)
    ]


def finite(found: Any) -> Value:
    """Return a number, or lists of numbers, with ``None`` for everything that is not finite."""
    if found is None or isinstance(found, float | int):
        return found if found is not None and math.isfinite(found) else None
    if isinstance(found, list | tuple):
        return [finite(entry) for entry in found]
    array = np.asarray(found)
    return array.tolist() if np.isfinite(array).all() else finite(array.tolist())
