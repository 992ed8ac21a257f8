"""Data frames and data sets whose items are dicts: which column is the label, and what is the input."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..errors import DataError, suggest

LABELS = ("class", "label", "labels", "target", "targets", "y")  # names that leave no doubt
INPUTS = ("data", "features", "image", "img", "input", "inputs", "pixel_values", "sentence", "text", "x")


def is_frame(x: Any) -> bool:
    """Return whether something is a data frame, such as pandas'."""
    return hasattr(x, "columns") and hasattr(x, "iloc")


def taken(frame: Any, y: Any, group: Any, test: Any) -> tuple[Any, Any, Any, Any]:
    """Return inputs, labels, groups and test rows of a data frame; each of the last three may be a column's name."""
    from .own import numbers

    names = [str(name) for name in frame.columns]
    frame = frame.set_axis(names, axis=1)
    y = label_of(names, y, "column", "frame") if y is None or isinstance(y, str) else y
    used = [name for name in (y, group, test) if isinstance(name, str)]
    for name in used:
        if name not in names:
            raise suggest("column", name, names)
    holes = frame.isna().to_numpy()
    if holes.any():
        row, column = (int(places[0]) for places in holes.nonzero())
        raise DataError(f"row {row} of the frame has no value in the column '{names[column]}'; fill it or leave the row out")
    rest = frame.drop(columns=used)
    words = rest.shape[1] == 1 and rest.iloc[:, 0].map(lambda value: isinstance(value, str)).all()
    x = rest.iloc[:, 0].tolist() if words else numbers(rest)
    y, group = (frame[name].tolist() if isinstance(name, str) else name for name in (y, group))
    return x, y, group, frame[test].to_numpy() if isinstance(test, str) else test


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
