"""Fixed choices: a part of a data set, and an order, the same on every run and machine."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from .samples import Samples

SEED = 0  # of RandomState, which unlike newer generators promises the same numbers in every version of NumPy


def order(count: int) -> list[int]:
    """Return a fixed random order.

    Folders come class by class; in this order the first n pictures of a domain are a fair sample of it.
    """
    mixed: list[int] = np.random.RandomState(SEED).permutation(count).tolist()
    return mixed


def positions(samples: Samples, fraction: float) -> Tensor:
    """Return the fixed positions of ``fraction`` of every class within every group and official part.

    Of n samples that share class, group and part, max(1, ⌊n · fraction + ½⌋) are kept, in their old order.
    """
    random = np.random.RandomState(SEED)
    cell = samples.strata.numpy().copy()
    if samples.group is not None:
        cell += len(samples.classes) * samples.group.numpy()
    if samples.test is not None:
        cell = 2 * cell + samples.test.numpy()
    kept = []
    for value in np.unique(cell):
        members = np.flatnonzero(cell == value)
        count = max(1, int(np.floor(len(members) * fraction + 0.5)))
        kept.append(random.permutation(members)[:count])
    return torch.from_numpy(np.sort(np.concatenate(kept)).astype(np.int64))


def portion(samples: Samples, fraction: float) -> Samples:
    """Return ``fraction`` of the samples, every class, group and official part in proportion."""
    return samples if fraction == 1 else samples.take(positions(samples, fraction))
