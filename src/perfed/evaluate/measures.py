"""The functions behind the metrics: one client's scores and labels in, numbers out; equal to scikit-learn's."""

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

Array = NDArray[Any]

SURE = 1.959963984540054  # normal deviations of a two-sided interval of 95 %
BINS = 15  # of confidence, all equally wide
EDGES = np.linspace(0, 1, BINS + 1)[1:-1]
_once = lru_cache(maxsize=1)  # several metrics of one client ask for the same in a row


def accuracy(scores: "Tensor", y: "Tensor") -> "Tensor":
    """Whether the highest score is the label's."""
    return scores.argmax(1) == y


def loss(scores: "Tensor", y: "Tensor") -> "Tensor":
    """Cross-entropy."""
    return -scores.log_softmax(1).gather(1, y[:, None])[:, 0]


def brier(scores: "Tensor", y: "Tensor") -> "Tensor":
    """Squared distance of the probabilities from certainty in the label, from 0 to 2."""
    shares = _shares(scores)
    return shares.scatter_add(1, y[:, None], shares.new_full((len(y), 1), -1.0)).square().sum(1)


def label_accuracy(scores: "Tensor", y: "Tensor") -> "Tensor":
    """Share of a sample's labels that are right, each above or below a half."""
    return ((scores > 0) == (y > 0.5)).double().mean(1)


def label_auc(scores: "Tensor", y: "Tensor") -> float:
    """Mean over the labels that some samples have and others have not of the area under their ROC curve."""
    import torch

    pairs = [(scores[:, at], y[:, at]) for at in range(y.shape[1]) if 0 < float(y[:, at].sum()) < len(y)]
    two = [auc(torch.stack([torch.zeros_like(s), s], 1), own.long()) for s, own in pairs]
    return float(np.mean(two)) if two else np.nan


def absolute(scores: "Tensor", y: "Tensor") -> "Tensor":
    """Absolute error."""
    return (scores[:, 0] - y).abs()


def rmse(scores: "Tensor", y: "Tensor") -> float:
    """Root of the mean squared error."""
    return float((scores[:, 0] - y).square().mean().sqrt())


def r2(scores: "Tensor", y: "Tensor") -> float:
    """Share of the variance that is explained, below 0 where the mean would do better; undefined where all labels are equal."""
    y = y.double()
    spread = float((y - y.mean()).square().sum())
    return 1 - float((scores[:, 0] - y).square().sum()) / spread if spread > 0 else np.nan


def concordance(scores: "Tensor", y: "Tensor") -> float:
    """Harrell's index: of all pairs whose order in time is known, the share in which the earlier has the higher risk."""
    risk, time, event = scores[:, 0].numpy(), y[:, 0].numpy(), y[:, 1].numpy() > 0
    first = event[:, None] & ((time[:, None] < time) | ((time[:, None] == time) & ~event[None, :]))
    if not first.any() or not np.isfinite(risk).all():
        return np.nan
    above = (risk[:, None] > risk) + 0.5 * (risk[:, None] == risk)
    return float(above[first].mean())


def cox(scores: "Tensor", y: "Tensor") -> float:
    """Cox's negative partial log-likelihood of a client's samples, per event."""
    from ..local.losses import cox_each

    return float(cox_each(scores, y.double()).mean())


def auc_interval(scores: "Tensor", y: "Tensor") -> list[float]:
    """The middle 95 % that the AUC of two classes may be, by DeLong's variance on the scale of log-odds."""
    labels, margin = y.numpy(), (scores[:, -1] - scores[:, 0]).numpy()
    ill, well = margin[labels == 1], margin[labels == 0]
    if scores.shape[1] != 2 or min(len(ill), len(well)) < 2 or not np.isfinite(margin).all():
        return [np.nan, np.nan]
    above = (ill[:, None] > well) + 0.5 * (ill[:, None] == well)
    area = float(above.mean())
    spread = above.mean(1).var(ddof=1) / len(ill) + above.mean(0).var(ddof=1) / len(well)
    inside = min(max(area, 0.5 / above.size), 1 - 0.5 / above.size)
    odds, wide = np.log(inside / (1 - inside)), SURE * np.sqrt(spread) / (inside * (1 - inside))
    return [float(1 / (1 + np.exp(-(odds + side * wide)))) for side in (-1, 1)]


