"""Single steps along slopes, equal to those of ``torch.optim``: for one client in place, and as a formula."""

from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple

import torch
from torch import Tensor

from . import pieces, private
from .budget import Budget
from .shard import Batch

Loss = Callable[[Any, Batch], Tensor]
Slopes = tuple[Tensor | None, ...]
Step = Callable[[list[Tensor], Slopes], None]  # moves leaves in place

_BETA1, _BETA2, _EPSILON = 0.9, 0.999, 1e-8  # Adam's published constants


class Pull(NamedTuple):
    """A spring, what `proximal` adds to a loss: half the strength times the squared distance of trained leaves to anchors."""

    strength: float
    anchors: list[Tensor]


def stepper(budget: Budget, decays: list[float], pull: Pull | None = None) -> Step:
    """Return what moves leaves along their slopes, step after step: with decay, on a spring, with momentum or by Adam."""
    moments: list[Any] = [None] * len(decays)
    number = count(1)
    strength, anchors = (0.0, [None] * len(decays)) if pull is None else pull
    motions = [pieces.Motion(budget.lr, budget.momentum, d, strength, a) for d, a in zip(decays, anchors, strict=True)]

    def step(trained: list[Tensor], slopes: Slopes) -> None:
        rest, steps = [], next(number)
        for i, (p, g) in enumerate(zip(trained, slopes, strict=True)):
            if budget.optimizer == "sgd" and pieces.pays(p, g, motions[i]):
                moments[i] = pieces.move(p, g, moments[i], motions[i])
            elif g is not None or pull is not None:
                rest.append(i)
        params = [trained[i] for i in rest]
        along = _along(params, [slopes[i] for i in rest], [motions[i] for i in rest])
        if budget.optimizer == "adam":
            for i, p, g in zip(rest, params, along, strict=True):
                dense = g.to_dense() if g.is_sparse else g
                p.copy_(stepped(p, dense, moments, i, budget, torch.tensor(steps, dtype=torch.float64)))
            return
        _down(params, _smoothed(along, rest, moments, budget.momentum) if budget.momentum else along, budget.lr)

    return step


def _along(params: list[Tensor], slopes: list[Tensor | None], motions: list[pieces.Motion]) -> list[Tensor]:
    """Return slopes with what springs and decay add to them; the others' stay as sparse as they are."""
    on_springs = any(motion.anchor is not None for motion in motions)
    found = _sprung(params, slopes, motions) if on_springs else [g for g in slopes if g is not None]
    return [
        (g.to_dense() if g.is_sparse else g).add(p, alpha=motion.decay) if motion.decay else g
        for p, g, motion in zip(params, found, motions, strict=True)
    ]


def _sprung(params: list[Tensor], slopes: list[Tensor | None], motions: list[pieces.Motion]) -> list[Tensor]:
    found = private.gaps(params, [motion.anchor for motion in motions if motion.anchor is not None])
    private.scale(found, motions[0].strength)
    dense = [(t, g) for t, g in zip(found, slopes, strict=True) if g is not None and not g.is_sparse]
    private.add([t for t, _ in dense], [g for _, g in dense], 1.0)
    for t, g in zip(found, slopes, strict=True):
        if g is not None and g.is_sparse:
            where, values = private.rows(g)
            t.scatter_add_(0, where[:, None].expand_as(values), values)
    return found


def _smoothed(slopes: list[Tensor], places: list[int], moments: list[Any], momentum: float) -> list[Tensor]:
    """Return what momentum makes of slopes; it is kept in ``moments``, at the leaves' places."""
    dense = [g.to_dense() if g.is_sparse else g for g in slopes]
    known = [(moments[i], g) for i, g in zip(places, dense, strict=True) if moments[i] is not None]
    private.scale([m for m, _ in known], momentum)
    private.add([m for m, _ in known], [g for _, g in known], 1.0)
    for i, g in zip(places, dense, strict=True):
        moments[i] = g.clone() if moments[i] is None else moments[i]
    return [moments[i] for i in places]


def _down(params: list[Tensor], slopes: list[Tensor], lr: float) -> None:
    """Plain steps; a sparse slope (an embedding) touches only the rows of its batch."""
    dense = [(p, g) for p, g in zip(params, slopes, strict=True) if not g.is_sparse]
    private.add([p for p, _ in dense], [g for _, g in dense], -lr)
    for p, g in zip(params, slopes, strict=True):
        if g.is_sparse:
            where, values = private.rows(g)
            p.scatter_add_(0, where[:, None].expand_as(values), values * -lr)  # twice as fast as index_add_


def stepped(p: Tensor, g: Tensor, moments: list[Any], i: int, budget: Budget, step: Tensor) -> Tensor:
    """Return a parameter after one step along ``g``; its moments live in ``moments[i]``."""
    if budget.optimizer == "adam":
        m, v = moments[i] or (torch.zeros_like(p), torch.zeros_like(p))
        m, v = m.lerp(g, 1 - _BETA1), v * _BETA2 + (1 - _BETA2) * g * g
        moments[i] = (m, v)
        rate = (budget.lr / (1 - _BETA1**step)).to(p.dtype)
        size = v.sqrt() / (1 - _BETA2**step).sqrt().to(p.dtype) + _EPSILON
        return p - rate * (m / size)
    if budget.momentum:
        moments[i] = g if moments[i] is None else moments[i] * budget.momentum + g
        g = moments[i]
    return p.add(g, alpha=-budget.lr)
