"""Data frames and data sets whose items are dicts: which column is the label, and what is the input."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from ..errors import DataError, extra, suggest
from .origin import Array, Origin, Raw

LABELS = ("class", "label", "labels", "target", "targets", "y")  # names that leave no doubt
INPUTS = ("data", "features", "image", "img", "input", "inputs", "pixel_values", "sentence", "text", "x")


def is_frame(x: Any) -> bool:
    """Return whether something is a table: a data frame (pandas', Arrow's, or one with the interchange) or a dict of columns."""
    frame = any(hasattr(x, name) for name in ("iloc", "__dataframe__", "__arrow_c_stream__")) and hasattr(x, "columns")
    return frame or isinstance(x, Mapping | Raw)


def as_pandas(frame: Any) -> Any:
    """Return any data frame as pandas'."""
    if hasattr(frame, "iloc"):
        return frame
    if hasattr(frame, "__arrow_c_stream__"):
        return extra("pyarrow", "parquet").table(frame).to_pandas()
    import pandas as pd

    return pd.api.interchange.from_dataframe(frame)


def raw_of(table: Any, origin: Origin | None = None) -> Raw:
    """Return a data frame, a mapping of columns or a list of dicts as a table: columns of numbers, or else of words."""
    import pandas as pd

    if isinstance(table, Raw):
        return table
    rows = isinstance(table, Sequence) and all(isinstance(row, Mapping) for row in table)
    if rows or isinstance(table, Mapping):
        try:
            frame = pd.DataFrame(table)
        except (TypeError, ValueError) as wrong:
            raise DataError(f"this is no table with a value per row in every column ({wrong})") from wrong
    elif is_frame(table):
        frame = as_pandas(table)
    else:
        raise DataError(f"a table is a data frame, a mapping of columns or a list of dicts, got a {type(table).__name__}")
    names = [str(name) for name in frame.columns]
    twice = next((name for name in names if names.count(name) > 1), None)
    origin = origin or Origin()
    if twice is not None:
        raise DataError(f"{origin.files[0]} has the column '{twice}' twice")
    if not len(frame):
        raise DataError(f"{origin.files[0]} has no rows")
    columns = {name: _cells(name, frame.iloc[:, at], origin) for at, name in enumerate(names)}
    return Raw(columns, origin, True)


def _cells(name: str, values: Any, origin: Origin) -> Array | list[str]:
    """Return a frame's column as numbers with nan for gaps, or as words with empty ones for gaps."""
    if values.dtype.kind in "iufb" and not hasattr(values.dtype, "na_value"):
        found = values.to_numpy()
        infinite = np.flatnonzero(np.isinf(found)).tolist() if found.dtype.kind == "f" else []
        if infinite:
            raise origin.wrong(infinite[0], name, "it holds an infinite number")
        return np.asarray(found)
    gaps = values.isna().to_numpy()
    cells = ["" if gap else _number(value) for gap, value in zip(gaps, values.tolist(), strict=True)]
    there = [value for value in cells if not isinstance(value, str)]
    if values.dtype.kind in "mM" or any(hasattr(value, "isoformat") or hasattr(value, "total_seconds") for value in there):
        place = int(np.flatnonzero(~gaps)[0]) if not gaps.all() else 0
        advice = f"turn dates into numbers, such as days since admission, or leave the column out with drop={name}"
        raise origin.wrong(place, name, f"{cells[place]} is a date or a time; {advice}")
    odd = next((i for i, value in enumerate(cells) if not isinstance(value, str | int | float | bool | np.generic)), None)
    if odd is not None:
        raise origin.wrong(odd, name, f"it holds a {type(cells[odd]).__name__}, which is no number and no word")
    if there and len(there) == int((~gaps).sum()) and not any(isinstance(value, bool | np.bool_) for value in there):
        return np.array([np.nan if gap else float(value) for gap, value in zip(gaps, cells, strict=True)])
    return [" ".join(str(value).split()) for value in cells]


def _number(value: Any) -> Any:
    """Return the decimals of data bases as numbers, everything else as it is."""
    return float(value) if isinstance(value, Decimal) else value


def refuse_gaps(raw: Raw, names: Iterable[str]) -> None:
    """Refuse rows without a value in a column that must have one everywhere: label, client, test."""
    from .cells import GAPS

    for name in names:
        cells = raw.columns[name]
        if isinstance(cells, list):
            empty = [i for i, word in enumerate(cells) if word.casefold() in GAPS]
        else:
            empty = np.flatnonzero(np.isnan(cells) if cells.dtype.kind == "f" else []).tolist()
        if empty:
            raise DataError(f"{raw.origin.at(empty[0])} has no value in the column '{name}'; fill it or leave the row out")


def told(cells: Array | list[str]) -> list[Any]:
    """Return labels or names of clients: whole numbers where all words are, truths where they say true or false, else words."""
    if not isinstance(cells, list):
        return list(cells.tolist())
    if {word.casefold() for word in cells} <= {"true", "false"}:
        return [word.casefold() == "true" for word in cells]
    try:
        values = [float(word) for word in cells]
    except ValueError:
        return cells
    return [int(value) for value in values] if all(value.is_integer() for value in values) else values


def parts(item: Mapping[str, Any], label: str | None) -> tuple[str, str]:
    """Return the keys of the input and of the label in an item that is a dict."""
    names = [str(name) for name in item]
    label = label_of(names, label, "key", "dataset")
    others = [name for name in names if name != label]
    clear = [name for name in others if name in INPUTS]
    if len(others) != 1 and len(clear) != 1:
        raise DataError(
            f"items of the dataset have the keys {', '.join(names)}: it is not clear which of {', '.join(others) or 'them'} "
            "is the input; give arrays, as in Samples.of(data['image'], data['label'])"
        )
    return (others if len(others) == 1 else clear)[0], label


def label_of(names: Iterable[str], asked: str | None, what: str, whole: str) -> str:
    """Return which column or key is the label: the one asked for, or the only one whose name leaves no doubt."""
    known = list(names)
    if asked is not None:
        if asked not in known:
            raise suggest(what, asked, known)
        return asked
    clear = [name for name in known if name.lower() in LABELS]
    if len(clear) != 1:
        raise DataError(
            f"say which {what} is the label, as in Samples.of({whole}, '{known[-1] if known else 'label'}'); "
            f"there are {', '.join(known)}"
        )
    return clear[0]
