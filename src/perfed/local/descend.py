"""The one training primitive: follow a loss downhill, batch by batch, from a start."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import torch
from torch import Tensor

from .. import trees
from .budget import Budget
from .shard import Batch

T = TypeVar("T")
Loss = Callable[[Any, Batch], Tensor]

_BETA1, _BETA2, _EPSILON = 0.9, 0.999, 1e-8  # Adam's published constants


def descend(
    loss: Callable[[T, Batch], Tensor],
    start: T,
    batches: Iterable[Batch],
    budget: Budget,
    *,
    decay: Callable[[str], float] | None = None,
) -> T:
    """Return where ``loss`` leads from ``start``; what ``loss`` closes over stays as it is.

    Running state in ``start`` is carried along without a gradient. ``decay`` gives single leaves, by path, a weight
    decay other than the budget's. Steps equal those of ``torch.optim``.
    """
    paths = [path for path, _ in trees.named(start)]
    old = trees.leaves(start)
    moving = [leaf.is_floating_point() and not trees.is_state(path) for path, leaf in zip(paths, old, strict=True)]
    decays = [budget.weight_decay if decay is None else decay(path) for path in paths]
    stacked = torch._C._functorch.peek_interpreter_stack() is not None  # even where the start itself has no client axis
    engine = _stacked if stacked else _eager
    return engine(loss, start, old, moving, [d for d, m in zip(decays, moving, strict=True) if m], batches, budget)


def _eager(
    loss: Loss,
    shape: T,
    old: list[Tensor],
    moving: list[bool],
    decays: list[float],
    batches: Iterable[Batch],
    budget: Budget,
) -> T:
    """In place on private copies: one backward pass and one fused update per batch."""
    new = [leaf.detach().clone().requires_grad_(m) for leaf, m in zip(old, moving, strict=True)]
    tree = trees.rebuild(shape, new)
    trained = [leaf for leaf, m in zip(new, moving, strict=True) if m]
    moments: list[Any] = [None] * len(trained)
    plain = budget.optimizer == "sgd" and not budget.momentum and not any(decays)
    step = 0
    for batch in batches:
        step += 1
        with torch.enable_grad():
            slopes = torch.autograd.grad(loss(tree, batch), trained, allow_unused=True)
        with torch.no_grad():
            if plain:
                _down(trained, slopes, budget.lr)
            else:
                _moved(trained, slopes, moments, decays, budget, step)
    return trees.map(torch.Tensor.detach, tree)


def _down(trained: list[Tensor], slopes: tuple[Tensor | None, ...], lr: float) -> None:
    """Plain steps; a sparse slope (an embedding) touches only the rows of its batch."""
    dense = [(p, g) for p, g in zip(trained, slopes, strict=True) if g is not None and not g.is_sparse]
    if dense:
        torch._foreach_add_([p for p, _ in dense], [g for _, g in dense], alpha=-lr)
    for p, g in zip(trained, slopes, strict=True):
        if g is not None and g.is_sparse:
            rows = g._indices()[0]
            p.index_add_(0, rows, g._values(), alpha=-lr)


def _moved(
    trained: list[Tensor],
    slopes: tuple[Tensor | None, ...],
    moments: list[Any],
    decays: list[float],
    budget: Budget,
    step: int,
) -> None:
    used = [i for i, g in enumerate(slopes) if g is not None]
    params = [trained[i] for i in used]
    dense = [g.to_dense() if g.is_sparse else g for g in slopes if g is not None]
    dense = [g.add(p, alpha=decays[i]) if decays[i] else g for i, p, g in zip(used, params, dense, strict=True)]
    if budget.optimizer == "adam":
        for i, p, g in zip(used, params, dense, strict=True):
            p.copy_(_next(p, g, moments, i, budget, torch.tensor(step, dtype=torch.float64)))
        return
    if budget.momentum:
        known = [(moments[i], g) for i, g in zip(used, dense, strict=True) if moments[i] is not None]
        if known:
            torch._foreach_mul_([m for m, _ in known], budget.momentum)
            torch._foreach_add_([m for m, _ in known], [g for _, g in known])
        for i, g in zip(used, dense, strict=True):
            moments[i] = g.clone() if moments[i] is None else moments[i]
        dense = [moments[i] for i in used]
    torch._foreach_add_(params, dense, alpha=-budget.lr)


def _next(p: Tensor, g: Tensor, moments: list[Any], i: int, budget: Budget, step: Tensor) -> Tensor:
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


def _stacked(
    loss: Loss,
    shape: T,
    old: list[Tensor],
    moving: list[bool],
    decays: list[float],
    batches: Iterable[Batch],
    budget: Budget,
) -> T:
    """The same steps without mutation, for clients along an axis; a batch of pure padding moves nothing."""
    at = [i for i, m in enumerate(moving) if m]
    rest = [i for i, m in enumerate(moving) if not m]

    def objective(trained: list[Tensor], carried: list[Tensor], batch: Batch) -> tuple[Tensor, list[Tensor]]:
        carried = [leaf.clone() for leaf in carried]
        both = dict(zip(at, trained, strict=True)) | dict(zip(rest, carried, strict=True))
        return loss(trees.rebuild(shape, [both[i] for i in range(len(old))]), batch), carried

    trained, carried = [old[i] for i in at], [old[i] for i in rest]
    moments: list[Any] = [None] * len(at)
    step = torch.zeros((), dtype=torch.float64, device=old[0].device)
    for batch in batches:
        slopes, moved = torch.func.grad(objective, has_aux=True)(trained, carried, batch)
        live = None if batch.mask is None else batch.mask.amax() > 0
        step = step + (1 if live is None else live.double())
        before = list(moments)
        after = [
            _next(p, g.add(p, alpha=d) if d else g, moments, i, budget, step)
            for i, (p, g, d) in enumerate(zip(trained, slopes, decays, strict=True))
        ]
        trained, carried = _if(live, after, trained), _if(live, moved, carried)
        moments = [_if_moments(live, m, b) for m, b in zip(moments, before, strict=True)]
    both = dict(zip(at, trained, strict=True)) | dict(zip(rest, carried, strict=True))
    return trees.rebuild(shape, [both[i] for i in range(len(old))])


def _if(live: Tensor | None, yes: list[Tensor], no: list[Tensor]) -> list[Tensor]:
    return yes if live is None else [torch.where(live, a, b) for a, b in zip(yes, no, strict=True)]


def _if_moments(live: Tensor | None, new: Any, before: Any) -> Any:
    """Keep the moments of a client whose batch was pure padding; its first batch never is."""
    if live is None or before is None or new is None:
        return new
    if isinstance(new, Tensor):
        return torch.where(live, new, before)
    return tuple(torch.where(live, a, b) for a, b in zip(new, before, strict=True))
