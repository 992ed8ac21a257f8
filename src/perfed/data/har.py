"""Human activity recognition: thirty subjects, nine channels of a smartphone's sensors."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import torch

from ..errors import DataError
from .archives import Archive
from .entry import Array, Entry, ReaderOptions
from .samples import Samples

CHANNELS = tuple(f"{sensor}_{axis}" for sensor in ("body_acc", "body_gyro", "total_acc") for axis in "xyz")
SUBJECTS = 30


def signals(entry: Entry, x: Array, y: Array, subject: Array, test: Array, names: tuple[str, ...], mixed: bool) -> Samples:
    """Return windows N×128×9 as N×9×1×128, one group per subject.

    ``mixed`` only counts the numbers of a window off anew, so that a row holds all nine channels of 14 steps one after another.
    """
    if subject.min() < 1 or subject.max() > SUBJECTS:
        raise DataError(f"har: subjects are numbered {subject.min()} to {subject.max()}, but they are 1..{SUBJECTS}")
    rows = x.reshape(len(x), x.shape[2], x.shape[1]) if mixed else np.swapaxes(x, 1, 2)
    return Samples(
        torch.from_numpy(np.ascontiguousarray(rows[:, :, None, :].astype(np.float32))),
        torch.from_numpy(y.astype(np.int64)),
        names or entry.labels,
        torch.from_numpy(subject.astype(np.int64) - 1),
        tuple(f"subject {number}" for number in range(1, SUBJECTS + 1)),
        torch.from_numpy(test.astype(np.bool_)),
        "signal",
        entry.name,
    )


def compact(entry: Entry, paths: tuple[Path, ...], options: ReaderOptions) -> Samples:
    """Read ``x y subject is_train_subject label_names``."""
    with Archive(paths[0]) as archive:
        x = archive["x"]
        if x.ndim != 3 or x.shape[2] != len(CHANNELS):
            raise DataError(f"{paths[0]}: x has the shape {x.shape}, but windows are N×128×{len(CHANNELS)}")
        test = ~archive["is_train_subject"]
        return signals(entry, x, archive["y"], archive["subject"], test, archive.names("label_names"), options.mixed)


def published(entry: Entry, paths: tuple[Path, ...], options: ReaderOptions) -> Samples:
    """Read the folders ``train`` and ``test`` and ``activity_labels.txt`` of the UCI HAR Dataset."""
    halves = []
    for folder in paths[:2]:
        part = folder.name
        channels = [numbers(folder / "Inertial Signals" / f"{channel}_{part}.txt") for channel in CHANNELS]
        for channel, values in zip(CHANNELS, channels, strict=True):
            if values.shape != channels[0].shape:
                raise DataError(f"{folder}: {channel} is {values.shape}, but {CHANNELS[0]} is {channels[0].shape}")
        y, subject = (numbers(folder / f"{what}_{part}.txt")[:, 0].astype(np.int64) for what in ("y", "subject"))
        if not len(y) == len(subject) == len(channels[0]):
            raise DataError(f"{folder}: {len(channels[0])} windows, {len(y)} labels and {len(subject)} subjects")
        halves.append((np.stack(channels, axis=2), y - 1, subject, np.full(len(y), part == "test")))
    names = tuple(line.split()[1] for line in paths[2].read_text().splitlines() if line.strip())
    x, y, subject, test = (np.concatenate(column) for column in zip(*halves, strict=True))
    return signals(entry, x, y, subject, test, names, options.mixed)


def numbers(path: Path) -> Array:
    """Return a table of numbers between blanks."""
    import pandas as pd

    try:
        table = pd.read_csv(io.BytesIO(path.read_bytes()), sep=r"\s+", header=None, dtype=np.float32)
    except (OSError, ValueError) as broken:
        raise DataError(f"{path} is no table of numbers ({broken})") from broken
    found: Array = table.to_numpy()
    if np.isnan(found).any():
        raise DataError(f"{path}: line {int(np.argwhere(np.isnan(found))[0, 0]) + 1} has fewer numbers than others")
    return found
