"""The binary version of CIFAR-10 and CIFAR-100."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from ..errors import DataError, suggest
from .entry import Array, Entry, ReaderOptions, two_parts
from .idx import contents
from .images import resize
from .samples import Samples

PIXELS = 3 * 32 * 32
PICKLED = (
    "this is the edition of Python pickles, which can run any code when they are read; "
    "perfed reads the binary version (suitable for C programs)"
)


def records(path: Path, labels: int) -> tuple[Array, Array]:
    """Return labels (N × ``labels``) and images of a file of fixed records."""
    raw = np.frombuffer(contents(path), np.uint8)
    if len(raw) == 0 or len(raw) % (labels + PIXELS):
        raise DataError(f"{path} has {len(raw):,} bytes, which are no whole records of {labels + PIXELS}")
    table = raw.reshape(-1, labels + PIXELS)
    return table[:, :labels], table[:, labels:].reshape(-1, 3, 32, 32)


def read10(entry: Entry, paths: tuple[Path, ...], options: ReaderOptions) -> Samples:
    """Read five training files and the test file, in that order."""
    parts = [records(path, 1) for path in paths]
    x = [resize(torch.from_numpy(images.copy()), options.size) for _, images in parts]
    y = [labels[:, 0] for labels, _ in parts]
    return two_parts(entry, (torch.cat(x[:-1]), np.concatenate(y[:-1])), (x[-1], y[-1]))


def read100(entry: Entry, paths: tuple[Path, ...], options: ReaderOptions) -> Samples:
    """Read the training file, the test file and the names of the 100 fine and 20 coarse classes."""
    if options.labels not in ("fine", "coarse"):
        raise suggest("kind of label", options.labels, ("fine", "coarse"))
    train, test, fine, coarse = paths
    column, source = (1, fine) if options.labels == "fine" else (0, coarse)
    names = tuple(contents(source).decode().split())
    (y, x), (y_test, x_test) = records(train, 2), records(test, 2)
    images = [resize(torch.from_numpy(part.copy()), options.size) for part in (x, x_test)]
    return two_parts(entry, (images[0], y[:, column]), (images[1], y_test[:, column]), names)
