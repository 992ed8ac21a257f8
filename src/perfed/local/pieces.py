"""Steps of long leaves, piece by piece, so that each number is read from memory once whatever is added to its slope."""

from typing import NamedTuple

import torch
from torch import Tensor

from . import private

_PIECE = 1 << 18  # numbers that move at once: all that is read of them fits into a core's cache
_WHOLE = 1 << 22  # numbers up to which a leaf, its slope and its momentum stay in the cache together


class Motion(NamedTuple):
    """What a leaf follows: its slope, ``strength`` times its distance to an anchor, ``decay`` times itself, and momentum."""

    lr: float
    momentum: float
    decay: float
    strength: float
    anchor: Tensor | None


def pays(p: Tensor, g: Tensor | None, motion: Motion) -> bool:
    """Whether a leaf is so long that the cache forgets its beginning before its end, in every pass over it."""
    if p.numel() <= 2 * _PIECE or (g is None and motion.anchor is None):
        return False
    if g is not None and g.is_sparse:
        return motion.anchor is not None and not motion.momentum and _plain(p, motion.anchor)
    enough = motion.anchor is not None or motion.decay or (motion.momentum and p.numel() > _WHOLE)
    return bool(enough) and _plain(p, g, motion.anchor)


def _plain(*leaves: Tensor | None) -> bool:
    return all(x is None or (x.device.type == "cpu" and x.is_contiguous()) for x in leaves)


def move(p: Tensor, g: Tensor | None, moment: Tensor | None, motion: Motion) -> Tensor | None:
    """Take a step, in place and to the bit that of whole leaves; return the momentum."""
    if g is not None and g.is_sparse:
        _by_rows(p, g, motion)
        return None
    first = moment is None
    if motion.momentum and moment is None:
        moment = torch.empty_like(p)
    flat, room = p.view(-1), torch.empty(_PIECE, dtype=p.dtype)
    slope, anchor, memory = (None if x is None else x.view(-1) for x in (g, motion.anchor, moment))
    for start in range(0, len(flat), _PIECE):
        here = slice(start, start + _PIECE)
        x = flat[here]
        own, t = room[: len(x)], None if slope is None else slope[here]
        if anchor is not None:
            pull = torch.sub(x, anchor[here], out=own).mul_(motion.strength)
            t = pull if t is None else pull.add_(t)
        assert t is not None
        if motion.decay:
            t = torch.add(t, x, alpha=motion.decay, out=own)
        if memory is not None:
            t = memory[here].copy_(t) if first else memory[here].mul_(motion.momentum).add_(t)
        x.add_(t, alpha=-motion.lr)
    return moment


def _by_rows(p: Tensor, g: Tensor, motion: Motion) -> None:
    """A sparse slope touches few rows: these move by all of it, and the rest by spring and decay alone."""
    assert motion.anchor is not None
    where, values = private.rows(g)
    rows, place = torch.unique(where, return_inverse=True)
    before = p[rows]
    t = (before - motion.anchor[rows]).mul_(motion.strength).scatter_add_(0, place[:, None].expand_as(values), values)
    if motion.decay:
        t.add_(before, alpha=motion.decay)
    move(p, None, None, motion)
    p.index_copy_(0, rows, before.add_(t, alpha=-motion.lr))
