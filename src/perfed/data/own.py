"""The user's own data: folders of pictures, npz archives, csv tables and other libraries' files, one client per silo."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..errors import DataError, InputError, extra, suggest
from . import csvs, images, mapped
from .archives import Archive
from .entry import Array, ReaderOptions, options_of
from .folders import found
from .frames import raw_of
from .hub import hub
from .leaf import leaf
from .origin import Origin, Raw
from .pfllib import pfllib
from .portion import order, portion
from .samples import Samples
from .tabular import TableRoles, made, stacked

TRAINING, TESTING, VALIDATION = {"train", "training"}, {"test", "testing"}, {"val", "valid", "validation"}


def load(scheme: str, path: str, given: Mapping[str, Any]) -> Samples:
    """Return the samples at ``path``, read as ``scheme`` says."""
    if scheme not in SCHEMES:
        raise suggest("source of data", f"{scheme}:", [f"{known}:" for known in SCHEMES])
    read, allowed = SCHEMES[scheme]
    options = options_of(f"{scheme}:", given, allowed)
    place = Path(path).expanduser()
    if not path or not place.exists():
        raise InputError(f"there is nothing at '{path}' to read as {scheme}:PATH")
    return portion(read(place, options), options.fraction)


def folder(path: Path, options: ReaderOptions) -> Samples:
    """Read ``CLASS/picture``, ``CLIENT/CLASS/picture``, either with a level ``train`` and ``test`` above the class."""
    listed = found(path)
    pictures = [listed[i] for i in order(len(listed))]
    if not pictures:
        raise DataError(f"{path} has no pictures (png, jpg, bmp, gif, ppm, tif, webp) in it or below")
    levels = [picture.relative_to(path).parts[:-1] for picture in pictures]
    parts, levels = official(levels)
    depth = len(levels[0])
    odd = next((i for i, level in enumerate(levels) if len(level) != depth), None)
    if odd is not None or depth not in (1, 2):
        wrong = pictures[odd if odd is not None else 0]
        raise DataError(f"{wrong}: pictures lie in CLASS/ or CLIENT/CLASS/, maybe with train/ and test/ above CLASS/")
    x, kept = images.files(pictures, size=options.size, channels=options.channels, skip_corrupt=options.skip_corrupt)
    return Samples.of(
        x,
        [levels[i][-1] for i in kept],
        group=[levels[i][0] for i in kept] if depth == 2 else None,
        test=None if parts is None else parts[kept],
        kind="image",
        name=path.name,
    )


def official(levels: list[tuple[str, ...]]) -> tuple[Array | None, list[tuple[str, ...]]]:
    """Take the level out that says train or test everywhere, and return what it says."""
    known = TRAINING | TESTING | VALIDATION
    for at in range(min(len(level) for level in levels)):
        names = [level[at].lower() for level in levels]
        if set(names) <= known and len(set(names)) > 1:
            # Without a test folder the validation folder is the test part, as in Tiny-ImageNet; else it is training.
            testing = TESTING if TESTING & set(names) else VALIDATION
            return np.array([name in testing for name in names]), [level[:at] + level[at + 1 :] for level in levels]
    return None, levels


def npz(path: Path, options: ReaderOptions) -> Samples:
    """Read one archive, or a folder of archives with one client each."""
    if path.is_dir():
        return silos(path, "npz", lambda file: archive(file, options))
    return archive(path, options)


def archive(path: Path, options: ReaderOptions) -> Samples:
    """Read the arrays of an npz file."""
    with Archive(path) as arrays:
        return named(arrays, options)


def npy(path: Path, options: ReaderOptions) -> Samples:
    """Read a folder of ``.npy`` files, one per array, each seen where it lies: they may be larger than memory."""
    return named(mapped.ArrayFolder(path), options)


def named(arrays: Archive | mapped.ArrayFolder, options: ReaderOptions) -> Samples:
    """Read ``x y`` (maybe ``group groups test classes``), or ``x_train y_train x_test y_test`` (``group_train`` …)."""
    split = "x_train" in arrays

    def column(key: str) -> Any:
        if not split:
            return rows(arrays, key) if key in arrays or key in ("x", "y") else None
        if key == "test":
            return np.repeat([False, True], [len(arrays["y_train"]), len(arrays["y_test"])])
        if f"{key}_train" not in arrays and key not in ("x", "y"):
            return None
        both = [arrays[f"{key}_{part}"] for part in ("train", "test")]
        if both[0].shape[1:] != both[1].shape[1:] or not both[0].ndim == both[1].ndim > 0:
            forms = " and ".join(f"{key}_{part} {each.shape}" for part, each in zip(("train", "test"), both, strict=True))
            raise DataError(f"{arrays.path}: training and test part differ in more than their length: {forms}")
        numbers = key == "x" and all(isinstance(each, np.memmap) and each.dtype.kind in "biuf" for each in both)
        return mapped.joined([mapped.seen(each) for each in both]) if numbers else np.concatenate(both)

    try:
        samples = Samples.of(
            column("x"),
            column("y"),
            classes=arrays.names("classes") or arrays.names("label_names") or None,
            group=column("group"),
            groups=arrays.names("groups") or None,
            test=column("test"),
            name=arrays.path.stem,
            task=options.task,
        )
    except DataError as wrong:
        raise DataError(str(wrong) if str(arrays.path) in str(wrong) else f"{arrays.path}: {wrong}") from wrong
    return sized(samples, options)


def rows(arrays: Archive | mapped.ArrayFolder, key: str) -> Array:
    """Return an array with one row per sample."""
    found = arrays[key]
    if not found.ndim:
        raise DataError(f"{arrays.path}: {key} is a single value, but there is one per sample")
    return found


def sized(samples: Samples, options: ReaderOptions) -> Samples:
    """Return images at the size asked for."""
    if options.size is None:
        return samples
    if samples.kind != "image":
        raise InputError(f"size={options.size} resizes images, but {samples.name} holds {samples.kind}")
    return replace(samples, x=images.resize(samples.x, options.size))


def csv(path: Path, options: ReaderOptions) -> Samples:
    """Read one csv table with a header, or a folder of tables with one client each."""
    return table(path, options, "csv", csvs.read)


def parquet(path: Path, options: ReaderOptions) -> Samples:
    """Read one Parquet table, or a folder of tables with one client each."""
    return table(path, options, "parquet", lambda file: frame(file, "parquet"))


def frame(path: Path, extra_name: str) -> Raw:
    """Return the table in a Parquet file."""
    reader = extra("pyarrow.parquet", extra_name)
    try:
        found = reader.read_table(path).to_pandas()
    except (OSError, ValueError) as broken:
        raise DataError(f"{path} is no readable Parquet file ({str(broken).splitlines()[0]})") from broken
    return raw_of(found, Origin((str(path),), (range(1, len(found) + 1),)))


def table(path: Path, options: ReaderOptions, suffix: str, read: Callable[[Path], Raw]) -> Samples:
    """Return a table as samples: label, maybe client and test columns, and inputs that are numbers, categories, yes or no."""
    roles = TableRoles.of(options)
    if not path.is_dir():
        return made(read(path), roles, path.stem)
    if options.client:
        raise InputError(f"{path} is a folder with one table per client, so there is no client column to name")
    files = listed(path, suffix)
    whole, owner = stacked([read(file) for file in files])
    found = made(whole, roles, path.name)
    names = sorted(found.classes, key=ordered)
    labels = torch.tensor([names.index(name) for name in found.classes])[found.y] if found.task == "classification" else found.y
    classes = tuple(names) if found.task == "classification" else found.classes
    groups = tuple(file.stem for file in files)
    return replace(found, y=labels, classes=classes, group=torch.from_numpy(owner), groups=groups)


def listed(path: Path, suffix: str) -> list[Path]:
    """Return the files of a folder, one per client."""
    files = sorted(file for file in path.iterdir() if file.suffix == f".{suffix}")
    if not files:
        raise DataError(f"{path} has no .{suffix} files")
    return files


def silos(path: Path, suffix: str, read: Callable[[Path], Samples]) -> Samples:
    """Return the files of a folder as one set, a group for each; labels are matched by name."""
    files = listed(path, suffix)
    parts = [read(file) for file in files]
    for file, part in zip(files, parts, strict=True):
        if (part.kind, part.shape) != (parts[0].kind, parts[0].shape):
            first = f"{files[0]} holds {parts[0].kind} {parts[0].shape}"
            raise DataError(f"{file} holds {part.kind} {part.shape}, but {first}")
    names, labels = list(parts[0].classes), [part.y for part in parts]
    if parts[0].task == "classification":
        names = sorted({name for part in parts for name in part.classes}, key=ordered)
        labels = [torch.tensor([names.index(name) for name in part.classes])[part.y] for part in parts]
    elif wrong := next((file for file, part in zip(files, parts, strict=True) if part.classes != parts[0].classes), None):
        raise DataError(f"{wrong} has other labels than {files[0]}")
    split = all(part.test is not None for part in parts)
    texts = None if parts[0].texts is None else tuple(text for part in parts for text in part.texts or ())
    return Samples(
        mapped.joined([part.x for part in parts]),
        torch.cat(labels),
        tuple(names),
        torch.cat([torch.full((len(part),), number) for number, part in enumerate(parts)]),
        tuple(file.stem for file in files),
        torch.cat([part.test for part in parts if part.test is not None]) if split else None,
        parts[0].kind,
        path.name,
        texts,
        task=parts[0].task,
    )


def ordered(name: str) -> tuple[int, float, str]:
    """Return a key that sorts numbers by value before words."""
    try:
        return (0, float(name), name)
    except ValueError:
        return (1, 0.0, name)


SCHEMES: dict[str, tuple[Callable[[Path, ReaderOptions], Samples], tuple[str, ...]]] = {
    "csv": (
        csv,
        ("categories", "client", "columns", "decimal", "drop", "label", "missing", "scale", "task", "test", "text"),
    ),
    "folder": (folder, ("channels", "size", "skip_corrupt")),
    "hf": (
        hub,
        (
            "categories",
            "channels",
            "client",
            "columns",
            "drop",
            "label",
            "missing",
            "scale",
            "size",
            "skip_corrupt",
            "task",
            "test",
            "text",
        ),
    ),
    "leaf": (leaf, ()),
    "npy": (npy, ("size", "task")),
    "npz": (npz, ("size", "task")),
    "parquet": (parquet, ("categories", "client", "columns", "drop", "label", "missing", "scale", "task", "test", "text")),
    "pfllib": (pfllib, ()),
}
