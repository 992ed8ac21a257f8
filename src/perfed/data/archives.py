"""Compact npz archives: arrays of a training and a test part, pictures as JPEG bytes, sparse counts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import TracebackType

import numpy as np
import torch
from torch import Tensor

from ..errors import DataError
from . import images
from .entry import Array, Entry, ReaderOptions, chosen, two_parts
from .pixels import pixels
from .portion import order
from .samples import Samples
from .unpacked import BROKEN, refuse_bomb, refuse_header


class Archive:
    """The arrays of an npz file, each read once, never unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            opened = np.load(path, allow_pickle=False)
        except BROKEN as broken:
            raise DataError(f"{path} is no readable npz file ({broken})") from broken
        if not isinstance(opened, np.lib.npyio.NpzFile):
            raise DataError(f"{path} holds a single array, but an npz file with several named ones is needed")
        self.opened = opened

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.opened.close()

    def __contains__(self, key: str) -> bool:
        return key in self.opened.files

    def __getitem__(self, key: str) -> Array:
        if key not in self:
            raise DataError(f"{self.path} has no array '{key}'; it has {', '.join(self.opened.files)}")
        try:
            packed = self.opened.zip
            assert packed is not None  # it is open
            member = key if key in packed.namelist() else f"{key}.npy"
            refuse_bomb(packed, member)
            refuse_header(packed, member)
            found: Array = self.opened[key]
        except DataError as refused:
            raise DataError(f"{self.path}: {refused}") from refused
        except BROKEN as broken:
            why = "it holds Python objects, which are never unpickled" if "pickle" in str(broken) else str(broken)
            raise DataError(f"{self.path}: array '{key}' cannot be read ({why})") from broken
        return found

    def names(self, key: str) -> tuple[str, ...]:
        """Return a list of names, or nothing if there is none."""
        return tuple(str(name) for name in self[key].tolist()) if key in self else ()

    def pictures(self, key: str) -> Tensor:
        """Return images of bytes, channels last or none, as N×C×H×W."""
        x = self[key]
        if x.dtype != np.uint8 or x.ndim not in (3, 4):
            found = f"{x.dtype} with {x.ndim} axes"
            raise DataError(f"{self.path}: '{key}' is {found}, but images are uint8 N×H×W or N×H×W×C")
        return pixels(torch.from_numpy(x)).contiguous()


def arrays(entry: Entry, paths: tuple[Path, ...], options: ReaderOptions) -> Samples:
    """Read ``x_train y_train x_test y_test``."""
    with Archive(paths[0]) as archive:
        parts = [(images.resize(archive.pictures(f"x_{part}"), options.size), archive[f"y_{part}"]) for part in ("train", "test")]
        return two_parts(entry, parts[0], parts[1], archive.names("label_names"))


def optdigits(entry: Entry, paths: tuple[Path, ...], options: ReaderOptions) -> Samples:
    """Read ``x y`` with values 0..16, which become 0..255."""
    with Archive(paths[0]) as archive:
        x, y = archive["x"], archive["y"]
        return Samples(
            images.resize(bright(x), options.size), torch.from_numpy(y.astype(np.int64)), entry.labels, name=entry.name
        )


