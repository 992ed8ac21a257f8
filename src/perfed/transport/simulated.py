"""What the transports of a simulation have in common: clients' states, what crosses, and answers in client order."""

from collections.abc import Iterator, Sequence
from typing import Any

from ..evaluate.scores import Score
from ..server import Uploads, broadcast
from ..trees import Tree
from ..wire import Ledger
from .site import Site
from .store import Store


class Simulated:
    """Trains clients when their answers are asked for, one after another in the order of the clients."""

    def __init__(self, site: Site, store: Store) -> None:
        self.site, self.store, self.ledger = site, store, Ledger(site.withheld)
        self.after: dict[int, Score] = {}

    @property
    def alike(self) -> bool:
        """Whether all clients are sent the same."""
        return getattr(type(self.site.method), "send", None) is broadcast

    def train(self, server: Tree, ids: Sequence[int], number: int, lost: set[int], after: bool) -> Uploads[Any]:
        """Return the answers of those who are not lost; all of ``ids`` train."""
        sizes = self.site.federation.sizes
        arriving = [i for i in ids if i not in lost]
        self.after = {}
        return Uploads(arriving, [sizes[i] for i in arriving], self._answers(server, list(ids), number, lost, after))

    def _answers(self, server: Tree, ids: list[int], number: int, lost: set[int], after: bool) -> Iterator[Any]:
        raise NotImplementedError

    def close(self) -> None:
        """Let go of what was held for training."""
