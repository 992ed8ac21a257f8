"""Steps on a spring: what `proximal` adds to a loss, moved with the loss's own slope instead of through autograd."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from . import pieces, private


class Pull(NamedTuple):
    """Half the strength times the squared distance of trained leaves to their anchors."""

    strength: float
    anchors: list[Tensor]


def total(pull: Pull, trained: Sequence[Tensor], slopes: Sequence[Tensor | None]) -> list[Tensor]:
    """Return the slopes of loss and spring together."""
    found = private.gaps(trained, pull.anchors)
    private.scale(found, pull.strength)
    dense = [(t, g) for t, g in zip(found, slopes, strict=True) if g is not None and not g.is_sparse]
    private.add([t for t, _ in dense], [g for _, g in dense], 1.0)
    for t, g in zip(found, slopes, strict=True):
        if g is not None and g.is_sparse:
            where, values = private.rows(g)
            t.scatter_add_(0, where[:, None].expand_as(values), values)
    return found


def step(pull: Pull, trained: list[Tensor], slopes: Sequence[Tensor | None], decays: Sequence[float], lr: float) -> None:
    """Take a plain step, in place; to the bit that of the slopes' sum.

    A long leaf moves piece by piece, so that each is read from memory once.
    """
    short = []
    for i, (p, a, g) in enumerate(zip(trained, pull.anchors, slopes, strict=True)):
        if not pieces.are_long(p, a, g):
            short.append(i)
        elif g is not None and g.is_sparse:
            _by_rows(p, a, g, pull.strength, decays[i], lr)
        else:
            pieces.sprung(p, a, g, pull.strength, decays[i], lr)
    some = [trained[i] for i in short]
    found = total(Pull(pull.strength, [pull.anchors[i] for i in short]), some, [slopes[i] for i in short])
    for i, t in zip(short, found, strict=True):
        if decays[i]:
            t.add_(trained[i], alpha=decays[i])
    private.add(some, found, -lr)


def _by_rows(p: Tensor, a: Tensor, g: Tensor, strength: float, decay: float, lr: float) -> None:
    """A sparse slope touches few rows: these move by all of it, and the rest by the spring alone."""
    where, values = private.rows(g)
    rows, place = torch.unique(where, return_inverse=True)
    before = p[rows]
    t = (before - a[rows]).mul_(strength).scatter_add_(0, place[:, None].expand_as(values), values)
    if decay:
        t.add_(before, alpha=decay)
    pieces.sprung(p, a, None, strength, decay, lr)
    p.index_copy_(0, rows, before.add_(t, alpha=-lr))
