"""Single steps along slopes, equal to those of ``torch.optim``: for one client in place, and as a formula."""

from collections.abc import Callable
from itertools import count
from typing import Any

import torch
from torch import Tensor

from . import pieces, private
from . import spring as springs
from .budget import Budget
from .shard import Batch

Loss = Callable[[Any, Batch], Tensor]
Slopes = tuple[Tensor | None, ...]
Step = Callable[[list[Tensor], Slopes], None]  # moves leaves in place

_BETA1, _BETA2, _EPSILON = 0.9, 0.999, 1e-8  # Adam's published constants


def stepper(budget: Budget, decays: list[float], pull: springs.Pull | None = None) -> Step:
    """Return what moves leaves along their slopes, step after step: with decay, on a spring, with momentum or by Adam."""
    if budget.optimizer == "sgd" and not budget.momentum:
        if pull is not None:
            return lambda trained, slopes: springs.step(pull, trained, slopes, decays, budget.lr)
        return lambda trained, slopes: _down(trained, slopes, decays, budget.lr)
    moments: list[Any] = [None] * len(decays)
    number = count(1)

    def step(trained: list[Tensor], slopes: Slopes) -> None:
        whole = slopes if pull is None else tuple(springs.total(pull, trained, slopes))
        _moved(trained, _decayed(trained, whole, decays), moments, budget, next(number))

    return step


def _decayed(trained: list[Tensor], slopes: Slopes, decays: list[float]) -> Slopes:
    """Return slopes with the decay of the leaves that have one; the others' stay as sparse as they are."""
    return tuple(
        g if g is None or not d else (g.to_dense() if g.is_sparse else g).add(p, alpha=d)
        for p, g, d in zip(trained, slopes, decays, strict=True)
    )


def _down(trained: list[Tensor], slopes: Slopes, decays: list[float], lr: float) -> None:
    """Plain steps; a sparse slope (an embedding) touches only the rows of its batch, where nothing decays."""
    dense = []
    for i, (p, g, d) in enumerate(zip(trained, slopes, decays, strict=True)):
        if g is None:
            continue
        if d and not g.is_sparse and pieces.are_long(p, g):
            pieces.decayed(p, g, d, lr)
        elif d or not g.is_sparse:
            dense.append(i)
        else:
            where, values = private.rows(g)
            p.scatter_add_(0, where[:, None].expand_as(values), values * -lr)  # twice as fast as index_add_
    some = [trained[i] for i in dense]
    found = _decayed(some, tuple(slopes[i] for i in dense), [decays[i] for i in dense])
    private.add(some, [g for g in found if g is not None], -lr)


def _moved(trained: list[Tensor], slopes: Slopes, moments: list[Any], budget: Budget, step: int) -> None:
    used = [i for i, g in enumerate(slopes) if g is not None]
    params = [trained[i] for i in used]
    dense = [g.to_dense() if g.is_sparse else g for g in slopes if g is not None]
    if budget.optimizer == "adam":
        for i, p, g in zip(used, params, dense, strict=True):
            p.copy_(stepped(p, g, moments, i, budget, torch.tensor(step, dtype=torch.float64)))
        return
    if budget.momentum:
        known = [(moments[i], g) for i, g in zip(used, dense, strict=True) if moments[i] is not None]
        private.scale([m for m, _ in known], budget.momentum)
        private.add([m for m, _ in known], [g for _, g in known], 1.0)
        for i, g in zip(used, dense, strict=True):
            moments[i] = g.clone() if moments[i] is None else moments[i]
        dense = [moments[i] for i in used]
    private.add(params, dense, -budget.lr)


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
