"""Descent for clients along an axis, under vmap: behind it on the tensors of all clients, or within it by public means alone."""

from collections.abc import Iterable
from typing import Any, TypeVar

import torch
from torch import Tensor

from .. import trees
from . import private
from .budget import Budget
from .shard import Batch
from .steps import Loss, stepped

T = TypeVar("T")


def behind_the_axis(
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
    axis = private.Axis()
    with private.unstacked():
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
            with private.unstacked():
                slopes = torch.autograd.grad(axis.behind(value).sum(), trained, allow_unused=True)
        with private.unstacked(), torch.no_grad():
            live = None if batch.mask is None else axis.behind(batch.mask).amax(1) > 0
            step = step + (1 if live is None else live.double())
            _together(trained, slopes, moments, decays, budget, step, live)
            for leaf, before in zip(carried, kept, strict=False):
                leaf.copy_(torch.where(_beside(live, leaf), leaf, before))
    return trees.rebuild(shape, [axis.before(leaf.detach()) for leaf in own])


def within_the_axis(
    loss: Loss,
    shape: T,
    old: list[Tensor],
    moving: list[bool],
    decays: list[float],
    batches: Iterable[Batch],
    budget: Budget,
) -> T:
    """The same steps as each client sees them, by `torch.func.grad`: slower, for a torch that hides its axis from us."""
    trained = [leaf.detach() for leaf, m in zip(old, moving, strict=True) if m]
    carried = [leaf.detach() for leaf, m in zip(old, moving, strict=True) if not m]
    moments: list[Any] = [None] * len(trained)
    step = torch.zeros((), dtype=torch.float64, device=old[0].device)
    for batch in batches:
        marks = [_Mark() for _ in trained]
        before = carried

        def value(weights: list[Tensor], batch: Batch, marks: list[_Mark], state: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
            own = [leaf.clone() for leaf in state]  # what the loss moves in place must be made inside
            seen = [_Touched.apply(p, mark) for p, mark in zip(weights, marks, strict=True)]  # type: ignore[no-untyped-call]
            return loss(_joined(shape, moving, seen, own), batch), own

        slopes, carried = torch.func.grad(value, has_aux=True)(trained, batch, marks, before)
        live = None if batch.mask is None else batch.mask.amax() > 0
        step = step + (1 if live is None else live.double())
        for i, (p, g, d, mark) in enumerate(zip(trained, slopes, decays, marks, strict=True)):
            if mark.used:
                known = moments[i]
                new = stepped(p, g.add(p, alpha=d) if d else g, moments, i, budget, step)
                trained[i] = new if live is None else torch.where(live, new, p)
                moments[i] = moments[i] if live is None else _if_moments(live, moments[i], known)
        if live is not None:
            carried = [torch.where(live, a, b) for a, b in zip(carried, before, strict=True)]
    return _joined(shape, moving, trained, carried)


def _joined(shape: T, moving: list[bool], trained: list[Tensor], carried: list[Tensor]) -> T:
    """Return the tree of what is trained and what is carried along, each in its place."""
    one, other = iter(trained), iter(carried)
    return trees.rebuild(shape, [next(one if m else other) for m in moving])


class _Mark:
    """Whether a leaf is part of the loss: `torch.func.grad` has zeros for one that is not, and decay would move it."""

    used = False


class _Touched(torch.autograd.Function):
    """Nothing, but its mark says that a slope came by."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, mark: _Mark) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.mark = inputs[1]

    @staticmethod
    def backward(ctx: Any, *slopes: Any) -> Any:
        ctx.mark.used = True
        return slopes[0], None


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
        private.add([p for p, _ in used], steps, -budget.lr)
        return
    for i, (p, g, d) in enumerate(zip(trained, slopes, decays, strict=True)):
        if g is None:
            continue
        before = moments[i]
        after = stepped(p, g.add(p, alpha=d) if d else g, moments, i, budget, _beside(step, p))
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
