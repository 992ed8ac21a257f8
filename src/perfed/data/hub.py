"""Hugging Face data sets: pictures, texts, arrays or tables, as objects or as folders that ``save_to_disk`` wrote."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import DataError, InputError, extra, suggest
from . import images, mapped
from .entry import Array, ReaderOptions
from .frames import label_of
from .samples import Samples

TESTING, VALIDATION = {"test", "testing"}, {"val", "valid", "validation"}


class HubColumns(NamedTuple):
    """Which columns are what, and how pictures are read."""

    label: str | None = None
    client: str | None = None
    test: str | None = None
    text: str | None = None
    size: int | None = None
    channels: int = 3
    skip_corrupt: bool = False


def hub(path: Path, options: ReaderOptions) -> Samples:
    """Read a folder that ``save_to_disk`` wrote, of one split or of several."""
    library = extra("datasets", "huggingface")
    try:
        found = library.load_from_disk(str(path))
    except (OSError, ValueError, KeyError, TypeError) as broken:
        raise DataError(f"{path} is no folder that save_to_disk wrote ({broken})") from broken
    label = None if options.label == "label" and "label" not in columns_of(found) else options.label
    asked = HubColumns(label, options.client, options.test, options.text, options.size, options.channels, options.skip_corrupt)
    return of(found, asked, path.name)


def columns_of(found: Any) -> list[str]:
    """Return the names of the columns; those of the splits are the same."""
    one = next(iter(found.values())) if isinstance(found, dict) else found
    if not hasattr(one, "__len__") or not hasattr(one, "column_names"):
        raise DataError(f"a {type(one).__name__} is a stream; save it with save_to_disk, or take a part of it")
    return list(one.column_names)


def of(found: Any, asked: HubColumns, name: str = "own") -> Samples:
    """Return a data set, or its splits as the official parts, as samples."""
    names = columns_of(found)
    for column in asked[:4]:
        if column is not None and column not in names:
            raise suggest("column", column, names)
    whole, test = joined(found, asked.test)
    if len(whole) == 0:
        raise DataError("the data set is empty")
    label = label_of(names, asked.label, "column", "data set")
    owner = whole[asked.client] if asked.client else None
    inputs = [n for n in names if n not in (label, asked.client, asked.test)]
    x, kept = inputs_of(whole, [asked.text] if asked.text else inputs, asked)
    classes, groups = (named(whole, column) for column in (label, asked.client))
    rows = range(len(whole)) if kept is None else kept
    y = _whole(whole, label)
    return Samples.of(
        x,
        [y[row] for row in rows],
        classes=classes,
        group=None if owner is None else [owner[row] for row in rows],
        groups=groups,
        test=None if test is None else np.asarray(test)[list(rows)],
        name=name,
    )


def joined(found: Any, column: str | None) -> tuple[Any, Any]:
    """Return splits as one, and which samples are the official test part."""
    if not isinstance(found, dict):
        return found, None if column is None else found[column]
    if column is not None:
        raise InputError(f"the data set has splits {', '.join(found)}, so there is no test column to name")
    testing = TESTING if TESTING & {split.lower() for split in found} else VALIDATION
    test = [split.lower() in testing for split in found for _ in range(len(found[split]))]
    whole = extra("datasets", "huggingface").concatenate_datasets(list(found.values()))
    return whole, test if any(test) and not all(test) else None


def named(whole: Any, column: str | None) -> list[str] | None:
    """Return the names that a column's numbers stand for, where it has some."""
    return getattr(whole.features[column], "names", None) if column else None


def inputs_of(whole: Any, names: list[str], asked: HubColumns) -> tuple[Any, list[int] | None]:
    """Return the inputs, and the rows that could be read where some could not."""
    kinds = {name: type(whole.features[name]).__name__ for name in names}
    pictures = [name for name, kind in kinds.items() if kind == "Image"]
    texts = [name for name in names if getattr(whole.features[name], "dtype", "") in ("string", "large_string")]
    scalars = [name for name in names if kinds[name] in ("Value", "ClassLabel") and name not in texts]
    if len(pictures) == 1:
        return decoded(whole, pictures[0], asked)
    if len(names) == 1 and texts:
        return _whole(whole, texts[0]), None
    if len(names) == 1 and not scalars and not pictures:
        return stacked(whole, names[0]), None
    if scalars == names:
        return np.stack([np.asarray(_whole(whole, name), dtype=np.float32) for name in names], axis=1), None
    listed = ", ".join(f"{name} ({kind})" for name, kind in kinds.items()) or "none"
    raise DataError(
        f"besides label and client the data set has {listed}: one picture, one text, one array or numbers alone are read; "
        "name a text with text=, or leave the others out with remove_columns"
    )


def _whole(whole: Any, column: str) -> list[Any]:
    """Return a column's values, of which none is missing."""
    values = list(whole[column])
    hole = next((row for row, value in enumerate(values) if value is None), None)
    if hole is not None:
        raise DataError(f"row {hole} of the data set has no value in the column '{column}'; fill it or leave the row out")
    return values


def decoded(whole: Any, column: str, asked: HubColumns) -> tuple[Any, list[int] | None]:
    """Return pictures, decoded one at a time; a set of grey ones stays grey."""
    stored = whole.cast_column(column, extra("datasets", "huggingface").Image(decode=False))

    def opened(row: int) -> io.BytesIO | Path:
        held = stored[row][column]
        if held is None:
            raise DataError(f"row {row} of the data set has no picture in the column '{column}'")
        return io.BytesIO(held["bytes"]) if held.get("bytes") is not None else Path(held["path"])

    channels = 1 if getattr(whole[0][column], "mode", "RGB") in ("1", "L") else asked.channels
    return images.pictures(
        len(whole),
        opened,
        lambda row: f"picture {row} of the data set",
        size=asked.size,
        channels=channels,
        skip_corrupt=asked.skip_corrupt,
    )


def stacked(whole: Any, column: str) -> Array:
    """Return the arrays of a column as one, read some rows at a time; it lies in a file where it is large."""
    made: Array | None = None
    for start in range(0, len(whole), 1000):
        held = whole[start : start + 1000][column]
        try:
            block = np.asarray(held)
        except ValueError as uneven:
            raise DataError(f"the column '{column}' has lists of different lengths or with gaps") from uneven
        if block.dtype.kind not in "biuf" or (made is not None and block.shape[1:] != made.shape[1:]):
            raise DataError(f"the column '{column}' has lists of different lengths, or something that is no number")
        block = block.astype(np.float32) if block.dtype == np.float64 else block
        made = mapped.empty((len(whole), *block.shape[1:]), block.dtype) if made is None else made
        made[start : start + len(block)] = block
    assert made is not None
    return made
