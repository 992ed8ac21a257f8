"""What is to be predicted, from the columns of a table: a class, several labels, a number, or a time with what happened then."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from ..errors import DataError, InputError
from .cells import MANY, Words, numbers, truths
from .frames import refuse_gaps, told
from .origin import Array, Origin, Raw

TaskKind = Literal["classification", "multilabel", "regression", "survival"]
TASKS = ("classification", "multilabel", "regression", "survival")
WANTED = {  # task: dtype and dimensions of y, and what it looks like
    "classification": (torch.int64, 1, "int64, one per sample"),
    "multilabel": (torch.float32, 2, "float32 N×labels, 1 where a label applies"),
    "regression": (torch.float32, 1, "float32, one number per sample"),
    "survival": (torch.float32, 2, "float32 N×2, a time and 1 where the event was seen"),
}


def target(raw: Raw, label: str, task: str, how: Words) -> tuple[Any, tuple[str, ...] | None]:
    """Return labels and their names: of classes the words themselves, else numbers."""
    names = labelled(label, task)
    refuse_gaps(raw, names)
    if task == "classification":
        found = told(raw.columns[label])
        refuse_classes(found, label, raw.origin)
        return found, None
    columns = [number(raw.columns[name], name, how, raw.origin) for name in names]
    if task == "regression":
        return columns[0], (label,)
    for name, values in zip(names, columns, strict=True):
        if (task == "multilabel" or name == names[1]) and (odd := np.flatnonzero((values != 0) & (values != 1))).size:
            raise raw.origin.wrong(int(odd[0]), name, f"{values[odd[0]]:g} is neither 0 nor 1, nor yes or no")
    if task == "survival" and (odd := np.flatnonzero(columns[0] < 0)).size:
        raise raw.origin.wrong(int(odd[0]), names[0], f"{columns[0][odd[0]]:g} is a time before the start")
    return np.stack(columns, axis=1), names if task == "multilabel" else ("risk",)


def labelled(label: str, task: str) -> tuple[str, ...]:
    """Return the columns that hold what is to be predicted."""
    if task not in TASKS:
        raise InputError(f"task must be one of {', '.join(TASKS)}, got {task!r}")
    names = tuple(name.strip() for name in label.split(",")) if task in ("multilabel", "survival") else (label,)
    if task == "survival" and len(names) != 2:
        raise InputError(
            f"survival needs two columns, the time and whether the event was seen: label=days,died, got label={label}"
        )
    return names


def number(cells: Array | list[str], name: str, how: Words, origin: Origin) -> Array:
    """Return a target as numbers, yes and no as 1 and 0."""
    if not isinstance(cells, list):
        return np.asarray(cells, dtype=np.float64)
    found = numbers(name, cells, how, origin)
    found = truths(cells, how) if found is None else found
    if found is None:
        raise origin.wrong(0, name, f"'{cells[0]}' is no number")
    return found


def refuse_classes(found: Sequence[Any], label: str, origin: Origin) -> None:
    """Refuse classes that differ in capitals alone, and numbers that are no classes."""
    different = sorted({str(value) for value in found})
    folded: dict[str, str] = {}
    for name in different:
        if (other := folded.setdefault(name.casefold(), name)) != name:
            at = next(i for i, value in enumerate(found) if str(value) == name)
            raise origin.wrong(
                at, label, f"'{name}' and '{other}' would be two classes that differ in capitals alone; write them alike"
            )
    if len(different) > max(MANY, len(found) / 2):
        raise DataError(
            f"{origin.column(label)} has {len(different)} different labels in {len(found)} rows, so they are no classes; "
            "task=regression predicts numbers"
        )


def fits(y: Tensor, classes: tuple[str, ...], task: str, name: str) -> None:
    """Refuse labels whose form is not their task's."""
    if task not in TASKS:
        raise InputError(f"task must be one of {', '.join(TASKS)}, got {task!r}")
    dtype, dimensions, wanted = WANTED[task]
    shown = f"{str(y.dtype).removeprefix('torch.')} {'×'.join(str(size) for size in y.shape) or 'scalar'}"
    if y.dtype != dtype or y.dim() != dimensions or (task == "survival" and y.shape[1] != 2):
        raise DataError(f"{name}: y is {shown}, but labels are {wanted}")
    if task == "multilabel" and y.shape[1] != len(classes):
        raise DataError(f"{name}: y is {shown}, but there are {len(classes)} labels")
    if task != "classification" and not bool(torch.isfinite(y).all()):
        raise DataError(f"{name}: a label is not a finite number")
    marks = {"multilabel": y, "survival": y[..., 1:]}.get(task, y[:0])  # what applies or not, was seen or not
    if bool((odd := (marks != 0) & (marks != 1)).any()):
        at = int(odd.flatten(1).any(1).nonzero()[0])
        wrong = float(marks[at][odd[at]][0])
        raise DataError(f"{name}: the {'event' if task == 'survival' else 'label'} of sample {at} is {wrong:g}, neither 0 nor 1")
    if task == "survival" and bool((early := y[:, 0] < 0).any()):
        at = int(early.nonzero()[0])
        raise DataError(f"{name}: the time of sample {at} is {float(y[at, 0]):g}, before the start")


def of_arrays(y: Any, classes: Sequence[str] | None, task: str) -> tuple[Tensor, tuple[str, ...]]:
    """Return the labels of a task other than classification, and their names."""
    values = torch.as_tensor(y.tolist() if isinstance(y, Tensor) else np.asarray(y).tolist(), dtype=torch.float32)
    if classes is not None:
        return values, tuple(str(name) for name in classes)
    if task == "multilabel" and values.dim() == 2:
        return values, tuple(f"label {place}" for place in range(values.shape[1]))
    return values, ("risk",) if task == "survival" else ("value",)
