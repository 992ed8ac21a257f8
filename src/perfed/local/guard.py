"""Steps that give no single sample away: each sample's slope clipped, noise added, batches drawn as the accountant assumes."""

import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.func import grad, vmap

from .. import keys, trees
from ..errors import MethodError
from .budget import Budget
from .shard import Batch
from .steps import Loss, stepper

T = TypeVar("T")

_ROOM = 1 << 25  # numbers of single samples' slopes held at once
_SAFE = 1 - 2.0**-20  # what is shortened ends this far within the clip, so that rounding never lengthens it beyond


class Noise(Protocol):
    """Where noise and draws come from."""

    def normal(self, what: str, shape: tuple[int, ...]) -> Tensor: ...
    def uniform(self, what: str, count: int) -> Tensor: ...


@dataclass(frozen=True)
class Keyed:
    """Noise from a run's keys: the same in every repetition, for simulations. Who knows the seed can take it off again."""

    key: Tensor

    def normal(self, what: str, shape: tuple[int, ...]) -> Tensor:
        """Return standard normal numbers."""
        return keys.normal(keys.fold(self.key, "noise", what), shape)

    def uniform(self, what: str, count: int) -> Tensor:
        """Return numbers between 0 and 1, with all digits of double precision."""
        return keys.open_uniform(keys.fold(self.key, "draw", what), (count,))


@dataclass(frozen=True)
class System:
    """Noise from the operating system's entropy, which nobody can repeat."""

    def normal(self, what: str, shape: tuple[int, ...]) -> Tensor:
        """Return standard normal numbers (Box and Muller)."""
        count = math.prod(shape)
        radius = np.sqrt(-2 * np.log(_entropy(count)))
        return torch.from_numpy((radius * np.cos(2 * math.pi * _entropy(count))).astype(np.float32)).reshape(shape)

    def uniform(self, what: str, count: int) -> Tensor:
        """Return numbers between 0 and 1."""
        return torch.from_numpy(_entropy(count))


def _entropy(count: int) -> Any:
    """Return numbers strictly between 0 and 1, 53 bits of entropy each."""
    return ((np.frombuffer(os.urandom(8 * count), dtype=np.uint64) >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


@dataclass
class Guard:
    """What every step of a client's round keeps to: clip, noise, and how many steps were promised to the accountant."""

    clip: float
    noise: float
    source: Noise
    promised: int
    home: tuple[str, ...] = ()  # streams of batches that do not lead to the answer
    taken: int = field(default=0)

    def next(self) -> int:
        """Count a step; one that was not promised is refused."""
        if self.taken >= self.promised:
            raise MethodError(
                f"this method takes more steps than the {self.promised} that the accountant was told of; "
                "its `guarded_passes` is wrong"
            )
        self.taken += 1
        return self.taken

    def drawn(self, count: int, batch_size: int) -> Tensor:
        """Return which of so many samples take part in the next step: each by itself, with the same chance (Poisson)."""
        number = self.next()
        rate = min(1.0, batch_size / max(count, 1))
        return (self.source.uniform(str(number), count) < rate).nonzero()[:, 0]


def lengths(rows: Sequence[Tensor]) -> Tensor:
    """Return the length of each row over all leaves, in double precision."""
    return torch.stack([leaf.double().reshape(len(leaf), -1).square().sum(1) for leaf in rows]).sum(0).sqrt()


def shortening(length: Tensor, clip: float) -> Tensor:
    """Return what rows of these lengths are multiplied by so that none is longer than ``clip``; shorter ones stay as they are.

    What has no length (infinite, or no number) is dropped.
    """
    factor = torch.where(length > clip, _SAFE * clip / length, 1.0)
    return torch.where(torch.isfinite(length), factor, 0.0)


def shortened(leaves: Sequence[Tensor], clip: float) -> list[Tensor]:
    """Return a move over all leaves at most ``clip`` long; a shorter one is returned to the bit, one without length is none."""
    if not leaves:
        return []
    factor = float(shortening(lengths([leaf[None] for leaf in leaves]), clip)[0])
    if factor == 1.0:
        return list(leaves)
    return [(leaf.double() * factor).to(leaf.dtype) if factor else torch.zeros_like(leaf) for leaf in leaves]


def guarded(
    loss: Loss, shape: T, old: list[Tensor], moving: list[bool], decays: list[float], batches: Iterable[Batch], budget: Budget
) -> T:
    """Descend with every sample's slope clipped, noise added to their sum, and the expected size of a batch as divisor."""
    new = [leaf.detach().clone() for leaf in old]
    tree, trained = trees.rebuild(shape, new), [leaf for leaf, m in zip(new, moving, strict=True) if m]
    step = stepper(budget, decays)
    each = _each(loss, tree, moving)
    for batch in batches:
        guard = batch.guard
        assert guard is not None
        slopes = summed(each, trained, batch, guard.clip)
        with torch.no_grad():
            for place, slope in enumerate(slopes):
                drawn = guard.source.normal(f"{guard.taken} {place}", tuple(slope.shape)).to(slope)
                slopes[place] = slope.add(drawn, alpha=guard.noise * guard.clip).div_(budget.batch_size)
            step(trained, tuple(slopes))
    return trees.map(torch.Tensor.detach, tree)


def summed(each: Callable[..., Any], trained: list[Tensor], batch: Batch, clip: float) -> list[Tensor]:
    """Return the sum of all samples' slopes, each at most ``clip`` long."""
    total = [torch.zeros_like(leaf) for leaf in trained]
    count = len(batch.y)
    piece = max(1, _ROOM // max(1, sum(leaf.numel() for leaf in trained)))
    own = keys.fold(batch.key, torch.arange(count, device=batch.key.device))
    for first in range(0, count, piece):
        here = slice(first, first + piece)
        seen = () if batch.seen is None else (batch.seen[here],)
        slopes = each(trained, batch.x[here], batch.y[here], own[here], *seen)
        factor = shortening(lengths(slopes), clip)
        for sum_of, rows in zip(total, slopes, strict=True):
            used = torch.where(factor.view(-1, *(1,) * (rows.dim() - 1)) > 0, rows, 0.0)  # nothing times infinity is no number
            sum_of += torch.tensordot(factor.to(rows.dtype), used, 1)
    return total


def _each(loss: Loss, tree: Any, moving: list[bool]) -> Callable[..., Any]:
    """Return the function that gives every sample's slope, as if it were a batch of its own."""
    leaves = trees.leaves(tree)

    def one(trained: list[Tensor], x: Tensor, y: Tensor, key: Tensor, seen: Tensor | None = None) -> Tensor:
        own = iter(trained)
        whole = trees.rebuild(tree, [next(own) if m else leaf for leaf, m in zip(leaves, moving, strict=True)])
        return loss(whole, Batch(x[None], y[None], None, key, None if seen is None else seen[None]))

    def every(trained: list[Tensor], x: Tensor, y: Tensor, key: Tensor, seen: Tensor | None = None) -> Any:
        given = (x, y, key) if seen is None else (x, y, key, seen)
        return vmap(grad(one), in_dims=(None, *(0,) * len(given)), randomness="different")(trained, *given)

    return every
