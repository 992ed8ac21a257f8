"""Hugging Face data sets: pictures, texts, arrays or tables, as objects or as folders that ``save_to_disk`` wrote."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch

from ..errors import DataError, InputError, extra, suggest
from . import images, mapped
from .entry import Array, ReaderOptions, words
from .frames import label_of, raw_of
from .origin import Origin
from .samples import Samples
from .targets import labelled

TABLE = ("categories", "columns", "drop", "missing", "scale")  # options of tables alone
TESTING, VALIDATION = {"test", "testing"}, {"val", "valid", "validation"}


class HubColumns(NamedTuple):
    """Which columns are what, and how pictures are read."""

    label: str | None = None
    client: str | None = None
    test: str | None = None
    text: str | None = None
    task: str = "classification"
    table: Mapping[str, Any] = MappingProxyType({})  # of tables: drop, categories, missing, scale, columns
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
    table = {name: value for name in TABLE if (value := getattr(options, name)) not in (None, "usual")}
    asked = HubColumns(label, options.client, options.test, options.text, options.task, table)
    return of(found, asked._replace(size=options.size, channels=options.channels, skip_corrupt=options.skip_corrupt), path.name)


def columns_of(found: Any) -> list[str]:
    """Return the names of the columns; those of the splits are the same."""
    one = next(iter(found.values())) if isinstance(found, dict) else found
    if not hasattr(one, "__len__") or not hasattr(one, "column_names"):
        raise DataError(f"a {type(one).__name__} is a stream; save it with save_to_disk, or take a part of it")
    return list(one.column_names)


def of(found: Any, asked: HubColumns, name: str = "own") -> Samples:
    """Return a data set, or its splits as the official parts, as samples."""
    names = columns_of(found)
    labels = labelled(asked.label, asked.task) if asked.label else (label_of(names, None, "column", "data set"),)
    text = asked.text or asked.table.get("text")
    dropped = words("drop", asked.table["drop"]) if "drop" in asked.table else ()
    for column in (*labels, asked.client, asked.test, text, *dropped):
        if column is not None and column not in names:
            raise suggest("column", column, names)
    whole, test = joined(found, asked.test)
    if len(whole) == 0:
        raise DataError("the data set is empty")
    inputs = [text] if text else [n for n in names if n not in (*labels, asked.client, asked.test, *dropped)]
    if is_table(whole, inputs):
        return table(whole, [*labels, *([asked.client] if asked.client else []), *inputs], asked, test, name)
    if useless := set(asked.table) - {"drop", "text"}:
        raise InputError(f"{', '.join(sorted(useless))}: options of tables, and this data set is none")
    x, kept = inputs_of(whole, inputs, asked)
    rows = range(len(whole)) if kept is None else kept
    found_labels = [_whole(whole, column) for column in labels]
    y = found_labels[0] if len(labels) == 1 else list(zip(*found_labels, strict=True))
    owner = whole[asked.client] if asked.client else None
    return Samples.of(
        x,
        [y[row] for row in rows],
        classes=named(whole, labels[0]) if len(labels) == 1 else labels if asked.task == "multilabel" else None,
        group=None if owner is None else [owner[row] for row in rows],
        groups=named(whole, asked.client),
        test=None if test is None else np.asarray(test)[list(rows)],
        name=name,
        task=asked.task,
    )


def is_table(whole: Any, names: list[str]) -> bool:
    """Return whether the inputs are numbers, words, or both: a column of texts alone is none."""
    kinds = {type(whole.features[name]).__name__ for name in names}
    return bool(names) and kinds <= {"Value", "ClassLabel"} and not (len(names) == 1 and _is_text(whole, names[0]))


def table(whole: Any, names: list[str], asked: HubColumns, test: Any, name: str) -> Samples:
    """Return a table with gaps and words in it; numbers that stand for names become these."""
    frame = whole.select_columns(names).with_format(None).to_pandas()
    for column in names:
        if (known := named(whole, column)) is not None:
            frame[column] = [None if value is None or value != value else known[int(value)] for value in frame[column]]
    rest = {option: value for option, value in asked.table.items() if option not in ("drop", "text")}
    raw = raw_of(frame, Origin((f"data set {name}",)))
    made = Samples.of(raw, asked.label or names[0], group=asked.client, test=test, name=name, task=asked.task, **rest)
    return ordered(made, named(whole, names[0]), named(whole, asked.client))


def ordered(samples: Samples, classes: list[str] | None, groups: list[str] | None) -> Samples:
    """Return samples whose classes and groups stand in the order in which the data set names them."""
    if classes is not None and samples.task == "classification":
        places = torch.tensor([classes.index(known) for known in samples.classes])
        samples = replace(samples, y=places[samples.y], classes=tuple(classes))
    if groups is not None and samples.group is not None:
        places = torch.tensor([groups.index(known) for known in samples.groups])
        samples = replace(samples, group=places[samples.group], groups=tuple(groups))
    return samples


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
    if len(pictures) == 1:
        return decoded(whole, pictures[0], asked)
    if len(names) == 1 and not pictures:
        return _whole(whole, names[0]) if _is_text(whole, names[0]) else stacked(whole, names[0]), None
    listed = ", ".join(f"{name} ({kind})" for name, kind in kinds.items()) or "none"
    raise DataError(
        f"besides label and client the data set has {listed}: one picture, one text, one array or a table of numbers and words "
        "are read; name a text with text=, or leave others out with drop="
    )


def _is_text(whole: Any, name: str) -> bool:
    return getattr(whole.features[name], "dtype", "") in ("string", "large_string")


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