@_once
def confusion(scores: "Tensor", y: "Tensor") -> Array:
    """Samples by label (rows) and prediction (columns)."""
    classes = scores.shape[1]
    return np.bincount((y * classes + scores.argmax(1)).numpy(), minlength=classes**2).reshape(classes, classes)


def recall(matrix: Array) -> Array:
    """Share of each class that was recognised, undefined for a class without samples."""
    held = matrix.sum(1)
    found: Array = matrix.diagonal() / np.maximum(held, 1)
    found[held == 0] = np.nan
    return found


def balanced(matrix: Array) -> float:
    """Mean recall of the classes that there are."""
    held = matrix.sum(1)
    there = held > 0
    return float((matrix.diagonal()[there] / held[there]).sum() / there.sum())


def f1(matrix: Array) -> float:
    """Mean F1 of the classes that are there or are predicted."""
    both = matrix.sum(0) + matrix.sum(1)
    there = both > 0
    return float((2 * matrix.diagonal()[there] / both[there]).sum() / there.sum())


def auc(scores: "Tensor", y: "Tensor") -> float:
    """Mean over the classes that there are of the area under the ROC curve of one against the rest."""
    areas, _ = _areas(scores, y)
    return float(areas.mean()) if len(areas) else np.nan


def auc_weighted(scores: "Tensor", y: "Tensor") -> float:
    """The same, each class weighted by its samples."""
    areas, held = _areas(scores, y)
    return float((areas * held).sum() / held.sum()) if len(areas) else np.nan


def average_precision(scores: "Tensor", y: "Tensor") -> float:
    """Mean over the classes that there are of the average precision of one against the rest."""
    own, held, first, _ = _ranked(scores, y)
    if not own.size:
        return np.nan
    below = own.cumsum(0) - own
    precision = (held - below[first, np.arange(len(held))]) / (len(own) - first)  # of what ranks at least as high
    return float(((precision * own).sum(0) / held).mean())


@_once
def reliability(scores: "Tensor", y: "Tensor") -> Array:
    """Samples, sum of confidence and right answers in each bin of confidence (the highest probability)."""
    sure, right = _shares(scores).numpy().max(1), accuracy(scores, y).numpy()
    if not np.isfinite(sure).all():
        return np.full((BINS, 3), np.nan)
    place = EDGES.searchsorted(sure)  # a bin holds its upper edge
    return np.array([np.bincount(place, weights, BINS) for weights in (None, sure, right)]).T


def ece(bins: Array) -> float:
    """Mean distance of confidence and accuracy over the bins, weighted by samples."""
    return float(np.abs(bins[:, 1] - bins[:, 2]).sum() / bins[:, 0].sum())


@_once
def _areas(scores: "Tensor", y: "Tensor") -> tuple[Array, Array]:
    """Each class's area, which is the chance that one of its samples ranks above another's, and its samples."""
    own, held, first, last = _ranked(scores, y)
    above = (((first + last) / 2 + 1) * own).sum(0) - held * (held + 1) / 2
    return above / (held * (len(own) - held)), held


@_once
def _ranked(scores: "Tensor", y: "Tensor") -> tuple[Array, Array, Array, Array]:
    """Samples ordered by their probability of each class that is there: whether they are of it; and the places of their equals.

    Beside membership (samples × classes) each class's samples are returned; no class where only one is there.
    """
    shares, labels = _shares(scores).numpy(), y.numpy()
    held = np.bincount(labels)
    there = held.nonzero()[0]
    if len(there) < 2 or not np.isfinite(shares).all():
        there = there[:0]
    shares = shares[:, there]
    order = shares.argsort(0)
    return labels[order] == there, held[there], *_ties(shares[order, np.arange(len(there))])


@_once
def _shares(scores: "Tensor") -> "Tensor":
    """Probabilities, of which nobody may change one."""
    return scores.softmax(1)


def _ties(ordered: Array) -> tuple[Array, Array]:
    """The first and the last place of every value's equals in each ordered column."""
    count = len(ordered)
    places = np.arange(count)[:, None]
    new = np.ones(ordered.shape, bool)
    new[1:] = ordered[1:] != ordered[:-1]
    first = np.maximum.accumulate(np.where(new, places, 0), axis=0)
    ends = np.ones(ordered.shape, bool)
    ends[:-1] = new[1:]
    last = np.minimum.accumulate(np.where(ends, places, count)[::-1], axis=0)[::-1]
    return first, last
