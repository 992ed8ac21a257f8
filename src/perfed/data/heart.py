"""Heart disease in four hospitals, prepared as FLamby's benchmark Fed-Heart-Disease does: 740 patients, 13 numbers each."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import torch

from ..errors import DataError, InputError
from .entry import Array, Entry, ReaderOptions
from .idx import contents
from .samples import Samples
from .sheet import Sheet, SheetColumn

HOSPITALS = ("cleveland", "hungarian", "switzerland", "va")
COLUMNS = ("age", "sex", "cp", "trestbps", "chol", "fbs", "restecg", "thalach", "exang", "oldpeak", "slope", "ca", "thal", "num")
LEFT_OUT = ("slope", "ca", "thal")  # hardly measured outside Cleveland
CODED = ("cp", "restecg")  # categories, each level but the first a column
TRAIN, SEED = 0.66, 43  # FLamby's


def read(entry: Entry, paths: tuple[Path, ...], options: ReaderOptions) -> Samples:
    """Read the four processed files; patients with a gap are left out, each hospital is cut into FLamby's two parts."""
    tables = [measured(path) for path in paths]
    whole = np.concatenate(tables)
    y = (whole[:, -1] > 0).astype(np.int64)
    group = np.repeat(np.arange(len(tables)), [len(table) for table in tables])
    test = np.concatenate([held_out(table[:, -1] > 0) for table in tables])
    names, x = features(whole)
    sheet, ready = None, torch.zeros(len(y), 0)
    if options.standardise is None:
        chosen = "client" if options.scale == "usual" else options.scale
        numbers = (SheetColumn(name, "number", values) for name, values in zip(names, x.T, strict=True))
        sheet = Sheet(tuple(numbers), chosen)  # type: ignore[arg-type]
    else:
        ready = torch.from_numpy(standardised(x, group, test, options.standardise).astype(np.float32))
    return Samples(
        ready,
        torch.from_numpy(y),
        entry.labels,
        torch.from_numpy(group.astype(np.int64)),
        entry.groups,
        torch.from_numpy(test),
        "features",
        entry.name,
        sheet=sheet,
    )


def measured(path: Path) -> Array:
    """Return a hospital's patients without a gap in the columns that are used."""
    kept = [place for place, name in enumerate(COLUMNS) if name not in LEFT_OUT]
    rows = []
    for number, row in enumerate(csv.reader(io.StringIO(contents(path).decode("ascii", "replace"))), 1):
        if not row:
            continue
        if len(row) != len(COLUMNS):
            raise DataError(f"{path}: row {number} has {len(row)} values, not {len(COLUMNS)}")
        try:
            rows.append([np.nan if row[place].strip() == "?" else float(row[place]) for place in kept])
        except ValueError as wrong:
            raise DataError(f"{path}: row {number} holds what is no number ({wrong})") from wrong
    table: Array = np.array(rows)
    return np.asarray(table[~np.isnan(table).any(1)])


def held_out(ill: Array) -> Array:
    """Return which patients of a hospital are FLamby's test part: a third, both classes alike where each has three or more."""
    from sklearn.model_selection import train_test_split

    both = min(int(ill.sum()), int((~ill).sum())) > 2
    _, held = train_test_split(
        np.arange(len(ill)), train_size=TRAIN, test_size=1.0 - TRAIN, random_state=SEED, stratify=ill if both else None
    )
    test = np.zeros(len(ill), dtype=np.bool_)
    test[held] = True
    return test


def features(whole: Array) -> tuple[list[str], Array]:
    """Return the 13 columns in FLamby's order: eight numbers, then the levels of chest pain and of the ECG but their first."""
    used = [name for name in COLUMNS[:-1] if name not in LEFT_OUT]
    names = [name for name in used if name not in CODED]
    columns = [whole[:, used.index(name)] for name in names]
    for name in CODED:
        values = whole[:, used.index(name)]
        for level in np.unique(values)[1:]:
            names.append(f"{name}={level:g}")
            columns.append((values == level).astype(np.float64))
    return names, np.stack(columns, axis=1)


def standardised(x: Array, group: Array, test: Array, how: tuple[str, ...]) -> Array:
    """Return training and test rows less a mean and divided by a deviation: of their hospital's training part, or of all."""
    if len(how) != 2 or not set(how) <= {"hospital", "all"}:
        raise InputError(f"standardise says hospital or all, for training and for test rows: hospital,all, got {','.join(how)}")
    found = np.empty_like(x)
    for part, by in ((~test, how[0]), (test, how[1])):
        for hospital in np.unique(group):
            own = part & (group == hospital)
            base = x[~test] if by == "all" else x[~test & (group == hospital)]
            spread = base.std(axis=0, ddof=1)
            found[own] = (x[own] - base.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return found
