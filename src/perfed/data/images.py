"""Pictures as uint8 arrays: decoding, resizing, and saying which one is broken."""

from __future__ import annotations

import io
import logging
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import DataError, InputError, extra
from . import mapped

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
CHUNK = 256  # pictures per task
log = logging.getLogger(__name__)


def pictures(
    count: int,
    opened: Callable[[int], io.BytesIO | Path],
    named: Callable[[int], str],
    *,
    size: int | None = None,
    channels: int = 3,
    skip_corrupt: bool = False,
) -> tuple[Tensor, list[int]]:
    """Decode ``count`` pictures into uint8 N×C×H×W; return them and the positions that could be read."""
    if channels not in (1, 3):
        raise InputError(f"channels must be 1 (grey) or 3 (RGB), got {channels}")
    extra("PIL.Image", "images")

    def picture(position: int) -> Bytes | None:
        return decode(opened(position), named(position), size, channels, skip_corrupt)

    first = next((found for found in map(picture, range(count)) if found is not None), None)
    if first is None:
        raise DataError(f"none of the {count} pictures can be read" if count else "there are no pictures")
    x = mapped.empty((count, *first.shape), np.uint8)
    good = np.ones(count, dtype=bool)

    def fill(start: int) -> None:
        for position in range(start, min(start + CHUNK, count)):
            found = picture(position)
            if found is None:
                good[position] = False
            elif found.shape != first.shape:
                (_, h, w), (_, height, width) = found.shape, first.shape
                raise DataError(
                    f"{named(position)} has {w}×{h} pixels, but {named(0)} has {width}×{height}; "
                    f"size={max(width, height)} would resize them all"
                )
            else:
                x[position] = found

    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:  # decoding releases the interpreter lock
        for _ in pool.map(fill, range(0, count, CHUNK)):
            pass
    if not good.all():
        lost = [named(i) for i in np.flatnonzero(~good).tolist()]
        log.warning("left out %d corrupt pictures: %s%s", len(lost), ", ".join(lost[:10]), " …" if lost[10:] else "")
        x = x[good]
    return torch.from_numpy(x), np.flatnonzero(good).tolist()


def decode(source: io.BytesIO | Path, name: str, size: int | None, channels: int, skip: bool) -> Bytes | None:
    """Return one picture as C×H×W, or None if it is corrupt and may be skipped."""
    from PIL import Image

    try:
        with Image.open(source) as image:
            image.load()
            picture = image.convert("RGB" if channels == 3 else "L")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as broken:
        if skip:
            return None
        raise DataError(f"{name} is no readable picture ({broken}); skip_corrupt=true would leave it out") from broken
    if size is not None and picture.size != (size, size):
        picture = picture.resize((size, size), Image.Resampling.BILINEAR)
    array: Bytes = np.asarray(picture, dtype=np.uint8)
    return array[None] if channels == 1 else np.moveaxis(array, 2, 0)


def files(paths: Sequence[Path], *, size: int | None, channels: int = 3, skip_corrupt: bool = False) -> tuple[Tensor, list[int]]:
    """Decode picture files."""
    return pictures(
        len(paths), paths.__getitem__, lambda i: str(paths[i]), size=size, channels=channels, skip_corrupt=skip_corrupt
    )


def packed(
    jpeg: Bytes, offsets: np.ndarray[Any, Any], source: str, *, size: int | None, skip_corrupt: bool = False
) -> tuple[Tensor, list[int]]:
    """Decode pictures that lie one after the other in a byte array, the i-th at ``offsets[i]:offsets[i + 1]``."""
    offsets = offsets.astype(np.int64)
    ordered = offsets.ndim == 1 and len(offsets) > 1 and offsets[0] >= 0 and bool((np.diff(offsets) >= 0).all())
    if not ordered or offsets[-1] > len(jpeg):
        raise DataError(f"{source}: the offsets do not cut the {len(jpeg):,} bytes of pictures in order")

    def opened(position: int) -> io.BytesIO:
        return io.BytesIO(jpeg[offsets[position] : offsets[position + 1]].tobytes())

    return pictures(len(offsets) - 1, opened, lambda i: f"{source}: picture {i}", size=size, skip_corrupt=skip_corrupt)


def resize(x: Tensor, size: int | None) -> Tensor:
    """Return uint8 images N×C×H×W at ``size`` × ``size``, bilinear."""
    if size is None or tuple(x.shape[2:]) == (size, size):
        return x
    image = extra("PIL.Image", "images")
    out = mapped.empty((len(x), x.shape[1], size, size), np.uint8)
    source = x.numpy()
    grey = x.shape[1] == 1
    for position, picture in enumerate(source):
        shown = image.fromarray(picture[0] if grey else np.ascontiguousarray(np.moveaxis(picture, 0, 2)))
        small = np.asarray(shown.resize((size, size), image.Resampling.BILINEAR))
        out[position] = small[None] if grey else np.moveaxis(small, 2, 0)
    return torch.from_numpy(out)


def colour(x: Tensor) -> Tensor:
    """Return grey images with three equal channels; colour ones unchanged."""
    return x.expand(-1, 3, -1, -1).contiguous() if x.shape[1] == 1 else x
