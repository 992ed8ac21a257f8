"""Tables: AG News as csv, and the svmlight files of USPS and Amazon."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import torch

from ..errors import DataError
from .archives import dense, only
from .entry import Array, Entry, ReaderOptions, chosen, two_parts
from .idx import contents
from .images import resize
from .samples import Samples


def rows(path: Path) -> list[list[str]]:
    """Return the rows of a csv file in UTF-8."""
    try:
        found = list(csv.reader(io.StringIO(contents(path).decode("utf-8"), newline="")))
    except (UnicodeDecodeError, csv.Error) as broken:
        raise DataError(f"{path} is no csv file in UTF-8 ({broken})") from broken
    if not found:
        raise DataError(f"{path} is empty")
    return found


def news(path: Path, classes: int) -> tuple[list[int], list[str]]:
    """Return labels and texts: ``class,title,description`` from 1, or with a header ``label,text`` from 0."""
    table = rows(path)
    header = table[0] == ["label", "text"]
    width, first = (2, 0) if header else (3, 1)
    labels, texts = [], []
    for number, row in enumerate(table[1:] if header else table, 2 if header else 1):
        if len(row) != width or not row[0].isdecimal() or not first <= int(row[0]) < first + classes:
            wanted = "label,text" if header else "class,title,description"
            raise DataError(f"{path}: row {number} is not {wanted} with a number from {first} to {first + classes - 1}")
        labels.append(int(row[0]) - first)
        texts.append(" . ".join(row[1:]))
    return labels, texts


def ag_news(entry: Entry, paths: tuple[Path, ...], options: ReaderOptions) -> Samples:
    """Read the training and the test file; the texts stay texts until a vocabulary exists."""
    (y, texts), (y_test, texts_test) = (news(path, entry.classes) for path in paths)
    count = len(y) + len(y_test)
    return Samples(
        torch.zeros(count, 0, dtype=torch.int32),
        torch.tensor(y + y_test),
        entry.labels,
        test=torch.arange(count) >= len(y),
        kind="tokens",
        name=entry.name,
        texts=tuple(texts + texts_test),
    )


def svmlight(path: Path, width: int, first: int) -> tuple[torch.Tensor, Array]:
    """Return ``label index:value …`` lines as a dense matrix and labels; indices count from ``first``."""
    from sklearn.datasets import load_svmlight_file

    try:
        matrix, y = load_svmlight_file(io.BytesIO(contents(path)), zero_based=True)
    except ValueError as broken:
        raise DataError(f"{path} is no svmlight file ({broken})") from broken
    entries = matrix.tocoo()
    if entries.nnz and int(entries.col.min()) < first:
        raise DataError(f"{path}: indices begin with {int(entries.col.min())}, but they count from {first}")
    return dense(entries.row, entries.col - first, entries.data, matrix.shape[0], width, str(path)), y


def usps(entry: Entry, paths: tuple[Path, ...], options: ReaderOptions) -> Samples:
    """Read two files of 16×16 values in [-1, 1], labels 1..10 for the digits 0..9."""
    parts = []
    for path in paths:
        values, y = svmlight(path, 256, 1)
        if float(values.abs().max()) > 1:
            raise DataError(f"{path}: a value is outside [-1, 1]")
        x = ((values.double() + 1) * 127.5).round().to(torch.uint8).view(-1, 1, 16, 16)
        parts.append((resize(x, options.size), y.astype(np.int64) - 1))
    return two_parts(entry, parts[0], parts[1])


def amazon(entry: Entry, paths: tuple[Path, ...], options: ReaderOptions) -> Samples:
    """Read the training and the test file of every domain; labels are -1 and 1."""
    parts = [svmlight(path, options.features, 0) for path in paths]
    sizes = torch.tensor([len(y) for _, y in parts])
    which = torch.repeat_interleave(torch.arange(len(parts)), sizes)
    y = torch.from_numpy((np.concatenate([labels for _, labels in parts]) > 0).astype(np.int64))
    x = torch.cat([values for values, _ in parts])
    whole = Samples(x, y, entry.labels, which // 2, entry.groups, which % 2 == 1, "features", entry.name)
    return only(whole, chosen(entry, options))
