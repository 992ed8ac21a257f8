"""The metrics of many clients at once: the same figures as one by one, in one pass over all clients' samples.

Clients of a small network are trained in less time than numpy needs for a dozen small calls. Where all scores are at hand,
as with clients along an axis, every call can serve all of them.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from .measures import BINS, EDGES, Array, auc_interval

if TYPE_CHECKING:
    from torch import Tensor


class Everyone:
    """Scores (clients × samples × classes) and labels, padded beyond each client's own number of samples."""

    def __init__(self, scores: "Tensor", y: "Tensor", sizes: Sequence[int]) -> None:
        self.scores, self.y, self.labels = scores, y, y.numpy()
        self.size = np.asarray(sizes)
        self.clients, self.samples, self.classes = scores.shape
        self.own = np.arange(self.samples) < self.size[:, None]  # which samples are no padding
        self.who = np.broadcast_to(np.arange(self.clients)[:, None], self.own.shape)[self.own]

    @cached_property
    def shares(self) -> Array:
        """Probabilities."""
        found: Array = self.scores.softmax(2).numpy()
        return found

    @cached_property
    def finite(self) -> Array:
        """Whether all probabilities of a client are numbers."""
        return np.asarray((np.isfinite(self.shares).all(2) | ~self.own).all(1))

    @cached_property
    def guessed(self) -> Array:
        """The class with the highest score."""
        found: Array = self.scores.argmax(2).numpy()
        return found

    @cached_property
    def confusion(self) -> Array:
        """Each client's samples by label and prediction."""
        place = (self.who * self.classes + self.labels[self.own]) * self.classes + self.guessed[self.own]
        shape = (self.clients, self.classes, self.classes)
        return np.bincount(place, minlength=int(np.prod(shape))).reshape(shape)

    @cached_property
    def held(self) -> Array:
        """Each client's samples by label."""
        found: Array = self.confusion.sum(2)
        return found

    @cached_property
    def right(self) -> Array:
        """Each client's right answers by label."""
        return self.confusion.diagonal(axis1=1, axis2=2)

    @cached_property
    def reliability(self) -> Array:
        """Each client's samples, sum of confidence and right answers by bin."""
        sure = np.where(self.finite[:, None], self.shares.max(2), 0.0)[self.own]
        place = self.who * BINS + EDGES.searchsorted(sure)
        right = (self.guessed == self.labels)[self.own]
        sums = [np.bincount(place, weights, self.clients * BINS) for weights in (None, sure, right)]
        found = np.stack(sums, 1).astype(float).reshape(self.clients, BINS, 3)
        found[~self.finite] = np.nan
        return found

    @cached_property
    def ranked(self) -> tuple[Array, Array, Array]:
        """Samples by their probability of each class: whether they are of it, and the first and last place of their equals."""
        shares = np.where(self.own[:, :, None], self.shares, np.inf)  # padding comes last
        order = shares.argsort(1)
        labels = np.where(self.own, self.labels, -1)
        mine = np.take_along_axis(np.broadcast_to(labels[:, :, None], order.shape), order, 1) == np.arange(self.classes)
        ordered = np.take_along_axis(shares, order, 1)
        places = np.arange(self.samples)[:, None]
        new = np.ones(ordered.shape, bool)
        new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
        first = np.maximum.accumulate(np.where(new, places, 0), axis=1)
        ends = np.ones(ordered.shape, bool)
        ends[:, :-1] = new[:, 1:]
        last = np.minimum.accumulate(np.where(ends, places, self.samples)[:, ::-1], axis=1)[:, ::-1]
        return mine, first, last

    @cached_property
    def there(self) -> Array:
        """The classes that a client has, none where it has one alone or its scores are no numbers."""
        found: Array = self.held > 0
        found[(found.sum(1) < 2) | ~self.finite] = False
        return found

    @cached_property
    def areas(self) -> Array:
        """Each class's area under the ROC curve, 0 where it is not there."""
        mine, first, last = self.ranked
        above = (((first + last) / 2 + 1) * mine).sum(1) - self.held * (self.held + 1) / 2
        pairs = self.held * (self.size[:, None] - self.held)
        return np.where(self.there, above / np.maximum(pairs, 1), 0.0)

    @cached_property
    def precision(self) -> Array:
        """Each class's average precision, 0 where it is not there."""
        mine, first, _ = self.ranked
        below = mine.cumsum(1) - mine
        beyond = np.maximum(self.size[:, None, None] - first, 1)  # of what ranks at least as high
        found = (self.held[:, None, :] - np.take_along_axis(below, first, 1)) / beyond
        return np.where(self.there, (found * mine).sum(1) / np.maximum(self.held, 1), 0.0)

    def mean(self, values: Array, weights: Array) -> Array:
        """The mean over the classes that a client has, undefined where there are none."""
        total = weights.sum(1)
        return np.where(total > 0, (values * weights).sum(1) / np.maximum(total, 1), np.nan)


def _recall(batch: Everyone) -> Array:
    return np.where(batch.held > 0, batch.right / np.maximum(batch.held, 1), np.nan)


def _f1(batch: Everyone) -> Array:
    both = batch.confusion.sum(1) + batch.held
    return batch.mean(2 * batch.right / np.maximum(both, 1), both > 0)


def _ece(batch: Everyone) -> Array:
    bins = batch.reliability
    return np.asarray(np.abs(bins[:, :, 1] - bins[:, :, 2]).sum(1) / np.maximum(bins[:, :, 0].sum(1), 1))


def _interval(batch: Everyone) -> Array:
    if batch.classes != 2:
        return np.full((batch.clients, 2), np.nan)
    return np.array([auc_interval(batch.scores[i, :n], batch.y[i, :n]) for i, n in enumerate(batch.size.tolist())])


BATCHED: dict[str, Callable[[Everyone], Array]] = {
    "balanced_accuracy": lambda batch: batch.mean(batch.right / np.maximum(batch.held, 1), batch.held > 0),
    "f1": _f1,
    "recall": _recall,
    "confusion": lambda batch: batch.confusion,
    "reliability": lambda batch: batch.reliability,
    "ece": _ece,
    "auc": lambda batch: batch.mean(batch.areas, batch.there),
    "auc_weighted": lambda batch: batch.mean(batch.areas, batch.held * batch.there),
    "auc_interval": _interval,
    "average_precision": lambda batch: batch.mean(batch.precision, batch.there),
}


def values(batch: Everyone, name: str) -> list[Any]:
    """Return a metric of every client: numbers or lists, ``None`` for what is not finite."""
    found = BATCHED[name](batch)
    if np.isfinite(found).all():
        return found.tolist()  # type: ignore[no-any-return]
    return np.where(np.isfinite(found), found, None).tolist()  # type: ignore[no-any-return, call-overload]
