"""The IDX files of MNIST and Fashion-MNIST."""

from __future__ import annotations

import bz2
import gzip
import zlib
from math import prod
from pathlib import Path
from typing import IO, cast

import numpy as np
import torch

from ..errors import DataError
from .entry import Array, Entry, ReaderOptions, two_parts
from .images import resize
from .samples import Samples

TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def unzipped(path: Path) -> IO[bytes]:
    """Open a file that may be compressed."""
    if path.suffix == ".gz":
        return cast(IO[bytes], gzip.open(path, "rb"))
    if path.suffix == ".bz2":
        return cast(IO[bytes], bz2.open(path, "rb"))
    return path.open("rb")


def contents(path: Path) -> bytes:
    """Return all of a file that may be compressed, or say that it is damaged."""
    try:
        with unzipped(path) as file:
            return file.read()
    except (OSError, EOFError, zlib.error) as broken:
        raise DataError(f"{path} cannot be read ({broken}); delete it and fetch it again") from broken


def array(path: Path) -> Array:
    """Return the array in an IDX file."""
    raw = contents(path)
    if len(raw) < 4 or raw[:2] != b"\0\0" or raw[2] not in TYPES:
        raise DataError(f"{path} is not an IDX file: it begins with {raw[:4].hex() or 'nothing'}, not with 0000")
    axes, dtype = raw[3], np.dtype(TYPES[raw[2]])
    begin = 4 + 4 * axes
    if len(raw) < begin:
        raise DataError(f"{path} ends within its header")
    shape = tuple(int.from_bytes(raw[at : at + 4], "big") for at in range(4, begin, 4))
    wanted = begin + prod(shape) * dtype.itemsize
    if len(raw) != wanted:
        raise DataError(f"{path} has {len(raw):,} bytes, but its header promises {wanted:,}")
    return np.frombuffer(raw, dtype, offset=begin).reshape(shape)


def pair(images: Path, labels: Path) -> tuple[torch.Tensor, Array]:
    """Return grey images and their labels."""
    x, y = array(images), array(labels)
    if x.ndim != 3 or x.dtype != np.uint8:
        raise DataError(f"{images} holds {x.dtype} with {x.ndim} axes, but images are bytes with three")
    if y.ndim != 1 or len(y) != len(x):
        raise DataError(f"{labels} has {y.size} labels, but {images} has {len(x)} images")
    return torch.from_numpy(x.copy()).unsqueeze(1), y


def read(entry: Entry, paths: tuple[Path, ...], options: ReaderOptions) -> Samples:
    """Read training images and labels, then test images and labels."""
    (x, y), (x_test, y_test) = pair(*paths[:2]), pair(*paths[2:])
    return two_parts(entry, (resize(x, options.size), y), (resize(x_test, options.size), y_test))
