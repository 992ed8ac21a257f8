"""What a server can do with answers: pass its state on, average, mix."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from .. import trees
from .uploads import Uploads

T = TypeVar("T")

_PIECE, _LEAST = 1 << 18, 4096  # numbers of all answers that are mixed at once, to stay in the cache; of one, at least


def mean(answers: Iterable[T], weights: Tensor | Sequence[float]) -> T:
    """Return the weighted mean, added up in order and in double precision; whole numbers are rounded."""
    share = torch.as_tensor(weights, dtype=torch.float64)
    return combine((share / share.sum()).tolist(), answers)


def _like(total: Tensor, x: Tensor) -> Tensor:
    return total.to(x.dtype) if x.is_floating_point() else total.round().to(x.dtype)


def mix(matrix: Tensor, answers: Sequence[T]) -> list[T]:
    """Return, for each row of ``matrix``, the answers mixed with that row's weights, in double precision.

    All rows are made in one pass over the answers, piece by piece: N² sums of whole models would take minutes for N = 500.
    """
    rows, columns = matrix.double(), list(zip(*map(trees.leaves, answers), strict=True))
    piece = max(_LEAST, _PIECE // max(1, len(answers)))
    mixed: list[list[Tensor]] = [[] for _ in rows]
    for leaves in columns:
        flat = [x.reshape(-1) for x in leaves]
        made = [torch.empty_like(flat[0]) for _ in rows]
        for at in range(0, len(flat[0]), piece):
            several = torch.stack([x[at : at + piece] for x in flat]).double()
            for whole, part in zip(made, _like(_product(rows, several), flat[0]), strict=True):
                whole[at : at + piece] = part
        for own, whole in zip(mixed, made, strict=True):
            own.append(whole.view(leaves[0].shape))
    return [trees.rebuild(answers[0], own) for own in mixed]


def _product(rows: Tensor, answers: Tensor) -> Tensor:
    """Return rows times answers; as in `combine`, an answer of weight zero does not count, not even where it is no number."""
    made = rows.to(answers.device) @ answers
    if bool(torch.isfinite(made.sum())):  # zero times what is no number is none either, in every row
        return made
    made = torch.zeros(len(rows), answers.shape[1], dtype=torch.float64, device=answers.device)
    for total, row in zip(made, rows.tolist(), strict=True):
        for w, x in zip(row, answers, strict=True):
            if w:
                total.add_(x, alpha=w)
    return made


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
