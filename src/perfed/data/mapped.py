"""Arrays larger than memory: seen in the file where they lie, or laid into a file that vanishes with the process."""

from __future__ import annotations

import math
import os
import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..disk import writing
from ..errors import DataError
from .download import cache

Array = np.ndarray[Any, Any]

LARGE = 1 << 30  # bytes beyond which an array is made in a file
_BLOCK = 1 << 26  # bytes that are changed at once


def empty(shape: Sequence[int], dtype: Any) -> Array:
    """Return an array to be filled: in memory, or beyond `LARGE` bytes in a nameless file below the cache's folder.

    The file's room is taken at once, so that a full disk is an error here and not a crash later.
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if size <= LARGE:
        return np.empty(tuple(shape), dtype)
    folder = cache() / "mapped"
    with writing(folder / "samples"):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)
            return np.memmap(file, dtype, "r+" if os.fstat(file.fileno()).st_size else "w+", shape=tuple(shape))


def seen(array: Any) -> Tensor:
    """Return an array as a tensor; one that lies in a file stays there, and anything else may be copied."""
    if isinstance(array, np.ndarray) and not (array.dtype.isnative and (array.flags.c_contiguous or type(array) is np.ndarray)):
        made = empty(array.shape, array.dtype.newbyteorder("="))
        made[...] = array  # row by row: the whole is never in memory
        return torch.from_numpy(made)
    if not isinstance(array, np.memmap):
        return torch.from_numpy(np.require(array, requirements=["C", "W"]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the file may only be read: nobody writes to samples
        return torch.from_numpy(array)


def changed(x: Tensor, change: Callable[[Tensor], Tensor | None]) -> Tensor | None:
    """Return what ``change`` makes of rows, block by block; None as soon as it returns None."""
    rows = max(1, _BLOCK // max(1, x[:1].numel() * 8))
    made: Tensor | None = None
    for start in range(0, len(x), rows):
        block = change(x[start : start + rows])
        if block is None:
            return None
        if made is None:
            made = torch.from_numpy(empty((len(x), *block.shape[1:]), block.numpy().dtype))
        made[start : start + len(block)] = block
    return made


def chosen(x: Tensor, rows: Tensor) -> Tensor:
    """Return some rows, in a file where they are many."""
    if len(rows) * x[:1].numel() * x.element_size() <= LARGE:
        return x[rows]
    made = torch.from_numpy(empty((len(rows), *x.shape[1:]), x[:0].numpy().dtype))
    step = max(1, _BLOCK // max(1, x[:1].numel() * x.element_size()))
    for start in range(0, len(rows), step):
        made[start : start + step] = x[rows[start : start + step]]
    return made


def joined(parts: Sequence[Tensor]) -> Tensor:
    """Return tensors of like rows, one after another; in a file where they are large."""
    total = sum(len(part) for part in parts)
    if sum(part.numel() * part.element_size() for part in parts) <= LARGE:
        return torch.cat(list(parts))
    made, at = torch.from_numpy(empty((total, *parts[0].shape[1:]), parts[0][:0].numpy().dtype)), 0
    for part in parts:
        made[at : at + len(part)] = part
        at += len(part)
    return made


def first_bad(x: Tensor) -> int | None:
    """Return the first row with a value that is no finite number, looking at some rows at a time."""
    rows = max(1, _BLOCK // max(1, x[:1].numel()))
    for start in range(0, len(x), rows):
        bad = torch.nonzero(~torch.isfinite(x[start : start + rows].flatten(1)).all(dim=1))
        if len(bad):
            return start + int(bad[0])
    return None


class ArrayFolder:
    """The ``.npy`` files of a folder by name, each seen where it lies and never unpickled."""

    def __init__(self, path: Path) -> None:
        if not path.is_dir():
            raise DataError(f"{path} is no folder; npy:PATH has x.npy, y.npy and maybe group.npy, test.npy, classes.npy")
        self.path = path

    def __contains__(self, key: str) -> bool:
        return (self.path / f"{key}.npy").is_file()

    def __getitem__(self, key: str) -> Array:
        file = self.path / f"{key}.npy"
        if key not in self:
            here = ", ".join(sorted(found.name for found in self.path.glob("*.npy"))) or "none"
            raise DataError(f"{self.path} has no {file.name}; of .npy files it has {here}")
        try:
            found: Array = np.load(file, mmap_mode="r", allow_pickle=False)
        except (OSError, EOFError, ValueError) as broken:
            why = "it holds Python objects, which are never unpickled" if "object" in str(broken).lower() else str(broken)
            raise DataError(f"{file} cannot be read ({why})") from broken
        return found

    def names(self, key: str) -> tuple[str, ...]:
        """Return a list of names, or nothing if there is none."""
        return tuple(str(name) for name in self[key].tolist()) if key in self else ()
