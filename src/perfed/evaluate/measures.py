"""The functions behind the metrics: scores and labels, or counts of them, in; numbers out; equal to scikit-learn's.

Functions of tables of counts take one client's, or those of many along further axes in front.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

Array = NDArray[Any]

SURE = 1.959963984540054  # normal deviations of a two-sided interval of 95 %


def accuracy(scores: "Tensor", y: "Tensor") -> "Tensor":
    """Whether the highest score is the label's."""
    return scores.argmax(1) == y


def loss(scores: "Tensor", y: "Tensor") -> "Tensor":
    """Cross-entropy."""
    return -scores.log_softmax(1).gather(1, y[:, None])[:, 0]


def brier(scores: "Tensor", y: "Tensor") -> "Tensor":
    """Squared distance of the probabilities from certainty in the label, from 0 to 2."""
    import torch

    return torch.from_numpy(uncertain(scores.softmax(1).numpy(), y.numpy()))


def uncertain(shares: Array, labels: Array) -> Array:
    """Squared distance of each sample's probabilities from certainty in its label."""
    far = shares.copy()
    far.ravel()[np.arange(0, far.size, far.shape[1]) + labels] -= 1
    found: Array = np.einsum("ij,ij->i", far, far)
    return found


def label_accuracy(scores: "Tensor", y: "Tensor") -> "Tensor":
    """Share of a sample's labels that are right, each above or below a half."""
    return ((scores > 0) == (y > 0.5)).double().mean(1)


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


class Counts(NamedTuple):
    """Samples by class: those that are of it, those that were said to be, and those that were rightly said to be."""

    held: Array
    said: Array
    right: Array

    @staticmethod
    def of(matrix: Array) -> "Counts":
        """Return the sums of a confusion matrix."""
        return Counts(matrix.sum(-1), matrix.sum(-2), matrix.diagonal(axis1=-2, axis2=-1))


def recall(counts: Counts) -> Array:
    """Share of each class that was recognised, undefined for a class without samples."""
    return np.where(counts.held > 0, counts.right / np.maximum(counts.held, 1), np.nan)


def balanced(counts: Counts) -> Array:
    """Mean recall of the classes that there are."""
    return mean(counts.right / np.maximum(counts.held, 1), kinds(counts.held))


def f1(counts: Counts) -> Array:
    """Mean F1 of the classes that are there or are predicted."""
    both = counts.held + counts.said
    return mean(2 * counts.right / np.maximum(both, 1), kinds(both))


def kinds(held: Array) -> Array:
    """How many classes hold something."""
    return np.asarray((held > 0).sum(-1))


def mean(values: Array, count: Array) -> Array:
    """The mean over so many classes; the values of others are 0."""
    return np.asarray(values.sum(-1) / np.maximum(count, 1))


def ece(bins: Array) -> Array:
    """Mean distance of confidence and accuracy over the bins, weighted by samples."""
    return np.asarray(np.abs(bins[..., 1] - bins[..., 2]).sum(-1) / np.maximum(bins[..., 0].sum(-1), 1))
