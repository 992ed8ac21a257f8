"""A table as it was read, and where each of its rows stands, so that an error can name file, column and row."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from ..errors import DataError

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Origin:
    """The files that a table was read from, and the number of each of their rows as a spreadsheet shows it."""

    files: tuple[str, ...] = ("the frame",)
    rows: tuple[Sequence[int], ...] = ()

    def at(self, place: int) -> str:
        """Return file and row of a place in the table."""
        if not self.rows:
            return f"{self.files[0]}: row {place}"
        ends = list(accumulate(map(len, self.rows)))
        file = bisect_right(ends, place)
        return f"{self.files[file]}: row {self.rows[file][place - (ends[file - 1] if file else 0)]}"

    def column(self, name: str) -> str:
        """Return files and column, where no single row is meant."""
        return f"{' and '.join(self.files[:2])}{' and others' if len(self.files) > 2 else ''}: the column '{name}'"

    def wrong(self, place: int, name: str, said: str) -> DataError:
        """Return the error of one cell."""
        return DataError(f"{self.at(place)}, column '{name}': {said}")

    @staticmethod
    def joined(parts: Sequence[Origin]) -> Origin:
        """Return the origin of tables that were put one below the other."""
        return Origin(tuple(f for part in parts for f in part.files), tuple(r for part in parts for r in part.rows))


@dataclass(frozen=True)
class Raw:
    """A table as it was read: every column as numbers without a gap, or as words."""

    columns: Mapping[str, Array | list[str]]
    origin: Origin
    plain: bool = False  # whether every column is what pandas, too, takes for numbers, truths or words without a gap

    @property
    def names(self) -> list[str]:
        return list(self.columns)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))
