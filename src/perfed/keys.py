"""Counter-based randomness: the same key gives the same numbers in a loop, under vmap, or on another machine."""

import math
import zlib

import torch
from torch import Tensor

_GOLDEN = -7046029254386353131  # 0x9E3779B97F4A7C15 as a signed 64-bit integer
_LARGEST = 2**63 - 1


def _scramble(z: Tensor) -> Tensor:
    """SplitMix64's finaliser; masks make the arithmetic shifts logical."""
    z = (z ^ ((z >> 30) & ((1 << 34) - 1))) * -4658895280553007687
    z = (z ^ ((z >> 27) & ((1 << 37) - 1))) * -7723592293110705685
    return z ^ ((z >> 31) & ((1 << 33) - 1))


def key(seed: int, *data: int | str | Tensor) -> Tensor:
    """Return the key of ``seed`` and what it is for."""
    return fold(torch.tensor(seed, dtype=torch.int64), *data)


def fold(key: Tensor, *data: int | str | Tensor) -> Tensor:
    """Return a key that depends on ``key`` and on everything in ``data``."""
    for item in data:
        number = zlib.crc32(item.encode()) if isinstance(item, str) else item
        if isinstance(number, Tensor):
            key = _scramble(key + _GOLDEN * torch.as_tensor(number + 1, dtype=torch.int64, device=key.device))
        else:  # as a number, not as a tensor that would have to be sent to the key's device
            key = _scramble(key + _wrapped(_GOLDEN * (number + 1)))
    return key


def _wrapped(number: int) -> int:
    """Return a number as 64 bits with a sign hold it."""
    return (number + 2**63) % 2**64 - 2**63


def bits(key: Tensor, count: int) -> Tensor:
    """Return ``count`` random non-negative 63-bit integers; the first ones do not depend on ``count``."""
    return _scramble(key + _GOLDEN * torch.arange(1, count + 1, device=key.device)) & _LARGEST


def uniform(key: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return float32 numbers in [0, 1)."""
    return ((bits(key, math.prod(shape)) >> 39).float() * 2**-24).reshape(shape)


def open_uniform(key: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return float64 numbers strictly between 0 and 1, fit for logarithms."""
    return (((bits(key, math.prod(shape)) >> 11).double() + 0.5) * 2**-52).reshape(shape)


def gumbel(key: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return standard Gumbel numbers in float32."""
    return -torch.log(-torch.log(open_uniform(key, shape))).float()


def normal(key: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return standard normal numbers in float32 (Box and Muller)."""
    radius = torch.sqrt(-2 * torch.log(open_uniform(fold(key, 0), shape)))
    return (radius * torch.cos(2 * math.pi * open_uniform(fold(key, 1), shape))).float()


def permutation(key: Tensor, count: int) -> Tensor:
    """Return the numbers below ``count`` in a random order."""
    return bits(key, count).argsort()


def seed_of(key: Tensor) -> int:
    """Return a non-negative number to seed a generator that takes no key."""
    return int(key) & _LARGEST