def bright(x: Array) -> Tensor:
    """Return images of 17 grey levels as bytes: 0 stays 0, 16 becomes 255."""
    if x.min() < 0 or x.max() > 16:
        raise DataError(f"optdigits has values from {x.min()} to {x.max()}, but its grey levels are 0..16")
    return torch.from_numpy((x.astype(np.int64) * 255 + 8) // 16).to(torch.uint8).unsqueeze(1)


def pacs(entry: Entry, paths: tuple[Path, ...], options: ReaderOptions) -> Samples:
    """Read ``jpeg offsets y domain label_names domain_names``; within a domain the order is fixed and mixed."""
    with Archive(paths[0]) as archive:
        names = archive.names("domain_names")
        wanted = chosen(entry, options)
        domain = archive["domain"].astype(np.int64)
        x, kept = images.packed(
            archive["jpeg"], archive["offsets"], str(paths[0]), size=options.size, skip_corrupt=options.skip_corrupt
        )
        whole = Samples(
            x,
            torch.from_numpy(archive["y"].astype(np.int64)[kept]),
            archive.names("label_names"),
            torch.from_numpy(domain[kept]),
            names,
            name=entry.name,
        )
    return only(mixed(whole), wanted)


def mixed(samples: Samples) -> Samples:
    """Return every group's samples in a fixed random order."""
    groups = torch.zeros(len(samples)) if samples.group is None else samples.group
    members = [torch.nonzero(groups == value).flatten() for value in np.unique(groups.numpy()).tolist()]
    return samples.take(torch.cat([positions[order(len(positions))] for positions in members]))


def only(samples: Samples, wanted: tuple[str, ...]) -> Samples:
    """Return the samples of some groups, numbered anew in the order of ``wanted``."""
    if samples.group is None or wanted == samples.groups:
        return samples
    number = torch.tensor([wanted.index(name) if name in wanted else -1 for name in samples.groups])
    new = number[samples.group]
    kept = torch.nonzero(new >= 0).flatten()
    return replace(samples.take(kept), group=new[kept], groups=wanted)


def tiny_imagenet(entry: Entry, paths: tuple[Path, ...], options: ReaderOptions) -> Samples:
    """Read ``jpeg_* offsets_* y_*`` of the training and the official validation part."""
    with Archive(paths[0]) as archive:
        parts = []
        for part in ("train", "val"):
            x, kept = images.packed(
                archive[f"jpeg_{part}"],
                archive[f"offsets_{part}"],
                f"{paths[0]} ({part})",
                size=options.size,
                skip_corrupt=options.skip_corrupt,
            )
            parts.append((x, archive[f"y_{part}"][kept]))
        return two_parts(entry, parts[0], parts[1], archive.names("label_names"))


def amazon(entry: Entry, paths: tuple[Path, ...], options: ReaderOptions) -> Samples:
    """Read a sparse matrix by rows, ``data indices indptr shape``, with ``y domain is_train domain_names``."""
    with Archive(paths[0]) as archive:
        rows, width = (int(size) for size in archive["shape"])
        starts = archive["indptr"].astype(np.int64)
        if len(starts) != rows + 1 or starts[0] != 0 or (np.diff(starts) < 0).any():
            raise DataError(f"{paths[0]}: 'indptr' does not cut the counts into {rows} rows")
        row = np.repeat(np.arange(rows), np.diff(starts))
        x = dense(row, archive["indices"], archive["data"], rows, min(width, options.features), str(paths[0]))
        samples = Samples(
            x,
            torch.from_numpy(archive["y"].astype(np.int64)),
            entry.labels,
            torch.from_numpy(archive["domain"].astype(np.int64)),
            archive.names("domain_names"),
            torch.from_numpy(~archive["is_train"]),
            "features",
            entry.name,
        )
    return only(samples, chosen(entry, options))


def amazon_mdan(entry: Entry, paths: tuple[Path, ...], options: ReaderOptions) -> Samples:
    """Read ``xx_data xx_col xx_row xx_shape yy offset``: the matrix is transposed, domains follow one another."""
    with Archive(paths[0]) as archive:
        width, rows = (int(size) for size in archive["xx_shape"].reshape(-1))
        x = dense(
            archive["xx_col"].reshape(-1),
            archive["xx_row"].reshape(-1),
            archive["xx_data"].reshape(-1),
            rows,
            min(width, options.features),
            str(paths[0]),
        )
        starts = archive["offset"].reshape(-1).astype(np.int64)
        if len(starts) < len(entry.groups) or starts[0] != 0 or (np.diff(starts) < 0).any():
            raise DataError(f"{paths[0]}: 'offset' does not say where the {len(entry.groups)} domains begin")
        domain = np.searchsorted(starts[: len(entry.groups)], np.arange(rows), side="right") - 1
        y = torch.from_numpy((archive["yy"].reshape(-1) > 0).astype(np.int64))
        samples = Samples(
            x, y, entry.labels, torch.from_numpy(domain.astype(np.int64)), entry.groups, None, "features", entry.name
        )
    return only(samples, chosen(entry, options))


def dense(row: Array, column: Array, count: Array, rows: int, width: int, source: str) -> Tensor:
    """Return the first ``width`` columns of a sparse matrix as float32."""
    if not len(row) == len(column) == len(count):
        raise DataError(f"{source}: {len(row)} row indices, {len(column)} column indices and {len(count)} counts")
    if len(row) and (row.max() >= rows or row.min() < 0):
        raise DataError(f"{source}: a row index is outside 0..{rows - 1}")
    x = torch.zeros(rows, width)
    kept = column < width
    x.numpy()[row[kept], column[kept]] = count[kept]
    return x
