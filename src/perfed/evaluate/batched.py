"""The metrics of many clients in one pass over all their samples.

Clients of a small network are trained in less time than numpy needs for a dozen small calls, so that every call serves all
of them. A client's figures have the same bits whoever else is in the batch, and however far its samples are padded: counts
are whole numbers, a client's samples are summed one after another, and sums over classes and bins have the same length for all.
"""

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from . import measures
from .measures import SURE, Array, Counts
from .ranks import Ranks, ranks

if TYPE_CHECKING:
    from torch import Tensor

BINS = 15  # of confidence, all equally wide
EDGES = np.linspace(0, 1, BINS + 1)[1:-1]


class Everyone:
    """Scores (clients × samples × classes) and labels, padded beyond each client's own number of samples."""

    def __init__(self, scores: "Tensor", y: "Tensor", sizes: Sequence[int]) -> None:
        self.scores, self.y = scores, y.numpy()
        self.size = np.asarray(sizes)
        self.clients, self.samples, self.classes = scores.shape
        self.client = np.arange(self.clients).repeat(self.size)  # whose each sample is, padding left out
        self.labels = self.kept(self.y)
        self.lane = self.client * self.classes + self.labels  # of which client's class it is

    @cached_property
    def own(self) -> Array | None:
        """Which samples are no padding, or nothing where none is."""
        full = len(self.client) == self.clients * self.samples
        return None if full else np.asarray(np.arange(self.samples) < self.size[:, None])

    def kept(self, table: Array) -> Array:
        """Return the entries of a table (clients × samples) that are no padding, client by client."""
        return table.ravel() if self.own is None else table[self.own]

    @cached_property
    def shares(self) -> Array:
        """Probabilities."""
        found: Array = self.scores.softmax(2).numpy()
        return found

    @cached_property
    def highest(self) -> Array:
        """The class with the highest score, also of padding."""
        found: Array = self.scores.argmax(2).numpy()
        return found

    @cached_property
    def guessed(self) -> Array:
        """The class with the highest score."""
        return self.kept(self.highest)

    @cached_property
    def sure(self) -> Array:
        """The probability of the class with the highest score."""
        found = self.shares.take(np.arange(0, self.shares.size, self.classes) + self.highest.ravel())
        return self.kept(found.reshape(self.highest.shape))

    @cached_property
    def lost(self) -> Array:
        """The clients of whom a probability is no number."""
        found: Array = self.client[np.isnan(self.sure)]
        return found

    @cached_property
    def confusion(self) -> Array:
        """Each client's samples by label and prediction."""
        return self.counted(self.lane * self.classes + self.guessed, self.classes, self.classes)

    @cached_property
    def held(self) -> Array:
        """Each client's samples by label."""
        return self.counted(self.lane, self.classes)

    @cached_property
    def counts(self) -> Counts:
        """Each client's samples by class."""
        said, right = self.client * self.classes + self.guessed, self.lane[self.guessed == self.labels]
        return Counts(self.held, self.counted(said, self.classes), self.counted(right, self.classes))

    @cached_property
    def reliability(self) -> Array:
        """Each client's samples, sum of confidence and right answers by bin (which holds its upper edge)."""
        place, right = self.client * BINS + EDGES.searchsorted(self.sure), self.guessed == self.labels
        found = np.empty((self.clients, BINS, 3))
        for column, weights in enumerate((None, self.sure, right)):
            found[:, :, column] = self.counted(place, BINS, weights=weights)
        found[self.lost] = np.nan
        return found

    @cached_property
    def brier(self) -> Array:
        """Each client's mean squared distance of the probabilities from certainty in the label."""
        far = measures.uncertain(self.shares.reshape(-1, self.classes), self.y.ravel()).reshape(self.y.shape)
        return np.asarray(self.counted(self.client, weights=self.kept(far)) / np.maximum(self.size, 1))

    @cached_property
    def ranked(self) -> Ranks:
        """Samples by the probability of their class."""
        return self.by(self.shares.transpose(0, 2, 1))

    @cached_property
    def areas(self) -> Array:
        """The area under each class's ROC curve, the chance that one of its samples ranks above another's; 0 without both."""
        won = self.counted(self.ranked.lane, self.classes, weights=self.ranked.won)
        return np.asarray(won / np.maximum(self.held * (self.size[:, None] - self.held), 1))

    @cached_property
    def precision(self) -> Array:
        """Each class's average precision, the mean over its samples of the share of it in what ranks at least as high."""
        lane, below, own, _ = self.ranked
        there = np.maximum(self.size[lane // self.classes] - below, 1)
        found = self.counted(lane, self.classes, weights=(self.held.take(lane) - own) / there)
        return np.asarray(found / np.maximum(self.held, 1))

    @cached_property
    def kinds(self) -> Array:
        """How many classes a client has."""
        return measures.kinds(self.held)

    @cached_property
    def unranked(self) -> Array:
        """The clients with nothing to rank: those of one class, and those whose scores are no numbers."""
        found = np.asarray(self.kinds < 2)
        found[self.lost] = True
        return found

    def ranking(self, found: Array) -> Array:
        """Return what was found by ranks, undefined where there is nothing to rank."""
        return np.where(self.unranked, np.nan, found)

    def by(self, values: Array) -> Ranks:
        """Rank samples by values (clients × classes × samples)."""
        ready, labels = np.array(values, order="C"), self.y
        if self.own is not None:
            np.copyto(ready, np.inf, where=~self.own[:, None])
            labels = np.where(self.own, labels, -1)
        return ranks(ready.reshape(-1, self.samples), labels[:, None] == np.arange(self.classes)[:, None])

    def counted(self, place: Array, *shape: int, weights: Array | None = None) -> Array:
        """Count samples, or sum their weights, by client and place."""
        whole = (self.clients, *shape)
        return np.bincount(place, weights, math.prod(whole)).reshape(whole)

    @cached_property
    def interval(self) -> Array:
        """The middle 95 % that the AUC of two classes may be, by DeLong's variance on the scale of log-odds."""
        if self.classes != 2:
            return np.full((self.clients, 2), np.nan)
        margin = (self.scores[:, :, 1] - self.scores[:, :, 0]).numpy()
        known = np.asarray((self.held > 1).all(1))
        known[self.client[~np.isfinite(self.kept(margin))]] = False
        lane, _, _, won = self.by(np.stack([-margin, margin], 1))
        won = won / np.maximum(self.held[:, ::-1], 1).take(lane)  # the share of the others that it ranks above
        held = np.maximum(self.held, 2)
        means = self.counted(lane, 2, weights=won) / held
        spread = (self.counted(lane, 2, weights=(won - means.take(lane)) ** 2) / (held - 1) / held).sum(1)
        least = 0.5 / held.prod(1)
        inside = np.clip(means[:, 1], least, 1 - least)
        odds, wide = np.log(inside / (1 - inside)), SURE * np.sqrt(spread) / (inside * (1 - inside))
        with np.errstate(over="ignore"):  # of odds that are nothing beside one
            ends = 1 / (1 + np.exp(-np.stack([odds - wide, odds + wide], 1)))
        return np.where(known[:, None], ends, np.nan)


Batch = Callable[[Everyone], Array]  # everyone to one number, or one table, for each client

BATCHED: dict[str, Batch] = {
    "balanced_accuracy": lambda batch: measures.balanced(batch.counts),
    "f1": lambda batch: measures.f1(batch.counts),
    "auc": lambda batch: batch.ranking(measures.mean(batch.areas, batch.kinds)),
    "auc_weighted": lambda batch: batch.ranking((batch.areas * batch.held).sum(1) / np.maximum(batch.size, 1)),
    "average_precision": lambda batch: batch.ranking(measures.mean(batch.precision, batch.kinds)),
    "brier": lambda batch: batch.brier,
    "ece": lambda batch: measures.ece(batch.reliability),
    "recall": lambda batch: measures.recall(batch.counts),
    "auc_interval": lambda batch: batch.interval,
    "confusion": lambda batch: batch.confusion,
    "reliability": lambda batch: batch.reliability,
}


def values(batch: Everyone, function: Batch) -> list[Any]:
    """Return a metric of every client: numbers or lists, ``None`` where it is undefined."""
    found = function(batch)
    if found.ndim < 3:
        return _defined(found.tolist())
    return [_defined(table.tolist()) for table in found] if np.isnan(found).any() else found.tolist()


def _defined(plain: list[Any]) -> list[Any]:
    """Return numbers, or lists of them, with ``None`` for what is undefined."""
    if plain and isinstance(plain[0], list):
        return [[value if value == value else None for value in row] for row in plain]
    return [value if value == value else None for value in plain]


def alone(name: str) -> Callable[["Tensor", "Tensor"], Any]:
    """Return a metric as a function of one client's scores and labels."""
    return lambda scores, y: BATCHED[name](Everyone(scores[None], y[None], [len(y)]))[0]


def label_auc(scores: "Tensor", y: "Tensor") -> float:
    """Mean over the labels that some samples have and others have not of the area under their ROC curve."""
    import torch

    columns, own = scores.T, y.T.long()
    known = (own.sum(1) > 0) & (own.sum(1) < len(y))
    if not known.any():
        return np.nan
    columns = columns[known]
    two = Everyone(torch.stack([torch.zeros_like(columns), columns], 2), own[known], [len(y)] * len(columns))
    return float(BATCHED["auc"](two).mean())
