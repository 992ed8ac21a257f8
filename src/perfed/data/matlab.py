"""MATLAB files: SVHN, SynthDigits, and the digit domains as Digits-Five ships them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import DataError
from .entry import Array, Entry, ReaderOptions, two_parts
from .images import resize
from .samples import Samples


def variables(path: Path, *wanted: str) -> list[Array]:
    """Return the named variables of a .mat file."""
    from scipy.io import loadmat

    try:
        found: dict[str, Any] = loadmat(path, variable_names=wanted)
    except Exception as broken:  # scipy raises many kinds on damaged files
        raise DataError(f"{path} is no readable MATLAB file ({broken})") from broken
    for name in wanted:
        if name not in found:
            raise DataError(f"{path} has no variable '{name}'")
    return [np.asarray(found[name]) for name in wanted]


def images(x: Array, path: Path) -> Tensor:
    """Return N×H×W×C images as bytes N×C×H×W."""
    if x.ndim != 4 or x.shape[3] not in (1, 3):
        raise DataError(f"{path}: images have the shape {x.shape}, but N×H×W×C was expected")
    return torch.from_numpy(np.ascontiguousarray(np.moveaxis(x, 3, 1)).astype(np.uint8))


def digits(y: Array) -> Array:
    """Return labels 0..9 from numbers (where 10 means 0) or from one-hot rows."""
    if y.ndim == 2 and y.shape[1] == 10:
        return np.asarray(y.argmax(axis=1), dtype=np.int64)
    numbers = y.reshape(-1).astype(np.int64)
    return np.where(numbers == 10, 0, numbers)


def read(entry: Entry, paths: tuple[Path, ...], options: ReaderOptions) -> Samples:
    """Read a training and a test file with ``X`` (32×32×3×N) and ``y``, as SVHN's cropped digits."""
    parts = []
    for path in paths:
        x, y = variables(path, "X", "y")
        if x.ndim != 4:
            raise DataError(f"{path}: X has the shape {x.shape}, but it is 32×32×3×N")
        parts.append((resize(images(np.moveaxis(x, 3, 0), path), options.size), digits(y)))
    return two_parts(entry, parts[0], parts[1])


def five(entry: Entry, paths: tuple[Path, ...], options: ReaderOptions) -> Samples:
    """Read one file of Digits-Five with both parts, under the names that the domain uses."""
    path = paths[0]
    names = {
        "mnist_m": ("train", "label_train", "test", "label_test"),
        "synth_digits": ("train_data", "train_label", "test_data", "test_label"),
    }[entry.name]
    x, y, x_test, y_test = variables(path, *names)
    train, test = ((resize(images(a, path), options.size), digits(b)) for a, b in ((x, y), (x_test, y_test)))
    return two_parts(entry, train, test)


def usps(entry: Entry, paths: tuple[Path, ...], options: ReaderOptions) -> Samples:
    """Read ``dataset``, a 2×2 cell of images in [0, 1] (N×1×28×28) and labels for training and test."""
    (cells,) = variables(paths[0], "dataset")
    if cells.shape != (2, 2):
        raise DataError(f"{paths[0]}: 'dataset' has the shape {cells.shape}, but it is a 2×2 cell")
    parts = []
    for x, y in cells:
        grey = np.rint(np.asarray(x, dtype=np.float64).reshape(-1, 28, 28, 1) * 255).clip(0, 255)
        parts.append((resize(images(grey, paths[0]), options.size), digits(np.asarray(y))))
    return two_parts(entry, parts[0], parts[1])
