"""Trees in memory that processes share: written once, seen as views on the other side, nothing pickled."""

import mmap
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..trees import Tree

_NORESERVE = 0x4000  # Linux: pages cost nothing until they are touched
_ALIGN = 64


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
            end = -(-(end + size) // _ALIGN) * _ALIGN
            if end > self.reserve:
                raise MemoryError(f"a message of more than {self.reserve >> 20} MiB does not fit the shared memory")
            self._view(spot).copy_(leaf)
            return _Leaf(spot)

        return _spots(place, tree)

    def read(self, spots: Any) -> Tree:
        """Return the tree as views into the arena: copy what must outlive the next write."""
        return _views(self._view, spots)

    def _view(self, spot: Spot) -> Tensor:
        count = 1
        for n in spot.shape:
            count *= n
        size = count * spot.dtype.itemsize
        return self._bytes[spot.offset : spot.offset + size].view(spot.dtype).view(spot.shape)


class _Leaf(NamedTuple):
    spot: Spot


def _spots(place: Any, tree: Tree) -> Any:
    if isinstance(tree, Tensor):
        return place(tree)
    if isinstance(tree, dict):
        return {k: _spots(place, v) for k, v in tree.items()}
    branches = [_spots(place, v) for v in tree]
    return type(tree)(*branches) if hasattr(tree, "_fields") else tuple(branches)


def _views(view: Any, spots: Any) -> Tree:
    if isinstance(spots, _Leaf):
        return view(spots.spot)
    if isinstance(spots, dict):
        return {k: _views(view, v) for k, v in spots.items()}
    branches = [_views(view, v) for v in spots]
    return type(spots)(*branches) if hasattr(spots, "_fields") else tuple(branches)
