"""Map-style data sets, read item by item: one item is in memory at a time, and what they come to lies where it fits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..errors import DataError, PerfedError
from . import mapped
from .frames import parts


def columns(dataset: Any, label: str | None = None) -> tuple[Any, list[Any]]:
    """Return inputs and labels of a map-style dataset of pairs, or of dicts of which ``label`` names the label."""
    if not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
        kind = type(dataset).__name__
        if hasattr(dataset, "collect"):
            raise DataError(f"a {kind} has not been read yet; give what its collect() returns")
        raise DataError(f"a {kind} has no length or cannot be indexed; give arrays x and y, or a map-style dataset")
    if len(dataset) == 0:
        raise DataError("the dataset is empty")
    labels: list[Any] = []
    texts: list[str] = []
    x: Any = None
    for position in range(len(dataset)):
        value, target = pair(dataset, position, label)
        labels.append(target.tolist() if hasattr(target, "tolist") else target)
        if isinstance(value, str):
            texts.append(value)
            continue
        value = np.asarray(value)
        if x is None:
            x = mapped.empty((len(dataset), *value.shape), value.dtype)
        if value.shape != x.shape[1:]:
            raise DataError(f"item {position} of the dataset has the shape {value.shape}, item 0 has {x.shape[1:]}")
        if value.dtype != x.dtype:
            x = wider(x, value)
        x[position] = value
    if x is not None and texts:
        raise DataError("some items of the dataset are texts and some are not")
    return texts if x is None else x, labels


def pair(dataset: Any, position: int, label: str | None) -> tuple[Any, Any]:
    """Return the input and the label of one item."""
    try:
        item = dataset[position]
        value, target = [item[key] for key in parts(item, label)] if isinstance(item, Mapping) else item[:2]
    except PerfedError:
        raise
    except (TypeError, ValueError, IndexError, KeyError) as wrong:
        raise DataError(f"item {position} of the dataset is not a pair (input, label)") from wrong
    return value, target


def wider(x: Any, value: Any) -> Any:
    """Return an array for numbers of a type that holds both what it has and ``value``."""
    both = np.result_type(x.dtype, value.dtype)
    if both == x.dtype:
        return x
    made = mapped.empty(x.shape, both)
    made[:] = x
    return made
