"""LEAF's JSON files (FEMNIST, Shakespeare, Sent140, synthetic): writers are the clients."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..errors import DataError
from .entry import Array, ReaderOptions
from .pixels import pixels
from .samples import Samples

PARTS = ("train", "test")
SIDE = 28  # pixels of either side of FEMNIST's pictures, which come as lists of 784 numbers


def leaf(path: Path, options: ReaderOptions) -> Samples:
    """Read ``train/*.json`` and ``test/*.json`` (maybe below ``data/``), or JSON files of a set that was not cut yet."""
    root = path / "data" if (path / "data" / "train").is_dir() else path
    parts = [part for part in PARTS if (root / part).is_dir()]
    files = [(file, part == "test") for part in parts for file in listed(root / part)] or [(f, False) for f in listed(root)]
    inputs: list[Any] = []
    labels: list[Any] = []
    users: list[str] = []
    test: list[bool] = []
    for file, tested in files:
        for user, x, y in writers(file):
            inputs += x
            labels += y
            users += [user] * len(y)
            test += [tested] * len(y)
    if not labels:
        raise DataError(f"{path} has writers, but no samples")
    x, kind = stored(inputs, path)
    return Samples.of(
        x,
        [str(label) if isinstance(label, str) else int(label) for label in labels],
        group=users,
        test=test if len(parts) == 2 else None,
        kind=kind,
        name=path.name,
    )


def listed(folder: Path) -> list[Path]:
    """Return the JSON files of a folder in order, or the file itself."""
    files = [folder] if folder.is_file() else sorted(folder.glob("*.json"))
    if not files:
        raise DataError(f"{folder} has no .json files; LEAF writes train/*.json and test/*.json")
    return files


def writers(file: Path) -> list[tuple[str, list[Any], list[Any]]]:
    """Return every writer of a file with their inputs, compact where they are numbers, and labels."""
    try:
        held = json.loads(file.read_text(encoding="utf-8"))
        found = [(str(user), held["user_data"][user]["x"], held["user_data"][user]["y"]) for user in held["users"]]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as wrong:
        raise DataError(f"{file} is no file of LEAF with users and user_data ({type(wrong).__name__}: {wrong})") from wrong
    for user, x, y in found:
        if not isinstance(x, list) or not isinstance(y, list) or len(x) != len(y):
            raise DataError(f"{file}: writer '{user}' does not have one label for each input")
        if not all(isinstance(label, str | int) for label in y):
            raise DataError(f"{file}: writer '{user}' has a label that is neither a number nor a text")
    return [(user, [one(each, file, user) for each in x], y) for user, x, y in found]


def one(value: Any, file: Path, user: str) -> Any:
    """Return an input: a text, the text of a tweet's row, or numbers."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and isinstance(value[-1], str):
        return str(value[4] if len(value) > 4 else value[-1])  # Sent140: id, date, query, user, text, …
    try:
        return np.asarray(value, dtype=np.float32).reshape(-1)
    except (TypeError, ValueError) as wrong:
        raise DataError(f"{file}: writer '{user}' has an input that is neither a text nor numbers") from wrong


def stored(inputs: list[Any], path: Path) -> tuple[Any, str | None]:
    """Return what inputs are: pictures, numbers, characters of a play, or texts."""
    texts = [isinstance(value, str) for value in inputs]
    if any(texts) != all(texts):
        raise DataError(f"{path} has texts and numbers as inputs, but they are of one kind")
    if all(texts):
        lengths = {len(value) for value in inputs}
        return (inputs, None) if len(lengths) > 1 else (characters(inputs), "tokens")
    widths = {len(value) for value in inputs}
    if len(widths) > 1:
        raise DataError(f"{path} has inputs of {min(widths)} and of {max(widths)} numbers, but all have as many")
    x = np.stack(inputs)
    if x.shape[1] != SIDE * SIDE:
        return x, "features"
    try:
        return pixels(torch.from_numpy(x.reshape(-1, SIDE, SIDE))), "image"
    except DataError:  # not grey levels: numbers like any
        return x, "features"


def characters(texts: list[str]) -> Array:
    """Return texts of one length as numbers of their characters in the order of their codes, from 1; 0 would be padding."""
    codes = np.array([list(map(ord, text)) for text in texts], dtype=np.int64)
    return (np.unique(codes, return_inverse=True)[1].reshape(codes.shape) + 1).astype(np.int32)
