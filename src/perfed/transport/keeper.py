"""An actor of a Ray cluster that keeps some of the clients: their data, their private states, and what they do."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .. import trees
from ..errors import PerfedError
from ..evaluate.scores import Score
from ..federation import PARTS, Federation
from .crate import Crate, opened, packed
from .pooled import keep_memory
from .site import Private, Site
from .store import Store

TOGETHER = 1 << 20  # bytes of answers that travel together


class Answer(NamedTuple):
    """What a client answered."""

    client: int
    up: Crate
    after: Score | None


class Failed(NamedTuple):
    """What went wrong at a client, in place of its answer."""

    kind: str
    text: str


class Keeper:
    """Some of the clients, at one of a cluster's machines."""

    def __init__(self, site: Site, first: Private, budget: int) -> None:
        torch.set_num_threads(1)
        keep_memory()
        self.site, self.store = site, Store(first, len(site.federation), budget)

    def take(self, states: dict[int, Crate]) -> int:
        """Keep the states that clients go on from."""
        for client, state in states.items():
            self.store[client] = opened(state)
        return len(states)

    def states(self, clients: Sequence[int]) -> list[Crate]:
        """Return the private states of some clients."""
        return [packed(self.store[client]) for client in clients]

    def train(self, clients: Sequence[int], down: Any, number: int, after: bool) -> Iterator[list[Answer | Failed]]:
        """Yield the answers of some clients in order, as many at once as travel well together."""
        ready, size = list[Answer | Failed](), 0
        common = opened(down) if isinstance(down, Crate) else None
        for place, client in enumerate(clients):
            try:
                told = opened(down[place]) if common is None else common
                up, private, whole = self.site.train(client, told, self.store[client], number)
                self.store[client] = trees.clone(private)
                score = self.site.after(client, told, whole, private.mine, number) if after else None
            except PerfedError as wrong:
                ready.append(Failed(type(wrong).__name__, str(wrong)))
                break
            ready.append(Answer(client, packed(up), score))
            size += len(ready[-1].up.bytes)  # type: ignore[union-attr]
            if size >= TOGETHER:
                yield ready
                ready, size = [], 0
        if ready:
            yield ready

    def score(self, clients: Sequence[int], down: Any, number: int, parts: tuple[str, ...]) -> list[list[Score]] | Failed:
        """Return how clients do with the models that they would serve."""
        common = opened(down) if isinstance(down, Crate) else None
        found = []
        for place, client in enumerate(clients):
            told = opened(down[place]) if common is None else common
            try:
                found.append(self.site.score(client, told, self.store[client], number, parts))
            except PerfedError as wrong:
                return Failed(type(wrong).__name__, str(wrong))
        return found


def part(site: Site, clients: Sequence[int]) -> Site:
    """Return a site with the samples of some clients alone; the others keep their numbers, and have none."""
    fed = site.federation
    own = [getattr(fed, name)[client] for name in PARTS for client in clients]
    held: Tensor = torch.unique(torch.cat(own))
    here, none = set(clients), torch.zeros(0, dtype=torch.int64)
    rows: dict[str, Any] = {
        name: tuple(torch.searchsorted(held, all_) if i in here else none for i, all_ in enumerate(getattr(fed, name)))
        for name in PARTS
    }
    less: Federation = replace(fed, x=fed.x[held], y=fed.y[held], source=None, columns=None, **rows)
    return replace(site, federation=less)
