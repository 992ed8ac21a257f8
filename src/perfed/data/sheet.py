"""A table whose columns are typed but not yet numbers of a network: statistics and levels wait for the training rows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..errors import DataError, suggest
from .cells import NO, YES, Words, level, numbers, plain, refuse_words, styles, truths
from .origin import Array, Origin, Raw

if TYPE_CHECKING:
    from .columns import Columns

ColumnKind = Literal["number", "category", "yes/no"]
Scale = Literal["usual", "client", "federated", "none"]
SCALES = ("usual", "client", "federated", "none")


@dataclass(frozen=True, eq=False)
class SheetColumn:
    """One typed column: numbers with nan for gaps (yes is 1, no is 0), or the places of levels with -1 for gaps."""

    name: str
    kind: ColumnKind
    values: Array
    levels: tuple[str, ...] = ()

    @property
    def gaps(self) -> Array:
        """Which rows have no value."""
        return np.asarray(self.values < 0 if self.kind == "category" else np.isnan(self.values))


@dataclass(frozen=True, eq=False)
class Sheet:
    """The input columns of a table, typed.

    Args:
        columns: in the order of the table.
        scale: how numbers are scaled: by the ``client``'s own training rows, by those of all (``federated``), or not (``none``).
        given: decisions that were made elsewhere, such as at other silos; nothing but a client's own scale is decided then.
    """

    columns: tuple[SheetColumn, ...]
    scale: Scale = "usual"
    given: Columns | None = None

    def __len__(self) -> int:
        return len(self.columns[0].values)

    def take(self, rows: Any) -> Sheet:
        """Return some of the rows."""
        return replace(self, columns=tuple(replace(c, values=c.values[np.asarray(rows)]) for c in self.columns))

    def update(self, total: Any) -> None:
        """Add all that decides inputs to a hash."""
        total.update(f"|sheet {self.scale}|".encode())
        for column in self.columns:
            total.update(f"|{column.kind} {len(column.levels)} {column.name}|{chr(31).join(column.levels)}|".encode())
            total.update(np.ascontiguousarray(column.values).view(np.uint8).data)
        if self.given is not None:
            total.update(hashlib.sha256(repr(self.given).encode()).digest())


def typed(raw: Raw, names: Sequence[str], how: Words, categories: Iterable[str] = ()) -> tuple[SheetColumn, ...]:
    """Return the named columns of a table, each with the kind that its values speak for."""
    forced = set(categories)
    for name in forced - set(names):
        raise suggest("column", name, names)
    return tuple(column(name, raw.columns[name], how, raw.origin, name in forced) for name in names)


def column(name: str, cells: Array | Sequence[str], how: Words, origin: Origin, forced: bool = False) -> SheetColumn:
    """Return one column with its kind: as the numbers that it is already, or as its words speak for."""
    if not isinstance(cells, list):
        values = np.asarray(cells)
        if not forced:
            found = SheetColumn(name, "yes/no" if values.dtype.kind == "b" else "number", _gapped(values, how))
            _refuse_empty(found.gaps, name, origin)
            return found
        cells = ["" if v != v else level(v) for v in values.tolist()]
    there = [i for i, word in enumerate(cells) if not how.gap(word)]
    _refuse_empty(np.array([not there]), name, origin)
    if not forced:
        if (found_numbers := numbers(name, cells, how, origin)) is not None:
            return SheetColumn(name, "number", found_numbers)
        if (said := truths(cells, how)) is not None:
            return SheetColumn(name, "yes/no", said)
        refuse_words(name, cells, there, origin)
    return coded(name, cells, how)


def _gapped(values: Array, how: Words) -> Array:
    values = values.astype(np.float64)
    values[how.gaps(values)] = np.nan
    return values


def _refuse_empty(gaps: Array, name: str, origin: Origin) -> None:
    if gaps.all():
        raise DataError(f"{origin.column(name)} has no value in any row; leave it out with drop={name}")


def coded(name: str, words: Sequence[str], how: Words) -> SheetColumn:
    """Return a category: the sorted levels, and every row's place among them."""
    folded = [None if how.gap(word) else level(word) for word in words]
    levels = sorted({word for word in folded if word is not None})
    places = {word: place for place, word in enumerate(levels)}
    values = np.array([-1 if word is None else places[word] for word in folded], dtype=np.int64)
    return SheetColumn(name, "category", values, tuple(levels))


def as_kind(kind: ColumnKind, name: str, cells: Array | Sequence[str], how: Words, origin: Origin) -> SheetColumn:
    """Return a column as the kind that was decided before; a value that cannot be of it is refused."""
    if kind == "category":
        return column(name, cells, how, origin, forced=True) if _any(cells, how) else SheetColumn(name, kind, _none(cells, -1))
    if not isinstance(cells, list):
        return SheetColumn(name, kind, _gapped(np.asarray(cells), how))
    if not _any(cells, how):
        return SheetColumn(name, kind, _none(cells, np.nan))
    found = truths(cells, how) if kind == "yes/no" else numbers(name, cells, how, origin)
    if found is None and kind == "yes/no":
        found = numbers(name, cells, how, origin)  # 1 and 0, as other programs write them
    if found is None or (kind == "yes/no" and not set(found[~np.isnan(found)]) <= {0.0, 1.0}):
        there = [i for i, word in enumerate(cells) if not how.gap(word)]
        known = YES + NO if kind == "yes/no" else ()
        odd = (i for i in there if cells[i].casefold() not in known and not any(styles([plain(cells[i])], how.decimal).values()))
        place = next(odd, there[0])
        raise origin.wrong(
            place, name, f"'{cells[place]}' is no {'yes or no' if kind == 'yes/no' else 'number'}, which it was in training"
        )
    return SheetColumn(name, kind, found)


def _any(cells: Array | Sequence[str], how: Words) -> bool:
    if isinstance(cells, list):
        return any(not how.gap(word) for word in cells)
    return bool((~how.gaps(np.asarray(cells, dtype=np.float64))).any())


def _none(cells: Array | Sequence[str], gap: float) -> Array:
    return np.full(len(cells), gap, dtype=np.int64 if gap == -1 else np.float64)


def is_plain(columns: Sequence[SheetColumn], raw: Raw) -> bool:
    """Return whether a table is numbers and truths alone, without a gap: then it needs no decision."""
    return raw.plain and all(
        c.kind != "category" and not isinstance(raw.columns[c.name], list) and not c.gaps.any() for c in columns
    )


def whole(columns: Sequence[SheetColumn]) -> Array:
    """Return a table that needs no decision as float32."""
    return np.stack([c.values for c in columns], axis=1).astype(np.float32)


def plain_columns(x: Array) -> tuple[SheetColumn, ...]:
    """Return the columns of a table that needed no decision; their names were not kept."""
    return tuple(SheetColumn(f"column {at + 1}", "number", values.astype(np.float64)) for at, values in enumerate(x.T))
