"""One client after another in this process: the reference that every other transport must equal."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import chain
from types import TracebackType
from typing import Any, Protocol

import torch

from ..evaluate.metrics import finish
from ..evaluate.scores import Score
from ..server import Uploads
from ..trees import Tree
from ..wire import Ledger, decode, encode
from .simulated import Simulated
from .site import Site
from .store import Store


class Transport(Protocol):
    """Trains clients and scores them; keeps their private states and counts what crosses."""

    name: str
    store: Store
    ledger: Ledger
    after: dict[int, Score]  # how participants did right after training, if asked for

    def train(self, server: Tree, ids: Sequence[int], number: int, lost: set[int], after: bool) -> Uploads[Any]: ...
    def score(self, server: Tree, ids: Sequence[int], number: int, parts: tuple[str, ...]) -> list[list[Score]]: ...
    def close(self) -> None: ...


class Serial(Simulated):
    """Clients in order; ``wired`` turns every message to bytes and back."""

    name = "serial"

    def __init__(self, site: Site, store: Store, *, wired: bool = False) -> None:
        super().__init__(site, store)
        self.wired = wired

    def _answers(self, server: Tree, ids: list[int], number: int, lost: set[int], after: bool) -> Iterator[Any]:
        for i in ids:
            with one_thread():
                down = self._hop(self.site.method.send(server, i))
                self.ledger.down(down)
                up, private, whole = self.site.train(i, down, self.store[i], number)
                self.store[i] = private
                if after:
                    self.after[i] = self.site.after(i, down, whole, private.mine, number)
            if i not in lost:
                self.ledger.up(up)
                yield self._hop(up)

    def _hop(self, tree: Tree) -> Tree:
        if not self.wired:
            return tree
        return decode(encode(tree, self.site.withheld), tree, self.site.withheld, finite=False)

    def score(self, server: Tree, ids: Sequence[int], number: int, parts: tuple[str, ...]) -> list[list[Score]]:
        with one_thread():
            begun = (self.site.begin(i, self.site.method.send(server, i), self.store[i], number, parts) for i in ids)
            found = finish(self.site.metrics, chain.from_iterable(begun))
            return [[next(found) for _ in parts] for _ in ids]


class one_thread(AbstractContextManager[None]):
    """One torch thread inside: more are slower on small batches, and their number would change results."""

    def __enter__(self) -> None:
        self.before = torch.get_num_threads()
        if self.before != 1:
            torch.set_num_threads(1)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.before != 1:
            torch.set_num_threads(self.before)
