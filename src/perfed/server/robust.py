"""Rules of averaging that bear with some bad answers: they choose, weigh or draw in whole answers by their distances.

All work on the clients' distances to each other, so an answer counts as a whole: what is odd about it may lie anywhere.
Numbers are compared in double precision; masks and whole numbers follow what was chosen and do not take part in distances.
"""

import math
from collections.abc import Sequence
from typing import TypeVar

import torch
from torch import Tensor

from .. import trees

T = TypeVar("T")

_PIECE, _LEAST = 1 << 20, 4096  # numbers of all answers that are multiplied at once; of one, at least
_STEPS, _STILL = 100, 1e-9  # of the geometric median


def square_distances(answers: Sequence[T]) -> Tensor:
    """Return the squared distance of every two answers, in double precision."""
    count = len(answers)
    gram = torch.zeros(count, count, dtype=torch.float64)
    piece = max(_LEAST, _PIECE // max(1, count))
    for leaves in zip(*map(trees.leaves, answers), strict=True):
        if not leaves[0].is_floating_point():
            continue
        flat = [leaf.reshape(-1) for leaf in leaves]
        for at in range(0, len(flat[0]), piece):
            part = torch.stack([leaf[at : at + piece] for leaf in flat]).double()
            part = part - part[0]  # near each other: products of what is large would leave nothing of the difference
            gram += (part @ part.T).cpu()
    own = gram.diagonal()
    return (own[:, None] + own[None, :] - 2 * gram).clamp(min=0).fill_diagonal_(0)


def assumed(count: int, share: float) -> int:
    """Return how many of so many answers are taken to be bad: the share, rounded up, at least one, and always a minority."""
    if count < 3:
        return 0
    return min(max(1, math.ceil(share * count - 1e-9)), (count - 1) // 2)


def krum_scores(square: Tensor, bad: int) -> Tensor:
    """Return for each answer the sum of its squared distances to its nearest others, as many as are surely honest besides it."""
    near = max(1, len(square) - bad - 2)
    return square.sort(1).values[:, 1 : 1 + near].sum(1)


def krum_weights(square: Tensor, bad: int, many: bool) -> Tensor:
    """Return the weights of Krum, all on one answer, or of Multi-Krum, equal on all but ``bad``; the first of equals wins."""
    count = len(square)
    order = krum_scores(square, bad).sort(stable=True).indices
    kept = order[: count - bad if many else 1]
    return torch.zeros(count, dtype=torch.float64).scatter(0, kept, 1 / len(kept))


def neighbours(square: Tensor, bad: int) -> Tensor:
    """Return, a row per answer, the weights that replace it by the mean of itself and its nearest others, all but ``bad``."""
    count = len(square)
    order = square.sort(dim=1, stable=True).indices[:, : count - bad]
    return torch.zeros(count, count, dtype=torch.float64).scatter(1, order, 1 / (count - bad))


def median_weights(square: Tensor) -> Tensor:
    """Return the weights with which answers make their geometric median: Weiszfeld's steps, in the space of weights.

    The point with the least sum of distances to all answers is a mean of them, so distances among answers suffice.
    """
    count = len(square)
    weights = torch.full((count,), 1 / count, dtype=torch.float64)
    scale = float(square.mean()) ** 0.5
    if scale == 0:
        return weights
    for _ in range(_STEPS):
        apart = (square @ weights - 0.5 * weights @ square @ weights).clamp(min=0).sqrt()
        pull = 1 / apart.clamp(min=1e-9 * scale)
        step = pull / pull.sum()
        if float((step - weights).abs().max()) < _STILL:
            return step
        weights = step
    return weights


def clipping(square: Tensor) -> tuple[int, Tensor]:
    """Return the answer in the middle, and how far towards it every answer is drawn: 1 stays, 0 becomes the middle.

    The middle is the answer with the least median distance to the others; whoever is further from it than half of them are
    is drawn in to that distance.
    """
    away = square.sqrt()
    middle = int(away.median(1).values.argmin())
    reach = away[middle]
    radius = float(reach.sort().values[len(reach) // 2])
    return middle, torch.where(reach > radius, radius / reach.clamp(min=1e-300), torch.ones_like(reach))


def clipping_weights(square: Tensor) -> Tensor:
    """Return the weights of the plain mean of answers that are drawn in as `clipping` says."""
    middle, stay = clipping(square)
    weights = stay / len(stay)
    return weights.index_add(0, torch.tensor([middle]), (1 - stay).sum(0, keepdim=True) / len(stay))
