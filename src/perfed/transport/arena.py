"""Trees in memory that processes share: written once, seen as views on the other side, nothing pickled."""

import mmap
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..trees import Tree

_NORESERVE = 0x4000  # Linux: pages cost nothing until they are touched
ALIGN = 64


class Spot(NamedTuple):
    """Where a leaf lies; a tree of these describes a tree in an arena."""

    offset: int
    shape: tuple[int, ...]
    dtype: torch.dtype


class Arena:
    """A stretch of anonymous shared memory; make it before the fork."""

    def __init__(self, reserve: int) -> None:
        self._map = mmap.mmap(-1, reserve, flags=mmap.MAP_SHARED | mmap.MAP_ANONYMOUS | _NORESERVE)
        self._bytes = torch.frombuffer(self._map, dtype=torch.uint8)
        self.reserve = reserve

    def write(self, tree: Tree) -> Any:
        """Copy ``tree`` in from the start; return where its leaves lie."""
        end = 0

        def place(leaf: Tensor) -> Any:
            nonlocal end
            spot = Spot(end, tuple(leaf.shape), leaf.dtype)
            size = leaf.numel() * leaf.element_size()
            end = -(-(end + size) // ALIGN) * ALIGN
            if end > self.reserve:
                raise MemoryError(f"a message of more than {self.reserve >> 20} MiB does not fit the shared memory")
            self._view(spot).copy_(leaf)
            return spot

        return spots(place, tree)

    def read(self, where: Any) -> Tree:
        """Return the tree as views into the arena: copy what must outlive the next write."""
        return views(self._view, where)

    def _view(self, spot: Spot) -> Tensor:
        count = 1
        for n in spot.shape:
            count *= n
        size = count * spot.dtype.itemsize
        return self._bytes[spot.offset : spot.offset + size].view(spot.dtype).view(spot.shape)


class _Leaf(NamedTuple):
    spot: Spot


def spots(place: Any, tree: Tree) -> Any:
    """Return a tree of what ``place`` makes of every leaf."""
    if isinstance(tree, Tensor):
        return _Leaf(place(tree))
    if isinstance(tree, dict):
        return {k: spots(place, v) for k, v in tree.items()}
    branches = [spots(place, v) for v in tree]
    return type(tree)(*branches) if hasattr(tree, "_fields") else tuple(branches)


def views(view: Any, where: Any) -> Tree:
    """Return a tree of what ``view`` makes of the places of its leaves."""
    if isinstance(where, _Leaf):
        return view(where.spot)
    if isinstance(where, dict):
        return {k: views(view, v) for k, v in where.items()}
    branches = [views(view, v) for v in where]
    return type(where)(*branches) if hasattr(where, "_fields") else tuple(branches)
