"""A tree as one stretch of bytes with a list of where its leaves lie: what actors and the server hand to each other."""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..trees import Tree
from .arena import ALIGN, Spot, spots, views


class Crate(NamedTuple):
    """A packed tree; its bytes lie once in a machine's memory, whoever reads them there."""

    spots: Any
    bytes: np.ndarray[Any, np.dtype[np.uint8]]


def packed(tree: Tree) -> Crate:
    """Return a tree as bytes; the tree stays as it is."""
    leaves: list[tuple[Spot, Tensor]] = []
    end = 0

    def place(leaf: Tensor) -> Spot:
        nonlocal end
        spot = Spot(end, tuple(leaf.shape), leaf.dtype)
        end = -(-(end + leaf.numel() * leaf.element_size()) // ALIGN) * ALIGN
        leaves.append((spot, leaf))
        return spot

    where = spots(place, tree)
    whole = torch.empty(end, dtype=torch.uint8)
    for spot, leaf in leaves:
        _view(whole, spot).copy_(leaf.detach())
    return Crate(where, whole.numpy())


def opened(crate: Crate) -> Tree:
    """Return the tree in a crate, in memory of its own: aligned, as sums over unaligned memory round differently."""
    whole = torch.empty(len(crate.bytes), dtype=torch.uint8)
    whole.numpy()[...] = crate.bytes
    return views(lambda spot: _view(whole, spot), crate.spots)


def _view(whole: Tensor, spot: Spot) -> Tensor:
    count = 1
    for length in spot.shape:
        count *= length
    return whole[spot.offset : spot.offset + count * spot.dtype.itemsize].view(spot.dtype).view(spot.shape)
