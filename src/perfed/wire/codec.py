"""Trees to bytes and back: safetensors behind a SHA-256, checked against a strict schema."""

import hashlib
from typing import TypeVar

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from .. import trees
from ..errors import WireError
from ..trees import Tree
from .withhold import Withheld

T = TypeVar("T")

NOTHING = Withheld({})
_HASH = 32
_ABOUT, _ROOM = 256, 4096  # bytes of a header: for a leaf besides its name, and for the whole


def encode(tree: Tree, withheld: Withheld = NOTHING) -> bytes:
    """Return what crosses of ``tree`` as bytes; booleans take one bit each."""
    leaves = {path: _packed(leaf.detach()) for path, leaf in withheld.crossing(tree)}
    payload = save(trees.apart(leaves))
    return hashlib.sha256(payload).digest() + payload


def decode(message: bytes, like: T, withheld: Withheld = NOTHING, *, finite: bool = True) -> T:
    """Return the tree in ``message``; its names, shapes and types must be those of ``like``.

    Leaves that are withheld come from ``like``.
    """
    expected = dict(withheld.crossing(like))
    most = _ROOM + sum(trees.size_of(leaf) + len(path.encode()) + _ABOUT for path, leaf in expected.items())
    if len(message) > most:  # before anything is read of it
        raise WireError(f"a message has {len(message)} bytes, at most {most} are expected")
    payload = message[_HASH:]
    if len(message) < _HASH or hashlib.sha256(payload).digest() != message[:_HASH]:
        raise WireError("a message's bytes do not match their SHA-256: it was damaged on the way")
    try:
        leaves = load(payload)
    except (
        SafetensorError,
        KeyError,
        ValueError,
        TypeError,
        RuntimeError,
        OverflowError,
    ) as damaged:  # whatever a header may say
        raise WireError(f"a message is not in safetensors form: {str(damaged)[:300]}") from damaged
    if leaves.keys() != expected.keys():
        raise WireError(
            f"a message has the wrong names: missing {sorted(expected.keys() - leaves.keys())[:9]}, "
            f"unknown {[name[:80] for name in sorted(leaves.keys() - expected.keys())[:9]]}"
        )
    found = {path: _unpacked(path, leaves[path], own) for path, own in expected.items()}
    if finite and not trees.finite(found):
        bad = [path for path, leaf in found.items() if not trees.finite(leaf)]
        raise WireError(f"a message has NaN or infinite values in {bad}")
    return trees.rebuild(like, [found.get(path, leaf) for path, leaf in trees.named(like)])


def _packed(leaf: Tensor) -> Tensor:
    if leaf.dtype is torch.bool:
        return torch.from_numpy(np.packbits(leaf.cpu().numpy().reshape(-1)))
    return leaf


def _unpacked(path: str, leaf: Tensor, own: Tensor) -> Tensor:
    if own.dtype is torch.bool:
        if leaf.dtype is not torch.uint8 or leaf.numel() != trees.size_of(own):
            raise WireError(f"{path} should be {own.numel()} packed bits, not {tuple(leaf.shape)} {leaf.dtype}")
        bits = np.unpackbits(leaf.numpy(), count=own.numel())
        return torch.from_numpy(bits.astype(bool)).reshape(own.shape).to(own.device)
    if leaf.shape != own.shape or leaf.dtype != own.dtype:
        raise WireError(f"{path} should be {tuple(own.shape)} {own.dtype}, not {tuple(leaf.shape)} {leaf.dtype}")
    return leaf.to(own.device, copy=True)  # aligned: sums over unaligned memory round differently
