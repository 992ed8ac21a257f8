"""A csv file as columns of words, read strictly: what is not a table is refused with its row."""

from __future__ import annotations

import csv
import io
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError
from .idx import contents
from .origin import Array, Origin, Raw

DELIMITERS = (",", ";", "\t", "|")
MARKS = (("utf-8-sig", b"\xef\xbb\xbf"), ("utf-16", b"\xff\xfe"), ("utf-16", b"\xfe\xff"))


def read(path: Path) -> Raw:
    """Return the table in a csv file: columns of numbers where all of it is clean, else columns of words."""
    text = decoded(path)
    delimiter = separator(text)
    names = header(path, text, delimiter)
    return quick(path, text, delimiter, names) or strict(path, text, delimiter, names)


def decoded(path: Path) -> str:
    """Return a file's text, in UTF-8, or in UTF-16 where it says so itself."""
    raw = contents(path)
    coding = next((name for name, mark in MARKS if raw.startswith(mark)), "utf-8")
    try:
        text = raw.decode(coding)
    except UnicodeDecodeError as broken:
        row = raw[: broken.start].count(b"\n") + 1
        raise DataError(
            f"{path} is no readable csv file: row {row} has bytes that are not UTF-8; save it as 'CSV UTF-8'"
        ) from broken
    if "\0" in text:
        raise DataError(f"{path} is no readable csv file: row {text[: text.index(chr(0))].count(chr(10)) + 1} has a zero byte")
    if not text.strip():
        raise DataError(f"{path} is no readable csv file: it is empty")
    return text


def separator(text: str) -> str:
    """Return what stands between the names of the header: comma, semicolon, tab or bar, whichever occurs most outside quotes."""
    first = next(line for line in text.splitlines() if line.strip())
    bare = re.sub(r'"[^"]*"', "", first)
    return max(DELIMITERS, key=bare.count)


def header(path: Path, text: str, delimiter: str) -> list[str]:
    """Return the names of the columns; a name that occurs twice is refused."""
    first = next(row for row in records(path, text, delimiter) if row)
    names = [" ".join(name.split()) for name in first]
    while names and not names[-1] and len(names) > 1:
        names.pop()  # a delimiter at the end of every line; a column under it is found by its values
    for place, name in enumerate(names, 1):
        if not name:
            raise DataError(f"{path}: column {place} has no name in the header; name it, or take out the column of row numbers")
        if name in names[: place - 1]:
            raise DataError(
                f"{path}: the column '{name}' occurs twice in the header, as number {names.index(name) + 1} and {place}"
            )
    return names


def records(path: Path, text: str, delimiter: str) -> Any:
    """Yield the rows of a csv file, empty ones for blank lines."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True, skipinitialspace=True)
    number = 0
    try:
        for number, row in enumerate(reader, 1):  # noqa: B007
            yield row
    except csv.Error as broken:
        raise DataError(
            f"{path} is no readable csv file: row {number + 1} breaks off or has a stray quote ({broken})"
        ) from broken


def quick(path: Path, text: str, delimiter: str, names: list[str]) -> Raw | None:
    """Return a table that pandas reads without a doubt: as many names as columns, no gap anywhere; None where it is not sure."""
    import pandas as pd

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            frame = pd.read_csv(io.StringIO(text), sep=delimiter, index_col=False, low_memory=False)
    except Exception:  # whatever it is, the strict reader says it better
        return None
    if [str(c) for c in frame.columns] != names or not len(frame):
        return None
    if frame.isna().to_numpy().any():
        return None
    columns: dict[str, Array | list[str]] = {}
    for name in names:
        values = frame[name]
        if values.dtype.kind in "iufb":
            if not (np.abs(values.to_numpy(dtype=np.float64)) <= np.finfo(np.float32).max).all():
                return None
            columns[name] = values.to_numpy()
        elif all(isinstance(value, str) for value in values):
            columns[name] = [" ".join(value.split()) for value in values]
        else:
            return None
    return Raw(columns, Origin((str(path),), (range(2, len(frame) + 2),)), True)


def strict(path: Path, text: str, delimiter: str, names: list[str]) -> Raw:
    """Return a table as words, every row of which has a word for every column; rows without any word are left out."""
    cells: list[list[str]] = []
    numbers: list[int] = []
    begun = False
    for number, row in enumerate(records(path, text, delimiter), 1):
        words = [" ".join(word.split()) for word in row]
        if not begun:
            begun = bool(row)
            continue
        if not any(words):
            continue  # a blank line, or one of delimiters alone
        extra = words[len(names) :]
        if len(words) < len(names) or any(extra):
            raise DataError(
                f"{path}: row {number} has {len(words)} values, but the header names {len(names)} columns{_hint(extra)}"
            )
        cells.append(words[: len(names)])
        numbers.append(number)
    if not cells:
        raise DataError(f"{path} has a header, but no rows")
    columns: dict[str, Array | list[str]] = {
        name: list(column) for name, column in zip(names, zip(*cells, strict=True), strict=True)
    }
    return Raw(columns, Origin((str(path),), (numbers,)))


def _hint(extra: list[str]) -> str:
    return "; a value with a comma in it needs quotes" if any(extra) else ""
