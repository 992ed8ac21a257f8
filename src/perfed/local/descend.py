"""The one training primitive: follow a loss downhill, batch by batch, from a start."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch._functorch.pyfunctorch import (
    VmapInterpreter,
    retrieve_current_functorch_interpreter,
    temporarily_clear_interpreter_stack,
)

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
    for step, batch in enumerate(batches, 1):
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
            values = g._values()
            p.scatter_add_(0, g._indices()[0][:, None].expand_as(values), values * -lr)  # twice as fast as index_add_


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
    """The same steps for clients along an axis; a batch of pure padding moves nothing.

    Only the loss runs under vmap. Its clients do not depend on each other, so the gradient of its sum, taken once on the
    tensors behind the axis, is every client's gradient: `torch.func.grad` would wrap and unwrap each leaf in each step.
    """
    axis = _Axis()
    with temporarily_clear_interpreter_stack():
        own = [axis.behind(leaf).detach().clone().requires_grad_(m) for leaf, m in zip(old, moving, strict=True)]
    tree = trees.rebuild(shape, [axis.before(leaf) for leaf in own])
    trained = [leaf for leaf, m in zip(own, moving, strict=True) if m]
    carried = [leaf for leaf, m in zip(own, moving, strict=True) if not m]
    moments: list[Any] = [None] * len(trained)
    step = torch.zeros(axis.clients, dtype=torch.float64, device=own[0].device)
    for batch in batches:
        kept = [leaf.clone() for leaf in carried] if batch.mask is not None else []
        with torch.enable_grad():
            value = loss(tree, batch)
            with temporarily_clear_interpreter_stack():
                slopes = torch.autograd.grad(axis.behind(value).sum(), trained, allow_unused=True)
        with temporarily_clear_interpreter_stack(), torch.no_grad():
            live = None if batch.mask is None else axis.behind(batch.mask).amax(1) > 0
            step = step + (1 if live is None else live.double())
            _together(trained, slopes, moments, decays, budget, step, live)
            for leaf, before in zip(carried, kept, strict=False):
                leaf.copy_(torch.where(_beside(live, leaf), leaf, before))
    return trees.rebuild(shape, [axis.before(leaf.detach()) for leaf in own])


class _Axis:
    """The axis that vmap hides: tensors as a client sees them, and the tensors behind, clients first."""

    def __init__(self) -> None:
        vmap = retrieve_current_functorch_interpreter()  # rather than a leaf: clients may share all of their start
        assert isinstance(vmap, VmapInterpreter)
        self.level, self.clients = vmap.level(), vmap.batch_size()

    def behind(self, seen: Tensor) -> Tensor:
        """Return the tensor of all clients behind ``seen``; what is the same for all is repeated."""
        if not _batched(seen):
            return seen.expand(self.clients, *seen.shape)
        inner: Tensor = torch._C._functorch.get_unwrapped(seen)
        return inner.movedim(torch._C._functorch.maybe_get_bdim(seen), 0)

    def before(self, inner: Tensor) -> Tensor:
        """Return ``inner``, whose first axis is clients, as each of them sees it."""
        return torch._C._functorch._add_batch_dim(inner, 0, self.level)


def _batched(leaf: Tensor) -> bool:
    return bool(torch._C._functorch.is_batchedtensor(leaf))


def _beside(values: Tensor | None, leaf: Tensor) -> Tensor:
    """Return one value per client, shaped to broadcast over a leaf of all clients."""
    assert values is not None
    return values.view(-1, *(1,) * (leaf.dim() - 1))


def _together(
    trained: list[Tensor],
    slopes: tuple[Tensor | None, ...],
    moments: list[Any],
    decays: list[float],
    budget: Budget,
    step: Tensor,
    live: Tensor | None,
) -> None:
    """Move all clients in place, those without a sample in this step excepted."""
    if budget.optimizer == "sgd" and not budget.momentum:
        used = [(p, g.add(p, alpha=d) if d else g) for p, g, d in zip(trained, slopes, decays, strict=True) if g is not None]
        steps = [g if live is None else torch.where(_beside(live, g), g, 0.0) for _, g in used]
        torch._foreach_add_([p for p, _ in used], steps, alpha=-budget.lr)
        return
    for i, (p, g, d) in enumerate(zip(trained, slopes, decays, strict=True)):
        if g is None:
            continue
        before = moments[i]
        after = _next(p, g.add(p, alpha=d) if d else g, moments, i, budget, _beside(step, p))
        if live is not None:
            here = _beside(live, p)
            after, moments[i] = torch.where(here, after, p), _if_moments(here, moments[i], before)
        p.copy_(after)


def _if_moments(live: Tensor, new: Any, before: Any) -> Any:
    """Keep the moments of a client whose batch was pure padding; its first batch never is."""
    if before is None or new is None:
        return new
    if isinstance(new, Tensor):
        return torch.where(live, new, before)
    return tuple(torch.where(live, a, b) for a, b in zip(new, before, strict=True))
