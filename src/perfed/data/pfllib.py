"""PFLlib's folders of clients, ``train/0.npz … test/0.npz``: pickled, and read without running anything."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch

from ..errors import DataError
from .entry import Array, ReaderOptions
from .pickled import read
from .pixels import pixels
from .samples import Samples
from .unpacked import BROKEN, header, refuse_bomb

PARTS = ("train", "test")
_MOST = 1 << 28  # tokens of one client


def pfllib(path: Path, options: ReaderOptions) -> Samples:
    """Read every client of a folder that PFLlib's generators wrote; the parts ``train`` and ``test`` stay as they are."""
    clients = numbered(path / "train")
    if numbered(path / "test") != clients:
        odd = sorted(set(clients) ^ set(numbered(path / "test")))[0]
        raise DataError(f"{path}: client {odd} has a file in one of train/ and test/ only, and needs both")
    found = [(client, part, *arrays(path / part / f"{client}.npz")) for part in PARTS for client in clients]
    first = found[0][2]
    for client, part, x, _ in found:
        if (x.shape[1:], x.dtype.kind) != (first.shape[1:], first.dtype.kind):
            here, there = (f"{'×'.join(map(str, own.shape[1:]))} {own.dtype}" for own in (x, first))
            raise DataError(f"{path / part}/{client}.npz holds samples {here}, but client {clients[0]} has {there}")
    lengths = [len(y) for *_, y in found]
    x, kind = inputs(np.concatenate([x for _, _, x, _ in found]))
    labels = np.concatenate([y for *_, y in found])
    return Samples.of(
        x,
        labels,
        classes=named(path, labels),
        group=np.repeat([place for _ in PARTS for place in range(len(clients))], lengths),
        groups=[str(client) for client in clients],
        test=np.repeat([part == "test" for _, part, _, _ in found], lengths),
        kind=kind,
        name=path.name,
    )


def numbered(folder: Path) -> list[int]:
    """Return the numbers of the files ``0.npz``, ``1.npz``, … in order."""
    if not folder.is_dir():
        raise DataError(f"{folder.parent} has no folder {folder.name}/; PFLlib writes train/0.npz … and test/0.npz …")
    found = sorted(int(file.stem) for file in folder.iterdir() if file.suffix == ".npz" and file.stem.isdecimal())
    if not found:
        raise DataError(f"{folder} has no files 0.npz, 1.npz, …")
    return found


def arrays(file: Path) -> tuple[Array, Array]:
    """Return the samples and labels of one client's file: a dict with ``x`` and ``y`` in a pickled array ``data``."""
    try:
        with zipfile.ZipFile(file) as archive, archive.open("data.npy") as member:
            refuse_bomb(archive, "data.npy")
            held = contents(member)
    except DataError as refused:
        raise DataError(f"{file} holds {refused}; only arrays, lists and dicts are read, and nothing was run") from refused
    except BROKEN as broken:
        raise DataError(f"{file} is no file of a PFLlib client ({broken})") from broken
    if not isinstance(held, dict) or not {"x", "y"} <= held.keys():
        raise DataError(f"{file} holds no dict with x and y")
    try:
        x, y = tokens(held["x"]), numbers(held["y"])
    except (TypeError, ValueError) as wrong:
        raise DataError(f"{file}: x or y is no table of numbers ({wrong})") from wrong
    if y.ndim != 1 or y.dtype.kind not in "iufb" or x.ndim < 2 or len(x) != len(y):
        raise DataError(f"{file}: x has the shape {x.shape} and y {y.shape}, but there is one label per sample")
    return x, y


def contents(member: IO[bytes]) -> Any:
    """Return what an ``.npy`` of one object holds."""
    shape, dtype = header(member)
    if dtype != np.dtype(object) or shape != ():
        raise ValueError(f"its array 'data' is {dtype} {shape} and not one dict")
    held = read(member.read())
    return held[()] if isinstance(held, np.ndarray) and held.shape == () else held


def numbers(held: Any) -> Array:
    """Return an array as it is, and a list of numbers or of arrays as one; lists in lists could stand for more than fits."""
    if isinstance(held, list):
        flat = all(isinstance(each, int | float | np.generic) for each in held)
        if not flat and not all(isinstance(each, np.ndarray) and each.dtype != object for each in held):
            return objects(held)
        return np.array(held) if flat else np.stack(held)
    if not isinstance(held, np.ndarray):
        raise ValueError(f"it is a {type(held).__name__}")
    return held


def objects(held: list[Any]) -> Array:
    """Return a list as an array of the things in it."""
    made = np.empty(len(held), dtype=object)
    made[:] = held
    return made


def tokens(held: Any) -> Array:
    """Return numbers as they are; lists of tokens, or pairs of one and its length, as int32, filled up with 0."""
    array = numbers(held)
    if array.dtype != object:
        return array
    held = list(array[:, 0] if array.ndim == 2 and array.shape[1] == 2 else array)
    longest = max((len(each) for each in held), default=0)
    lists = [numbers(each) for each in held] if len(held) * longest <= _MOST else []
    if not lists or any(each.dtype.kind not in "iu" or each.ndim != 1 for each in lists):
        raise ValueError("its samples are neither arrays nor lists of tokens")
    table = np.zeros((len(lists), longest), dtype=np.int32)
    for row, each in zip(table, lists, strict=True):
        row[: len(each)] = each
    return table


def inputs(x: Array) -> tuple[Any, str | None]:
    """Return samples and their kind; pictures that were normalised to −1 … 1 become bytes again, where that loses nothing."""
    if x.dtype.kind in "iu" and x.ndim == 2:
        return x, "tokens"
    if x.ndim == 4 and x.shape[1] in (1, 3) and x.shape[2] > 1 and x.dtype.kind == "f":
        for restored in (x, (x + 1) / 2):
            try:
                return pixels(torch.from_numpy(restored)), "image"
            except DataError:
                continue
        return x, "signal"
    return x, None


def named(path: Path, labels: Array) -> list[str] | None:
    """Return a name for every class that ``config.json`` counts; without it the labels that occur are the classes."""
    try:
        count = json.loads((path / "config.json").read_text(encoding="utf-8"))["num_classes"]
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as wrong:
        raise DataError(f"{path / 'config.json'} does not say num_classes ({wrong})") from wrong
    if type(count) is not int or not labels.max() < count <= 1 << 20:
        raise DataError(f"{path / 'config.json'} says num_classes={count!r}, but there is a label {labels.max()}")
    return [str(number) for number in range(count)]
