"""From a table to samples: which columns are labels, clients and test rows, which are inputs, and what these are."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import DataError, InputError, suggest
from .cells import Words
from .columns import Columns, refuse_scale
from .entry import options_of
from .frames import label_of, raw_of, refuse_gaps, told
from .origin import Array, Origin, Raw
from .sheet import Scale, Sheet, is_plain, typed, whole
from .targets import labelled, target

if TYPE_CHECKING:
    from .samples import Samples


FRAME = ("categories", "columns", "drop", "missing", "scale", "task", "text")  # options of a table that is no file


@dataclass(frozen=True, kw_only=True)
class TableRoles:
    """What the columns of a table are for, and how its words are read."""

    label: str
    client: str | None = None
    test: str | None = None
    text: str | None = None
    task: str = "classification"
    drop: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    scale: Scale = "usual"
    how: Words = Words()
    given: Columns | None = None

    @staticmethod
    def of(options: Any) -> TableRoles:
        """Return what a reader's options say."""
        missing = None if options.missing is None else tuple(word.casefold() for word in options.missing)
        if options.decimal not in (None, ".", ","):
            raise InputError(f"decimal must be . or , got '{options.decimal}'")
        return TableRoles(
            label=options.label,
            client=options.client,
            test=options.test,
            text=options.text,
            task=options.task,
            drop=options.drop or (),
            categories=options.categories or (),
            scale=refuse_scale(options.scale),
            how=Words(missing, options.decimal),
            given=None if options.columns is None else saved(Path(options.columns)),
        )

    @property
    def special(self) -> list[str]:
        """The columns that are no inputs."""
        named = [name for name in (self.client, self.test, self.text) if name is not None]
        return [*labelled(self.label, self.task), *named, *self.drop]


def saved(path: Path) -> Columns:
    """Return decisions that were written to a file."""
    try:
        found = json.loads(path.expanduser().read_text("utf-8"))
    except (OSError, ValueError) as wrong:
        raise InputError(f"cannot read decisions for columns from '{path}': {wrong}") from wrong
    return Columns.of_json(found["columns"][0] if isinstance(found, dict) and found.get("columns") else found)


def made(raw: Raw, roles: TableRoles, name: str, group: Sequence[Any] | None = None) -> Samples:
    """Return a table as samples; ``group`` are the clients where no column says them."""
    from .samples import Samples

    file = raw.origin.files[0]
    for wanted in (*roles.special, *roles.categories):
        if wanted not in raw.columns:
            raise DataError(f"{file} has no column '{wanted}'; it has {', '.join(raw.names)}")
    owners = [column for column in (roles.client, roles.test) if column is not None]
    refuse_gaps(raw, owners)
    y, classes = target(raw, roles.label, roles.task, roles.how)
    x, kind = inputs(raw, roles)
    group = told(raw.columns[roles.client]) if roles.client else group
    test = tested(raw, roles.test) if roles.test else None
    try:
        return Samples.of(x, y, classes=classes, group=group, test=test, kind=kind, name=name, task=roles.task)
    except DataError as wrong:
        raise DataError(f"{file}: {wrong}") from wrong


def inputs(raw: Raw, roles: TableRoles) -> tuple[Any, str | None]:
    """Return a column of texts, a matrix where nothing is to be decided, or a sheet; and the kind of samples."""
    if roles.text:
        refuse_gaps(raw, [roles.text])
        return [str(word) for word in told_words(raw.columns[roles.text])], None
    names = [column for column in raw.names if column not in roles.special]
    if not names:
        raise DataError(
            f"{raw.origin.files[0]}: there is no column besides label, client and test; name a text column with text="
        )
    if roles.given is not None:
        sheet = roles.given.sheet(raw, roles.how)
        return Sheet(sheet.columns, roles.scale, roles.given), "features"
    columns = typed(raw, names, roles.how, roles.categories)
    if roles.scale in ("usual", "none") and is_plain(columns, raw):
        return whole(columns), "features"
    return Sheet(columns, roles.scale), "features"


def told_words(cells: Array | list[str]) -> list[Any]:
    """Return a column of texts as it stands."""
    return cells if isinstance(cells, list) else list(cells.tolist())


def tested(raw: Raw, name: str) -> Array:
    """Return the column that says which rows are test rows."""
    values = np.asarray(told(raw.columns[name]))
    for place, value in enumerate(values.tolist()):
        if value not in (0, 1):
            raise raw.origin.wrong(place, name, f"'{value}' says neither test (1) nor training (0)")
    return values.astype(bool)


def stacked(parts: Sequence[Raw]) -> tuple[Raw, Array]:
    """Return tables one below the other, columns matched by name, and which table each row is of."""
    first = parts[0]
    for part in parts[1:]:
        for name in (*first.names, *part.names):
            if (name in first.columns) != (name in part.columns):
                lacks, has = (part, first) if name in first.columns else (first, part)
                raise DataError(
                    f"{lacks.origin.files[0]} has no column '{name}', which {has.origin.files[0]} has; all clients need it"
                )
    columns: dict[str, Array | list[str]] = {}
    for name in first.names:
        own = [part.columns[name] for part in parts]
        arrays = [cells for cells in own if not isinstance(cells, list)]
        columns[name] = np.concatenate(arrays) if len(arrays) == len(own) else [w for cells in own for w in worded(cells)]
    plain = all(part.plain for part in parts)
    return Raw(columns, Origin.joined([part.origin for part in parts]), plain), np.repeat(
        np.arange(len(parts)), [*map(len, parts)]
    )


def worded(cells: Array | list[str]) -> list[str]:
    """Return numbers as words, beside a table in which the same column has words."""
    if isinstance(cells, list):
        return cells
    if cells.dtype.kind == "f":
        return ["" if value != value else repr(value).removesuffix(".0") for value in cells.tolist()]
    return [str(value) for value in cells.tolist()]


def of_frame(frame: Any, y: Any, group: Any, test: Any, options: Mapping[str, Any]) -> tuple[Any, Any, Any, Any, Any, str | None]:
    """Return inputs, labels, their names, groups, test rows and the kind of samples of a data frame.

    Each of ``y``, ``group`` and ``test`` may be a column's name.
    """
    raw = raw_of(frame)
    roles = TableRoles.of(options_of("data frame", options, FRAME))
    label = y if isinstance(y, str) else label_of(raw.names, None, "column", "frame") if y is None else None
    columns = [
        *(() if label is None else labelled(label, roles.task)),
        *(name for name in (group, test) if isinstance(name, str)),
    ]
    for name in (*columns, *roles.drop, *([roles.text] if roles.text else [])):
        if name not in raw.columns:
            raise suggest("column", name, raw.names)
    refuse_gaps(raw, columns)
    classes: Iterable[str] | None = None
    if label is not None:
        y, classes = target(raw, label, roles.task, roles.how)
    left = {name: cells for name, cells in raw.columns.items() if name not in (*columns, *roles.drop)}
    if len(left) == 1 and isinstance(left[only := next(iter(left))], list) and not roles.categories and roles.given is None:
        roles = replace(roles, text=only)  # a column of words alone is texts
    x, kind = inputs(Raw(left, raw.origin, raw.plain), replace(roles, label="", drop=(), task="classification"))
    return x, y, classes, _told(raw, group), _tested(raw, test), kind


def _told(raw: Raw, group: Any) -> Any:
    return told(raw.columns[group]) if isinstance(group, str) else group


def _tested(raw: Raw, test: Any) -> Any:
    return tested(raw, test) if isinstance(test, str) else test
