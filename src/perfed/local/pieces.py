"""Plain steps of long leaves, piece by piece: all that is read of a piece fits into a core's cache and is read once."""

import torch
from torch import Tensor

SIZE = 1 << 17  # numbers of a leaf that move at once


def are_long(*leaves: Tensor | None) -> bool:
    """Whether leaves are so long that the cache of a processor forgets their beginning before their end."""
    return all(
        x is None or (x.numel() > 2 * SIZE and x.device.type == "cpu" and (x.is_sparse or x.is_contiguous())) for x in leaves
    )


def decayed(p: Tensor, g: Tensor, decay: float, lr: float) -> None:
    """Move a long leaf along its slope and its decay, in place; to the bit the step along their sum."""
    flat, slope = p.view(-1), g.view(-1)
    room = torch.empty_like(flat[:SIZE])
    for here in _pieces(flat):
        x = flat[here]
        x.add_(torch.add(slope[here], x, alpha=decay, out=room[: len(x)]), alpha=-lr)


def sprung(p: Tensor, a: Tensor, g: Tensor | None, strength: float, decay: float, lr: float) -> None:
    """Move a long leaf along a spring to an anchor, its slope and its decay, in place; to the bit the step along their sum."""
    flat, anchor, slope = p.view(-1), a.view(-1), None if g is None else g.view(-1)
    room = torch.empty_like(flat[:SIZE])
    for here in _pieces(flat):
        x = flat[here]
        t = torch.sub(x, anchor[here], out=room[: len(x)]).mul_(strength)
        if slope is not None:
            t.add_(slope[here])
        if decay:
            t.add_(x, alpha=decay)
        x.add_(t, alpha=-lr)


def _pieces(flat: Tensor) -> list[slice]:
    return [slice(first, first + SIZE) for first in range(0, len(flat), SIZE)]
