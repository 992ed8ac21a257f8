"""Which client holds how much of which class (FedCP Figures 9 to 11, GPFL Figure 2a)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError


@dataclass(frozen=True)
class Distribution:
    """Label counts, clients × classes, and what is read off them per client."""

    counts: tuple[tuple[int, ...], ...]
    sizes: tuple[int, ...]
    held: tuple[int, ...]  # classes a client has at least one sample of
    majority: tuple[float, ...]  # share of its most frequent class
    skew: tuple[float, ...]  # total variation distance from the pooled label distribution
    mean_skew: float

    def bubbles(self) -> tuple[tuple[int, int, float], ...]:
        """Return (client, class, area) for every non-empty cell; the largest bubble has area 1."""
        largest = max(max(row) for row in self.counts)
        return tuple(
            (client, label, count / largest) for client, row in enumerate(self.counts) for label, count in enumerate(row) if count
        )


def label_counts(labels: NDArray[np.int64], owned: Sequence[NDArray[np.int64]], classes: int) -> NDArray[np.int64]:
    """Count labels per client: ``owned`` holds the positions of each client's samples in ``labels``."""
    return np.stack([np.bincount(labels[rows], minlength=classes) for rows in owned])


def distribution(counts: Sequence[Sequence[int]] | NDArray[np.int64]) -> Distribution:
    """Describe label counts (clients × classes)."""
    table = np.asarray(counts, dtype=np.int64)
    if table.ndim != 2 or not table.size or (table < 0).any():
        raise InputError(f"label counts must be clients × classes and not negative, got shape {table.shape}")
    sizes = table.sum(1)
    if (sizes == 0).any():
        raise InputError(f"client {int(np.argmin(sizes))} has no samples, so it has no label distribution")
    shares = table / sizes[:, None]
    skew = np.abs(shares - table.sum(0) / table.sum()).sum(1) / 2
    return Distribution(
        counts=tuple(tuple(row) for row in table.tolist()),
        sizes=tuple(sizes.tolist()),
        held=tuple((table > 0).sum(1).tolist()),
        majority=tuple(shares.max(1).tolist()),
        skew=tuple(skew.tolist()),
        mean_skew=float(skew.mean()),
    )
