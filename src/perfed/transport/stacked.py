"""Clients along one axis: the same verbs under vmap, in chunks that fit, unequal clients padded and masked."""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import vmap

from .. import keys, trees
from ..errors import InputError
from ..evaluate.metrics import measure, measure_each
from ..evaluate.scores import Score
from ..local import Shard
from ..method import Method
from ..server import in_turn
from ..trees import Tree
from .room import Room
from .serial import one_thread
from .simulated import Simulated
from .site import Private, Site
from .store import Store

_ROOM = 256 << 20  # bytes that a chunk's states and inputs may take on a processor, where more is no faster
_WHOLE = 1 << 31  # bytes of inputs that one client may have in a part
_GROUPS = 64  # chunks whose padded row numbers are kept from round to round


class Stacked(Simulated):
    """Trains and scores many clients at once; results agree with ``serial`` to rounding."""

    name = "stacked"

    def __init__(self, site: Site, store: Store, *, room: int = _ROOM) -> None:
        reason = why_not(site)
        if reason:
            raise InputError(f"transport=stacked cannot run this: {reason}; use pooled or serial")
        super().__init__(site, store)
        self.room = Room(site.task.device, room)
        self._padded: dict[tuple[Any, ...], tuple[Tensor, Tensor | None, Tensor]] = {}

    def _answers(self, server: Tree, ids: list[int], number: int, lost: set[int], after: bool) -> Iterator[Any]:
        def coming() -> Iterator[tuple[int, Any]]:
            for chunk in self._chunks("trains", server, ids, self.site.federation.sizes, self.site.method.budget.batch_size):
                with one_thread(), self.room.measured("trains", len(chunk)):
                    ups = self._train(server, chunk, number, after)
                self.ledger.up(ups[0], len([client for client in chunk if client not in lost]))
                yield from zip(chunk, ups, strict=True)

        return (up for client, up in in_turn(ids, coming()) if client not in lost)

    def _train(self, server: Tree, chunk: list[int], number: int, after: bool) -> list[Any]:
        site = self.site
        down, private = self._states(server, chunk)
        rows, size, key = self._rows(chunk, "train", number)

        def one(down: Tree, private: Private, rows: Tensor, size: Tensor | None, key: Tensor) -> tuple[Any, Private, Any]:
            data = self._shard(chunk, rows, size, key)
            whole, mine = site.method.local(site.task, site.withheld.overlay(down, private.kept), private.mine, data)
            up, kept = site.withheld.hide(whole)
            return up, Private(mine, kept), site.method.after(down, whole) if after else ()

        ways = (0, 0, 0, None if size is None else 0, 0)
        up, mine, trained = vmap(one, in_dims=ways, randomness="different")(down, private, rows, size, key)
        self.ledger.down(trees.pick(down, 0), len(chunk))
        for place, client in enumerate(chunk):
            self.store[client] = trees.map(lambda x: x[place].clone(), mine)  # noqa: B023
        if after:
            scores = self._score(chunk, trained, mine, number, ("test",))
            self.after |= {client: score[0] for client, score in zip(chunk, scores, strict=True)}
        own = [leaf.unbind() for leaf in trees.leaves(up)]
        return [trees.rebuild(up, [leaf[place] for leaf in own]) for place in range(len(chunk))]

    def score(self, server: Tree, ids: Sequence[int], number: int, parts: tuple[str, ...]) -> list[list[Score]]:
        found: dict[int, list[Score]] = {}
        adapts = type(self.site.method).adapt is not Method.adapt
        tested = [max(len(getattr(self.site.federation, part)[i]) for part in parts) for i in range(len(self.site.federation))]
        sizes = self.site.federation.sizes if adapts else tested
        for chunk in self._chunks("tests", server, ids, sizes, max(tested)):
            with one_thread(), self.room.measured("tests", len(chunk)):
                down, private = self._states(server, chunk)
                scores = self._score(chunk, down, private, number, parts)
            found |= dict(zip(chunk, scores, strict=True))
        return [found[i] for i in ids]

    def _score(self, chunk: list[int], down: Tree, private: Private, number: int, parts: tuple[str, ...]) -> list[list[Score]]:
        site, method = self.site, self.site.method
        if type(method).adapt is not Method.adapt:
            rows, size, key = self._rows(chunk, "train", number)

            def adapted(down: Tree, private: Private, rows: Tensor, size: Tensor | None, key: Tensor) -> tuple[Any, Private]:
                below = site.withheld.overlay(down, private.kept)
                below, mine = method.adapt(site.task, below, private.mine, self._shard(chunk, rows, size, key))
                return below, Private(mine, {})

            ways = (0, 0, 0, None if size is None else 0, 0)
            down, private = vmap(adapted, in_dims=ways, randomness="different")(down, private, rows, size, key)

        def one(down: Tree, private: Private, rows: Tensor) -> Tensor:
            x = site.federation.inputs(site.federation.x[rows], None)
            return method.predict(site.task.served, site.withheld.overlay(down, private.kept), private.mine, x)

        columns = []
        with torch.no_grad():
            for part in parts:
                rows, size, _ = self._rows(chunk, part, number, masked=True)
                assert size is not None
                if not rows.shape[1]:
                    columns.append([measure(site.metrics, rows[0], rows[0])] * len(chunk))
                    continue
                logits = vmap(one)(down, private, rows)
                columns.append(measure_each(site.metrics, logits, site.federation.y[rows], size.tolist()))
        return [list(row) for row in zip(*columns, strict=True)]

    def _states(self, server: Tree, chunk: list[int]) -> tuple[Tree, Private]:
        """Return the messages to a chunk and its private states, stacked."""
        start = self.site.withheld.start
        private = [self.store[i] for i in chunk]
        private = [p if p.kept or not start else Private(p.mine, dict(start)) for p in private]
        if self.alike:  # one message, seen once per client
            down = trees.map(lambda x: x.expand(len(chunk), *x.shape), self.site.method.send(server, chunk[0]))
        else:
            down = trees.stack([self.site.method.send(server, i) for i in chunk])
        return down, trees.stack(private)

    def _rows(self, chunk: list[int], part: str, number: int, *, masked: bool = False) -> tuple[Tensor, Tensor | None, Tensor]:
        """Return the rows of a chunk, padded, their true numbers if they differ, and the clients' keys."""
        fed, asked = self.site.federation, (part, masked, *chunk)
        if asked not in self._padded:
            if len(self._padded) >= _GROUPS:
                self._padded.clear()
            own = [getattr(fed, part)[i] for i in chunk]
            sizes = [len(r) for r in own]
            rows = torch.stack([F.pad(r, (0, max(sizes) - len(r)), value=int(r[0]) if len(r) else 0) for r in own])
            size = torch.tensor(sizes, device=rows.device) if masked or len(set(sizes)) > 1 else None
            names = torch.tensor([i if fed.numbers is None else fed.numbers[i] for i in chunk], device=rows.device)
            self._padded[asked] = rows, size, names
        rows, size, names = self._padded[asked]
        return rows, size, keys.fold(keys.key(fed.seed, number).to(rows.device), names)

    def _shard(self, chunk: list[int], rows: Tensor, size: Tensor | None, key: Tensor) -> Shard:
        fed = self.site.federation
        return Shard(
            fed.x,
            fed.y,
            rows,
            fed.inputs,
            key,
            self.site.method.budget.batch_size,
            fed.classes,
            size,
            self.site.task.needs_pairs,
            fed.augment,
            length=self.site.method.budget.steps,
            balance=self.site.method.budget.balance,
            stored=self.site.method.budget.order == "stored",
            least=max(1, min(fed.sizes[i] for i in chunk)),
        )

    def padding(self, server: Tree, ids: Sequence[int]) -> float:
        """Return how many steps are computed for each that counts: in a group all take as many as the largest."""
        if self.site.method.budget.steps is not None:
            return 1.0
        sizes, batch = self.site.federation.sizes, self.site.method.budget.batch_size
        chunks = self._chunks("trains", server, ids, sizes, batch)
        counted = sum(-(-sizes[i] // batch) for i in ids)
        return sum(len(chunk) * -(-sizes[chunk[0]] // batch) for chunk in chunks) / max(1, counted)

    def _chunks(self, what: str, server: Tree, ids: Sequence[int], sizes: list[int], batch: int) -> Iterator[list[int]]:
        """Yield the clients in groups of like size that fit; with BatchNorm only equal sizes share a group."""
        state = trees.nbytes(self.site.method.send(server, ids[0])) + trees.nbytes(self.store[ids[0]])
        inputs = 4 * self.site.federation.x[0].numel() * 8 * batch  # a few times the batch, for activations
        left, alike = deque(sorted(ids, key=lambda i: (-sizes[i], i))), self.site.task.needs_pairs
        while left:
            chunk, most = [left.popleft()], self.room.most(what, 4 * state + inputs, len(ids))
            while left and len(chunk) < most and (not alike or sizes[chunk[0]] == sizes[left[0]]):
                chunk.append(left.popleft())
            yield chunk


def why_not(site: Site) -> str:
    """Return why clients cannot be stacked, or nothing."""
    if site.method.stacks:
        return site.method.stacks
    if site.privacy.on:
        return f"privacy={site.privacy.name} clips and noises each client by itself"
    if site.method.budget.steps is not None and site.federation.augment:
        return "with budget.steps each client begins its next pass at a time of its own, and augmentation is drawn pass by pass"
    if site.method.budget.balance == "samples":
        return "budget.balance=samples draws each client's samples anew"
    parts = (site.task.body, site.task.head, *site.task.parts.values())
    modules = [m for part in parts for m in part.skeleton.training.modules()]
    if any(getattr(m, "sparse", False) is True for m in modules):
        return "a layer with sparse gradients has no stacked form (model.sparse=false has)"
    fed = site.federation
    most = max(len(rows) for own in (fed.train, fed.validation, fed.test) for rows in own)
    if 4 * most * fed.x[0].numel() > _WHOLE:
        return f"a client's {most:,} samples are tested at once there, and they are too large for that"
    return ""
