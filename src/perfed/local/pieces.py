"""Steps of long leaves, piece by piece, so that each number is read from memory once whatever is added to its slope."""

from typing import NamedTuple

import torch
from torch import Tensor

from . import private

_PIECE = 1 << 18  # numbers that move at once: all that is read of them fits into a core's cache
_WHOLE = 1 << 22  # numbers up to which a leaf, its slope and its momentum stay in the cache together


class Course(NamedTuple):
    """What a leaf follows: its slope, ``strength`` times its distance to an anchor, ``decay`` times itself, and momentum."""

    lr: float
    momentum: float
    decay: float
    strength: float
    anchor: Tensor | None


def pays(p: Tensor, g: Tensor | None, course: Course) -> bool:
    """Whether a leaf is so long that the cache forgets its beginning before its end, in every pass over it."""
    if p.numel() <= 2 * _PIECE or (g is None and course.anchor is None):
        return False
    if g is not None and g.is_sparse:
        return course.anchor is not None and not course.momentum and _plain(p, course.anchor)
    enough = course.anchor is not None or course.decay or (course.momentum and p.numel() > _WHOLE)
    return bool(enough) and _plain(p, g, course.anchor)


def _plain(*leaves: Tensor | None) -> bool:
    return all(x is None or (x.device.type == "cpu" and x.is_contiguous()) for x in leaves)


def move(p: Tensor, g: Tensor | None, moment: Tensor | None, course: Course) -> Tensor | None:
    """Take a step, in place and to the bit that of whole leaves; return the momentum."""
    if g is not None and g.is_sparse:
        _by_rows(p, g, course)
        return None
    first = moment is None
    if course.momentum and moment is None:
        moment = torch.empty_like(p)
    flat, room = p.view(-1), torch.empty(_PIECE, dtype=p.dtype)
    slope, anchor, memory = (None if x is None else x.view(-1) for x in (g, course.anchor, moment))
    for start in range(0, len(flat), _PIECE):
        here = slice(start, start + _PIECE)
        x = flat[here]
        own, t = room[: len(x)], None if slope is None else slope[here]
        if anchor is not None:
            pull = torch.sub(x, anchor[here], out=own).mul_(course.strength)
            t = pull if t is None else pull.add_(t)
        assert t is not None
        if course.decay:
            t = torch.add(t, x, alpha=course.decay, out=own)
        if memory is not None:
            t = memory[here].copy_(t) if first else memory[here].mul_(course.momentum).add_(t)
        x.add_(t, alpha=-course.lr)
    return moment


def _by_rows(p: Tensor, g: Tensor, course: Course) -> None:
    """A sparse slope touches few rows: these move by all of it, and the rest by spring and decay alone."""
    assert course.anchor is not None
    where, values = private.rows(g)
    rows, place = torch.unique(where, return_inverse=True)
    before = p[rows]
    t = (before - course.anchor[rows]).mul_(course.strength).scatter_add_(0, place[:, None].expand_as(values), values)
    if course.decay:
        t.add_(before, alpha=course.decay)
    move(p, None, None, course)
    p.index_copy_(0, rows, before.add_(t, alpha=-course.lr))
