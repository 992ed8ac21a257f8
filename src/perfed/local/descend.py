"""The one training primitive: follow a loss downhill, batch by batch, from a start."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import chain
from typing import TypeVar

import torch
from torch import Tensor

from .. import trees
from . import private
from .axis import behind_the_axis, within_the_axis
from .budget import Budget
from .guard import guarded
from .losses import proximal
from .shard import Batch
from .spring import Pull
from .steps import Loss, Step, stepper

T = TypeVar("T")

_HELD: ContextVar[frozenset[int]] = ContextVar("held", default=frozenset())


@contextmanager
def holding(leaves: Iterable[Tensor]) -> Iterator[None]:
    """Within it, `descend` moves none of these tensors: what starts from them keeps them, and the rest is fitted to them.

    A newcomer runs a method's own training in it, with what it received held still. Clients along an axis know nothing of it.
    """
    kept = list(leaves)  # a tensor is told by its place in memory, which nothing else may take meanwhile
    before = _HELD.set(frozenset(map(id, kept)))
    try:
        yield
    finally:
        _HELD.reset(before)


def descend(
    loss: Callable[[T, Batch], Tensor],
    start: T,
    batches: Iterable[Batch],
    budget: Budget,
    *,
    decay: Callable[[str], float] | None = None,
    spring: tuple[float, T] | None = None,
) -> T:
    """Return where ``loss`` leads from ``start``: what is trained is what is passed as the start.

    What ``loss`` closes over stays as it is. Steps equal those of ``torch.optim``.

    Args:
        loss: Gives one number for a tree shaped as ``start`` and a batch.
        start: Where to begin, a tree of tensors; it is not changed. Running state in it (names that begin with ``~``) is
            carried along without a gradient.
        batches: One step each.
        budget: Step size and optimiser.
        decay: Gives single leaves, by path, a weight decay other than the budget's.
        spring: A strength and an anchor, a tree shaped as ``start``: half the strength times the squared distance to the
            anchor is added to the loss, running state left out. It costs less than a term of the loss, and where the loss
            uses each leaf once it takes the same steps to the bit.

    Returns:
        The tree after the last step.

    Example:
        >>> import torch
        >>> from perfed import Batch, Budget, descend
        >>> batch = Batch(torch.zeros(1), torch.zeros(1).long(), None, torch.tensor(0))
        >>> descend(lambda w, batch: (w["w"] - 3) ** 2, {"w": torch.tensor(1.0)}, [batch] * 2, Budget(lr=0.25))
        {'w': tensor(2.5000)}
    """
    paths = [path for path, _ in trees.named(start)]
    old = trees.leaves(start)
    if any(held := [id(leaf) in _HELD.get() for leaf in old]):
        return _around(held, loss, start, batches, budget, decay, spring)
    moving = [leaf.is_floating_point() and not trees.is_state(path) for path, leaf in zip(paths, old, strict=True)]
    decays = [budget.weight_decay if decay is None else decay(path) for path in paths]
    first = next(batches := iter(batches), None) if old else None  # of a frozen part there is nothing
    if first is None:
        return trees.clone(start)
    kept = [d for d, m in zip(decays, moving, strict=True) if m]
    batches = chain([first], batches)
    if first.guard is None and not private.stacked(first.key):
        pull = None if spring is None else Pull(spring[0], [x for x, m in zip(trees.leaves(spring[1]), moving, strict=True) if m])
        return _eager(loss, start, old, moving, batches, stepper(budget, kept, pull))
    engine = guarded if first.guard is not None else behind_the_axis if private.VMAP else within_the_axis
    return engine(loss if spring is None else _sprung(loss, *spring), start, old, moving, kept, batches, budget)


def _sprung(loss: Callable[[T, Batch], Tensor], strength: float, anchor: T) -> Loss:
    """Return the loss with its spring written into it."""
    return lambda w, batch: loss(w, batch) + strength * proximal(w, anchor)


def _around(
    held: list[bool],
    loss: Loss,
    start: T,
    batches: Iterable[Batch],
    budget: Budget,
    decay: Callable[[str], float] | None,
    spring: tuple[float, T] | None,
) -> T:
    """Train what is not held, around what is; where all is held the batches are visited and nothing is computed."""
    old, paths = trees.leaves(start), [path for path, _ in trees.named(start)]

    def freed(tree: T) -> dict[str, Tensor]:
        return {path: leaf for path, leaf, still in zip(paths, trees.leaves(tree), held, strict=True) if not still}

    free = freed(start)

    def whole(own: dict[str, Tensor]) -> T:
        return trees.rebuild(start, [own.get(path, leaf) for path, leaf in zip(paths, old, strict=True)])

    def around(own: dict[str, Tensor], batch: Batch) -> Tensor:
        # running statistics that are held must not move, but a network in training moves those it is given
        given = [own.get(path, leaf.clone() if trees.is_state(path) else leaf) for path, leaf in zip(paths, old, strict=True)]
        return loss(trees.rebuild(start, given), batch)

    if not free:
        for _ in batches:
            pass
        return start
    pull = None if spring is None else (spring[0], freed(spring[1]))
    return whole(descend(around, free, batches, budget, decay=decay, spring=pull))


def _eager(
    loss: Loss,
    shape: T,
    old: list[Tensor],
    moving: list[bool],
    batches: Iterable[Batch],
    step: Step,
) -> T:
    """In place on private copies: one backward pass and one fused update per batch."""
    new = [leaf.detach().clone().requires_grad_(m) for leaf, m in zip(old, moving, strict=True)]
    tree = trees.rebuild(shape, new)
    trained = [leaf for leaf, m in zip(new, moving, strict=True) if m]
    for batch in batches:
        if not trained:  # running statistics alone
            with torch.no_grad():
                loss(tree, batch)
            continue
        with torch.enable_grad():
            slopes = torch.autograd.grad(loss(tree, batch), trained, allow_unused=True)
        with torch.no_grad():
            step(trained, slopes)
    return trees.map(torch.Tensor.detach, tree)
