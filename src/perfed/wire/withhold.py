"""Which leaves never cross: what a BatchNorm policy leaves with its client."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from torch import Tensor

from .. import trees
from ..trees import Params, Tree

T = TypeVar("T")


@dataclass(frozen=True)
class Withheld:
    """Leaves of the network that stay at home, with the common start that stands for them on the other side."""

    start: Params

    def __bool__(self) -> bool:
        return bool(self.start)

    def covers(self, name: str, leaf: Tensor) -> bool:
        """Whether a leaf is one of the network's own that stays; a mask of the same name is not."""
        own = self.start.get(name)
        return own is not None and own.shape == leaf.shape and own.dtype == leaf.dtype

    def hide(self, tree: T) -> tuple[T, Params]:
        """Return ``tree`` with the common start in place of what stays, and what stays."""
        if not self:
            return tree, {}
        kept: Params = {}

        def swap(name: str, leaf: Tensor) -> Tensor:
            if not self.covers(name, leaf):
                return leaf
            kept.setdefault(name, leaf)
            return self.start[name]

        return _by_name(swap, tree), kept

    def overlay(self, tree: T, kept: Params) -> T:
        """Return ``tree`` with what the client kept laid over it."""
        if not kept:
            return tree
        return _by_name(lambda name, leaf: kept[name] if name in kept and self.covers(name, leaf) else leaf, tree)

    def crossing(self, tree: Tree) -> Iterator[tuple[str, Tensor]]:
        """Yield path and leaf of what does cross."""
        for path, leaf in trees.named(tree):
            if not self.covers(path.rpartition("/")[2], leaf):
                yield path, leaf


def _by_name(f: Any, tree: T, name: str = "") -> T:
    if isinstance(tree, Tensor):
        return f(name, tree)  # type: ignore[no-any-return]
    if isinstance(tree, dict):
        return {k: _by_name(f, v, k) for k, v in tree.items()}  # type: ignore[return-value]
    branches = [_by_name(f, v, n) for n, v in zip(trees.names(tree), tree, strict=True)]  # type: ignore[arg-type, call-overload]
    return type(tree)(*branches) if hasattr(tree, "_fields") else tuple(branches)  # type: ignore[return-value]
