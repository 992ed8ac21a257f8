"""What a client's scores are measured by: each metric is a function of one client's scores and labels, and a catalogue line."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..errors import InputError, suggest
from . import batched, measures
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


GOALS = ("classification", "multilabel", "regression", "survival")
CATALOGUE: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("accuracy", measures.accuracy, "accuracy", per="sample", whole=True),
        Metric("loss", measures.loss, "loss", per="sample", higher=False, unit="", digits=4, kept=6, goals=GOALS),
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
        Metric("auc_interval", measures.auc_interval, "95 % interval of the AUC", listed=True),
        Metric("label_accuracy", measures.label_accuracy, "right labels", per="sample", goals=("multilabel",)),
        Metric("label_auc", measures.label_auc, "AUC over labels", goals=("multilabel",)),
        Metric("r2", measures.r2, "R²", goals=("regression",)),
        Metric("mae", measures.absolute, "absolute error", per="sample", higher=False, unit="", digits=4, goals=("regression",)),
        Metric("rmse", measures.rmse, "root of squared error", higher=False, unit="", digits=4, goals=("regression",)),
        Metric("concordance", measures.concordance, "concordance", goals=("survival",)),
        Metric("confusion", measures.confusion, "confusion matrix", listed=True, pooled=("confusion", lambda matrix: matrix)),
        Metric("reliability", measures.reliability, "reliability", listed=True, pooled=("reliability", lambda bins: bins)),
    )
}
DECIMALS = {metric.name: metric.kept for metric in CATALOGUE.values() if metric.kept is not None}
ALWAYS = ("accuracy", "loss")  # what every run measures: tables, curves and the watch for runaway losses need them
MAIN = {"multilabel": "label_accuracy", "regression": "r2", "survival": "concordance"}  # in the place of accuracy


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


def measure(metrics: Sequence[Metric], scores: "Tensor", y: "Tensor") -> Score:
    """Return one client's score; in float64 on the CPU, where many small steps cost least."""
    if not len(y):
        return Score(0, dict.fromkeys(metric.name for metric in metrics))
    scores, y = scores.detach().cpu().double(), y.cpu()
    return Score(len(y), {metric.name: metric.value(scores, y) for metric in metrics})


def measure_each(metrics: Sequence[Metric], scores: "Tensor", y: "Tensor", sizes: Sequence[int]) -> list[Score]:
    """Return the scores of several clients (clients × samples × classes), each padded beyond its own number of samples."""
    scores, y = scores.detach().cpu().double(), y.cpu()
    size = y.new_tensor(sizes).long()
    padding = size.new_ones(y.shape[:2]).cumsum(1) > size[:, None]
    sums = {}
    for metric in metrics:
        if metric.per == "sample":
            values = metric.of(scores.flatten(0, 1), y.flatten(0, 1)).double().unflatten(0, y.shape[:2])
            sums[metric.name] = values.masked_fill(padding, 0.0).sum(1).tolist()
    many = [metric.name for metric in metrics if metric.name in batched.BATCHED and metric is CATALOGUE[metric.name]]
    batch = batched.Everyone(scores, y, sizes) if many else None
    at_once = {name: batched.values(batch, name) for name in many if batch is not None}
    found = []
    for i, n in enumerate(sizes):
        own: dict[str, Value] = dict.fromkeys(metric.name for metric in metrics)
        for metric in metrics if n else ():
            if metric.per == "sample":
                own[metric.name] = finite(sums[metric.name][i] / n)
            else:
                own[metric.name] = at_once[metric.name][i] if metric.name in at_once else metric.value(scores[i, :n], y[i, :n])
        found.append(Score(n, own))
    return found


def finite(found: Any) -> Value:
    """Return a number, or lists of numbers, with ``None`` for everything that is not finite."""
    if found is None or isinstance(found, float | int):
        return found if found is not None and math.isfinite(found) else None
    if isinstance(found, list | tuple):
        return [finite(entry) for entry in found]
    array = np.asarray(found)
    return array.tolist() if np.isfinite(array).all() else finite(array.tolist())
