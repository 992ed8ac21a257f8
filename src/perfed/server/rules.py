"""What a server can do with answers: pass its state on, average, mix."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from .. import trees
from .uploads import Uploads

T = TypeVar("T")


def mean(answers: Iterable[T], weights: Tensor | Sequence[float]) -> T:
    """Return the weighted mean, added up in order and in double precision; whole numbers are rounded."""
    share = torch.as_tensor(weights, dtype=torch.float64)
    return combine((share / share.sum()).tolist(), answers)


def _like(total: Tensor, x: Tensor) -> Tensor:
    return total.to(x.dtype) if x.is_floating_point() else total.round().to(x.dtype)


def mix(matrix: Tensor, answers: Sequence[T]) -> list[T]:
    """Return, for each row of ``matrix``, the answers mixed with that row's weights."""
    return [combine(row.tolist(), answers) for row in matrix.double()]


def combine(row: Sequence[float], answers: Iterable[T]) -> T:
    """Return the sum of the answers, each times its weight; a weight of zero costs nothing."""
    total: list[Tensor] = []
    shape: Any = None
    for w, tree in zip(row, answers, strict=True):
        if shape is None:
            shape = tree
            total = [torch.zeros_like(x, dtype=torch.float64) for x in trees.leaves(tree)]
        if w:
            for acc, x in zip(total, trees.leaves(tree), strict=True):
                acc.add_(x, alpha=w)
    if shape is None:
        raise ValueError("nothing to combine: no client answered")
    made: T = trees.rebuild(shape, [_like(acc, x) for acc, x in zip(total, trees.leaves(shape), strict=True)])
    return made


def broadcast(method: Any, server: T, client: int) -> T:
    """As a ``send``: tell every client everything."""
    return server


def average(method: Any, server: T, ups: Uploads[T]) -> T:
    """As a ``merge``: the mean answer, weighted by samples, becomes the server's state."""
    return mean(ups, ups.sizes)


def average_uniform(method: Any, server: T, ups: Uploads[T]) -> T:
    """As a ``merge``: the plain mean of the answers becomes the server's state."""
    return mean(ups, torch.ones(len(ups)))
