"""The clients' private states: in memory up to a budget, then in memory-mapped files."""

import tempfile
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from safetensors.torch import load_file, save_file

from .. import trees
from ..disk import writing
from .site import Private


class Away(Protocol):
    """Who keeps states instead of a store."""

    def __iter__(self) -> Iterator[int]: ...
    def get(self, client: int, first: Private) -> Private: ...


class Store:
    """Maps a client to its private state; a client that never trained costs nothing."""

    def __init__(self, first: Private, clients: int, budget: int = 4 << 30, folder: Path | None = None) -> None:
        self.first, self.clients, self._budget = first, clients, budget
        self._near: OrderedDict[int, Private] = OrderedDict()
        self._far: dict[int, tuple[Private, Path]] = {}  # a template for the shape, and the file
        self._held = 0
        self._folder = folder
        self._own: tempfile.TemporaryDirectory[str] | None = None
        self.away: Away | None = None  # who keeps the states, where clients are elsewhere

    def lend(self, away: Away) -> None:
        """Let somebody else keep the states from now on."""
        self._near.clear()
        self._far.clear()
        self._held, self.away = 0, away

    def home(self) -> None:
        """Take the states back from whoever keeps them."""
        if self.away is not None:
            away, self.away = self.away, None
            for client in away:
                self[client] = away.get(client, self.first)

    def __getitem__(self, client: int) -> Private:
        if self.away is not None:
            return self.away.get(client, self.first)
        if client in self._near:
            self._near.move_to_end(client)
            return self._near[client]
        if client in self._far:
            return self._fetch(client)
        return self.first

    def __setitem__(self, client: int, private: Private) -> None:
        if client in self._near:
            self._held -= trees.memory(self._near.pop(client))
        self._far.pop(client, None)
        self._near[client] = private
        self._held += trees.memory(private)
        while self._held > self._budget and len(self._near) > 1:
            self._spill(*self._near.popitem(last=False))

    def __iter__(self) -> Iterator[int]:
        """Yield the clients that have a state of their own."""
        if self.away is not None:
            return iter(self.away)
        return iter(sorted(self._near.keys() | self._far.keys()))

    def _spill(self, client: int, private: Private) -> None:
        if self._folder is None:
            self._own = tempfile.TemporaryDirectory(prefix="perfed-")
            self._folder = Path(self._own.name)
        path = self._folder / f"client-{client}.safetensors"
        with writing(path):
            save_file(trees.apart(dict(trees.named(private))), path)
        self._far[client] = (trees.map(lambda x: x.new_empty(0), private), path)
        self._held -= trees.memory(private)

    def _fetch(self, client: int) -> Private:
        shape, path = self._far[client]
        leaves = load_file(path)
        return trees.rebuild(shape, [leaves[k].to(own.device, copy=True) for k, own in trees.named(shape)])  # aligned, as it was
