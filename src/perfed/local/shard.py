"""One client's samples and the order in which it visits them, a function of its key."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from .. import keys

if TYPE_CHECKING:
    from .guard import Guard

Inputs = Callable[[Tensor, Tensor | None], Tensor]  # stored samples, a key if they are to be augmented → network inputs

_BLOCK = 1 << 24  # numbers turned into inputs at once
_SEEN = 100  # samples that something frozen looks at at once: larger batches are no faster


class Batch(NamedTuple):
    """Some samples of one client, for one step.

    Args:
        x: Inputs of the network.
        y: Their labels.
        mask: 1 for a sample, 0 for padding; None where nothing is padded.
        key: For whatever is random in this step.
        seen: What something frozen makes of ``x``, if `Shard.epochs` was given it.
        guard: What a step on it keeps to so that no sample is given away; None where nothing is asked.

    Example:
        >>> import torch
        >>> from perfed import Batch
        >>> batch = Batch(torch.zeros(3, 2), torch.tensor([0, 1, 0]), None, torch.tensor(7))
        >>> len(batch.y)
        3
    """

    x: Tensor
    y: Tensor
    mask: Tensor | None  # 1 for a sample, 0 for padding; None where nothing is padded
    key: Tensor  # for whatever is random in this step
    seen: Tensor | None = None  # what something frozen makes of ``x``, if `Shard.epochs` was given it
    guard: "Guard | None" = None  # what a step keeps to under privacy=sample

    def mean(self, values: Tensor) -> Tensor:
        """Return the mean of one value per sample over the real ones.

        Args:
            values: One number per sample.

        Returns:
            Their mean, padding left out.

        Example:
            >>> import torch
            >>> from perfed import Batch
            >>> padded = Batch(torch.zeros(3, 2), torch.zeros(3).long(), torch.tensor([1.0, 1.0, 0.0]), torch.tensor(7))
            >>> padded.mean(torch.tensor([1.0, 3.0, 100.0]))
            tensor(2.)
        """
        if self.mask is None:
            return values.mean()
        return (values * self.mask).sum() / self.mask.sum().clamp(min=1)


@dataclass(frozen=True)
class Shard:
    """The training samples of one client, and the order in which it visits them, a function of its key.

    Args:
        x: The samples of all clients, as they are stored.
        y: Their labels.
        rows: Which of them are this client's.
        inputs: Turns stored samples into inputs of the network.
        key: For this client and round; all that is random follows from it.
        batch_size: Samples per step.
        classes: How many there are.
        size: Where clients are stacked, how many of the rows are real; the rest is padding.
        even: Whether a batch of one is left out, which BatchNorm cannot train on.
        augment: Whether training samples are flipped, turned or cropped.
        length: Batches of a pass, where that is not as many as the samples fill.
        balance: Whether rare classes weigh more (``weights``) or are drawn as often as others (``samples``).
        stored: Whether every pass visits the samples as they are stored, instead of in an order of its own.
        guard: What every step keeps to so that no sample is given away; then each sample takes part in a step by chance.
        least: Where clients are stacked, how many real rows the smallest of them has.

    Example:
        >>> from perfed.testing import federation
        >>> shard = federation(2).shard(client=0, number=1, batch_size=10, even=False)
        >>> len(shard)
        23
    """

    x: Tensor
    y: Tensor
    rows: Tensor
    inputs: Inputs
    key: Tensor
    batch_size: int
    classes: int
    size: Tensor | None = None
    even: bool = False  # BatchNorm cannot train on a batch of one: leave such a remainder out of its epoch
    augment: bool = False
    length: int | None = None  # batches of a pass that goes on and on through the samples
    balance: str = "none"  # "weights" or "samples": rare classes count as much as others
    stored: bool = False  # every pass visits samples as they are stored
    guard: "Guard | None" = None  # what steps keep to under privacy=sample
    least: int = 1  # real rows of the smallest client that is stacked with this one

    def __len__(self) -> int:
        return len(self.rows)

    def epochs(self, count: int, stream: str = "fit", see: Callable[[Tensor], Tensor] | None = None) -> Iterator[Batch]:
        """Yield the batches of some passes over the samples, each in an order of its own.

        Args:
            count: How many passes.
            stream: What they are for; another name gives another order.
            see: Something frozen that takes samples one by one (no batch statistics, no dropout). What it gives comes along
                as ``seen``, computed in large batches, and once for all passes unless inputs are augmented.

        Returns:
            The batches, one after another.

        Example:
            >>> from perfed.testing import federation
            >>> shard = federation(2).shard(client=0, number=1, batch_size=10, even=False)
            >>> [len(batch.y) for batch in shard.epochs(2)]
            [10, 10, 3, 10, 10, 3]
        """
        if self.guard is not None and stream not in self.guard.home:
            yield from self._by_chance(self.guard, count * self.steps, stream, see)
            return
        if self.length is not None:
            yield from self._endless(count * self.length, stream, see)
            return
        table = None if see is None or self.augment else self._table(see)
        for epoch in range(count):
            key = keys.fold(self.key, stream, epoch)
            order, real = self._order(key)
            rows, steps = self.rows[order], -(-order.shape[-1] // self.batch_size)
            step_keys = keys.fold(key, torch.arange(steps, device=key.device)).unbind()
            labels, step = self.y[rows], 0
            real = real if self.balance != "weights" else self._rare(labels) * (1.0 if real is None else real)
            block = self.batch_size * max(1, _BLOCK // (self.x[0].numel() * self.batch_size or 1))
            for start in range(0, len(rows), block):
                part = rows[start : start + block]
                x = self.inputs(self.x[part], keys.fold(key, "augment", start) if self.augment else None)
                if see is not None:
                    seen = table[order[start : start + block]] if table is not None else _in_pieces(see, x)
                for at in range(0, len(part), self.batch_size):
                    here = slice(start + at, start + at + self.batch_size)
                    mask = None if real is None else real[here]
                    shown = None if see is None else seen[at : at + self.batch_size]
                    yield Batch(x[at : at + self.batch_size], labels[here], mask, step_keys[step], shown)
                    step += 1

    def _rare(self, labels: Tensor) -> Tensor:
        """Return how much each sample weighs where all classes of the client weigh alike; the commonest class's weigh 1."""
        counts = self.counts
        return (counts.amax() / counts.clamp(min=1))[labels]

    def _endless(self, count: int, stream: str, see: Callable[[Tensor], Tensor] | None) -> Iterator[Batch]:
        """Yield so many batches, in one new order of the samples after another."""
        if self.size is not None:
            yield from self._abreast(count, stream, see)
            return
        whole = replace(self, length=None)
        yield from islice(whole.epochs(-(-count // max(whole.steps, 1)), stream, see), count)

    def _by_chance(self, guard: "Guard", count: int, stream: str, see: Callable[[Tensor], Tensor] | None) -> Iterator[Batch]:
        """Yield so many batches into each of which every sample comes by itself, with the same chance; some may be empty."""
        table = None if see is None or self.augment else self._table(see)
        for step in range(count):
            chosen = guard.drawn(len(self.rows), self.batch_size).to(self.rows.device)
            key = keys.fold(self.key, stream, "by chance", step)
            rows = self.rows[chosen]
            x = self.inputs(self.x[rows if len(rows) else self.rows[:1]], keys.fold(key, "augment") if self.augment else None)
            x, shown = x[: len(rows)], None
            if see is not None:
                shown = table[chosen] if table is not None else _in_pieces(see, x) if len(rows) else x
            yield Batch(x, self.y[rows], None, key, shown, guard)

    def _abreast(self, count: int, stream: str, see: Callable[[Tensor], Tensor] | None) -> Iterator[Batch]:
        """Yield so many batches of clients along an axis: each begins a new order once it is through with its own samples."""
        assert self.size is not None
        size, device = self.batch_size, self.key.device
        pace = ((self.size + size - 1) // size).clamp(min=1)  # batches of a client's pass
        turns = keys.fold(self.key, stream, torch.arange(-(-count // -(-self.least // size)), device=device))
        within = torch.arange(len(self.rows), device=device) < self.size
        orders = torch.where(within, self._chance(turns[:, None]), 2**63 - 1).argsort()
        step = torch.arange(count, device=device)
        turn, step = step // pace, step % pace
        place = step[:, None] * size + torch.arange(size, device=device)
        real = (place < self.size).float()
        picked = orders[turn[:, None], place.clamp(max=len(self.rows) - 1)]
        step_keys = keys.fold(turns[turn], step).unbind()
        labels = self.y[self.rows[picked]]
        real = real if self.balance != "weights" else self._rare(labels) * real
        table = None if see is None else self._table(see)
        block = max(1, _BLOCK // (self.x[0].numel() * size or 1))
        for start in range(0, count, block):
            part = picked[start : start + block]
            x = self.inputs(self.x[self.rows[part.flatten()]], None)
            for at in range(len(part)):
                now = start + at
                yield Batch(
                    x[at * size : (at + 1) * size],
                    labels[now],
                    real[now],
                    step_keys[now],
                    None if table is None else table[picked[now]],
                )

    @property
    def steps(self) -> int:
        """Batches of one pass."""
        if self.length is not None:
            return self.length
        single = self.size is None and self.even and len(self.rows) % self.batch_size == 1 and len(self.rows) > 1
        return -(-(len(self.rows) - single) // self.batch_size)

    def _table(self, see: Callable[[Tensor], Tensor]) -> Tensor:
        """Return what ``see`` makes of every sample, in stored order."""
        return _in_pieces(lambda rows: see(self.inputs(self.x[rows], None)), self.rows)

    def _order(self, key: Tensor) -> tuple[Tensor, Tensor | None]:
        bits = self._chance(key)
        if self.balance == "samples":
            return self._evenly(keys.fold(key, "even")), None
        single = self.even and len(self.rows) % self.batch_size == 1
        if self.size is None:
            order = bits.argsort()
            return (order[:-1] if single and len(order) > 1 else order), None
        place = torch.arange(len(self.rows), device=key.device)
        order = torch.where(place < self.size, bits, 2**63 - 1).argsort()
        return order, (place < self.size).float()

    def _chance(self, key: Tensor) -> Tensor:
        """Return numbers whose order is that in which samples are visited."""
        bits = keys.bits(key, len(self.rows))
        return torch.arange(len(self.rows), device=key.device).expand_as(bits) if self.stored else bits

    def _evenly(self, key: Tensor) -> Tensor:
        """Return as many places as there are samples, drawn with replacement so that every class comes equally often."""
        share = 1 / self.counts[self.y[self.rows]].double()
        ends = share.cumsum(0)
        drawn = torch.searchsorted(ends, keys.uniform(key, (len(self.rows),)).double() * ends[-1])
        return drawn.clamp(max=len(self.rows) - 1)

    def passes(self) -> Iterator[Batch]:
        """Yield every sample once, in stored order and large batches, as it is seen in testing.

        Returns:
            The batches, one after another.

        Example:
            >>> from perfed.testing import federation
            >>> shard = federation(2).shard(client=0, number=1, batch_size=10, even=False)
            >>> [len(batch.y) for batch in shard.passes()]
            [23]
        """
        if self.size is not None:
            place = torch.arange(len(self.rows), device=self.key.device)
            yield Batch(self.inputs(self.x[self.rows], None), self.y[self.rows], (place < self.size).float(), self.key)
            return
        for rows in torch.split(self.rows, at_once(self.x)):
            yield Batch(self.inputs(self.x[rows], None), self.y[rows], None, self.key)

    def hold_out(self, fraction: float, key: Tensor | None = None) -> tuple["Shard", "Shard"]:
        """Return what is left and what is set aside.

        Args:
            fraction: The share to set aside, at least one sample where there are two.
            key: What decides which; without it the same samples are set aside in every round.

        Returns:
            The shard without, and the shard of these samples alone.

        Example:
            >>> from perfed.testing import federation
            >>> left, aside = federation(2).shard(client=0, number=1, batch_size=10, even=False).hold_out(0.2)
            >>> len(left), len(aside)
            (19, 4)
        """
        count, where = len(self.rows), self.rows.device
        bits = keys.bits(keys.key(0, "aside").to(where) if key is None else key, count)
        if self.size is None:
            order, aside = bits.argsort(), min(max(int(fraction * count + 1e-6), 1), count - 1)  # 0.29 · 100 is 29
            return replace(self, rows=self.rows[order[aside:]]), replace(self, rows=self.rows[order[:aside]])
        place = torch.arange(count, device=where)
        rows = self.rows[torch.where(place < self.size, bits, 2**63 - 1).argsort()]
        share = torch.floor(fraction * self.size.double() + 1e-6).to(self.size.dtype)
        held = torch.minimum(share.clamp(min=1), self.size - 1)
        most = min(max(int(fraction * count + 1e-6), 1), count - 1)
        left = rows[place[: count - most] + held]
        few = min(max(int(fraction * self.least + 1e-6), 1), self.least - 1)
        return (
            replace(self, rows=left, size=self.size - held, least=self.least - few),
            replace(self, rows=rows[:most], size=held, least=max(few, 1)),
        )

    @property
    def counts(self) -> Tensor:
        """Return how many training samples the client has of each class."""
        own = torch.nn.functional.one_hot(self.y[self.rows], self.classes).float()
        if self.size is not None:
            own = own * (torch.arange(len(self.rows), device=own.device) < self.size).float()[:, None]
        return own.sum(0)

    @property
    def total(self) -> Tensor:
        """Return the number of the client's training samples, as a tensor."""
        return torch.tensor(float(len(self.rows)), device=self.rows.device) if self.size is None else self.size.float()


def at_once(x: Tensor, most: int = 1000) -> int:
    """Return how many stored samples are turned into inputs at once where no step's size says so."""
    return max(1, min(most, _BLOCK // (x[0].numel() or 1)))


def _in_pieces(see: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    with torch.no_grad():
        return torch.cat([see(x[at : at + _SEEN]) for at in range(0, len(x), _SEEN)])
