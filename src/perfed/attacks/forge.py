"""Attacks by what is sent: a transport that changes the answers of some clients before the server sees them."""

import statistics
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from .. import keys, trees
from ..evaluate.scores import Score
from ..server import Uploads
from ..server.admission.form import form_of
from ..server.admission.measure import view_of
from ..transport import Transport
from ..trees import Tree
from .attack import Attack


class Forger:
    """Any transport, with the answers of the attackers forged; attackers know everything that is sent, both ways.

    An update is an answer less what was sent; leaves that were not sent are taken as they are. Masks and whole numbers stay.
    """

    def __init__(self, inner: Transport, method: Any, attack: Attack, who: Sequence[int], seed: int) -> None:
        self.inner, self.method, self.attack, self.who, self.seed = inner, method, attack, set(who), seed
        self.name, self.store, self.ledger = inner.name, inner.store, inner.ledger
        self.after: dict[int, Score] = {}

    def train(self, server: Tree, ids: Sequence[int], number: int, lost: set[int], after: bool) -> Uploads[Any]:
        found = self.inner.train(server, ids, number, lost, after)
        self.after = self.inner.after
        if not self.who & set(found.ids):
            return found
        return Uploads(found.ids, found.counts, self._forged(server, found, number))

    def score(self, server: Tree, ids: Sequence[int], number: int, parts: tuple[str, ...]) -> list[list[Score]]:
        return self.inner.score(server, ids, number, parts)

    def close(self) -> None:
        self.inner.close()

    def _forged(self, server: Tree, found: Uploads[Any], number: int) -> Iterator[Any]:
        if self.attack.name in ("alie", "inner"):
            yield from self._together(server, found)
            return
        for client, up in zip(found.ids, found, strict=True):
            if client not in self.who:
                yield up
                continue
            own = _Update(up, self.method.send(server, client))
            if self.attack.name == "gaussian":
                noise = keys.normal(keys.key(self.seed, number, "attack", client), (own.vector.numel(),))
                yield own.sent(self.attack.force * noise.to(own.vector))
            else:
                yield own.sent((-1 if self.attack.name == "sign" else 1) * self.attack.force * own.vector)

    def _together(self, server: Tree, found: Uploads[Any]) -> Iterator[Any]:
        """Yield the answers, those of attackers made from what the honest ones answered."""
        updates = [_Update(up, self.method.send(server, i)) for i, up in zip(found.ids, found.trees, strict=True)]
        honest = [own.vector for i, own in zip(found.ids, updates, strict=True) if i not in self.who]
        if not honest:
            yield from found.trees
            return
        several = torch.stack(honest)
        made = -self.attack.force * several.mean(0) if self.attack.name == "inner" else self._little(several, len(updates))
        for client, own, up in zip(found.ids, updates, found.trees, strict=True):
            yield own.sent(made) if client in self.who else up

    def _little(self, honest: Tensor, count: int) -> Tensor:
        """Return 'A Little Is Enough': so many deviations off the mean that a majority of the honest is still further off."""
        force = self.attack.force
        if self.attack.strength is None:
            bad, good = count - len(honest), len(honest)
            needed = max(0, count // 2 + 1 - bad)
            share = min(max((good - needed) / good, 0.01), 0.99)
            force = statistics.NormalDist().inv_cdf(share)
        return honest.mean(0) - force * honest.std(0, correction=0)


class _Update:
    """An answer as one vector of changes, and back."""

    def __init__(self, up: Tree, down: Tree) -> None:
        form = form_of(up)
        assert form is not None
        view = view_of(form, down)
        self.up, downs = up, trees.leaves(down)
        base = dict(view.moved)
        self.places = [*base, *view.new]
        self.leaves = trees.leaves(up)
        self.bases = [downs[base[place]] if place in base else torch.zeros_like(self.leaves[place]) for place in self.places]
        pairs = zip(self.places, self.bases, strict=True)
        empty = [torch.zeros(0)]
        self.vector = torch.cat([(self.leaves[place] - own).reshape(-1) for place, own in pairs] or empty)

    def sent(self, vector: Tensor) -> Tree:
        """Return the answer whose changes are these."""
        made, at = list(self.leaves), 0
        for place, base in zip(self.places, self.bases, strict=True):
            size = base.numel()
            made[place] = (base + vector[at : at + size].reshape(base.shape)).to(self.leaves[place].dtype)
            at += size
        return trees.rebuild(self.up, made)
