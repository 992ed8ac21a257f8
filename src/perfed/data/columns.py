"""What was decided for every column of a table: kind, levels, what fills a gap, mean and scale; and rows coded by it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..errors import DataError, InputError
from .cells import Words
from .frames import raw_of
from .sheet import Scale, Sheet, SheetColumn, as_kind

if TYPE_CHECKING:
    from .samples import Samples
    from .sheet import ColumnKind

Array = np.ndarray[Any, Any]
OTHER = "other"  # what a level is called that training rows had less than twice
LEAST = 2  # training rows of a level that has a feature of its own: one row alone would teach nothing and betray somebody


@dataclass(frozen=True, kw_only=True)
class Decided:
    """What was decided for one column, from training rows alone."""

    name: str
    kind: ColumnKind
    levels: tuple[str, ...] = ()  # of a category, those with a feature of their own
    other: bool = False  # whether training rows had levels besides; if not, another level is all zeros
    gaps: bool = False  # whether training rows had gaps, so that a feature says where
    fill: float = 0.0  # what a gap is taken for
    mean: float = 0.0  # is taken off
    scale: float = 1.0  # is divided by

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the numbers that it becomes."""
        own = [f"{self.name}={level}" for level in (*self.levels, *([OTHER] if self.other else []))]
        return (*(own if self.kind == "category" else [self.name]), *([f"{self.name} missing"] if self.gaps else []))

    def said(self) -> str:
        """What was decided, in a few words."""
        if self.kind == "category":
            gap = "; a gap has a feature of its own" if self.gaps else ""
        else:
            gap = f"; a gap is {self.fill:.4g}{' and has a feature of its own' if self.gaps else ''}"
        if self.kind == "category":
            known = ", ".join((*self.levels[:8], *(["…"] if len(self.levels) > 8 else [])))
            return f"{len(self.levels)} levels: {known}; others are {OTHER if self.other else 'all zeros'}{gap}"
        if self.kind == "yes/no":
            return f"yes is 1, no is 0{gap}"
        scaled = (self.mean, self.scale) != (0.0, 1.0)
        return (f"minus {self.mean:.4g}, divided by {self.scale:.4g}" if scaled else "as it is") + gap


@dataclass(frozen=True)
class Columns:
    """The decisions for a table's input columns, as a value that goes through JSON: what one client's model is fed with.

    Args:
        columns: one decision per column, in the order of the features.

    Example:
        >>> from perfed.data.columns import Columns
        >>> found = Columns.fit({"age": [40, 60, None, 50], "sex": ["f", "m", "f", "m"]})
        >>> found.names
        ('age', 'age missing', 'sex=f', 'sex=m')
        >>> found.rows({"age": [None], "sex": ["x"]}).tolist()  # the mean of the training rows, and no known level
        [[0.0, 1.0, 0.0, 0.0]]
        >>> Columns.of_json(found.as_json()) == found
        True
    """

    columns: tuple[Decided, ...]

    @staticmethod
    def fit(table: Any, clients: Sequence[Any] | None = None, scale: Scale = "federated") -> Columns:
        """Decide for a table.

        Args:
            table: a data frame, a mapping of columns, a list of dicts, or a `Sheet`.
            clients: for every client the rows that it trains on; by default all rows are one client's.
            scale: ``federated`` over all clients' training rows, or ``none``; for ``client`` see `fitted`.

        Returns:
            The decisions, which only sums over training rows went into.
        """
        sheet = table if isinstance(table, Sheet) else _sheet(table)
        own = [np.arange(len(sheet))] if clients is None else list(clients)
        return agreed([ColumnSums.of(sheet.take(rows)) for rows in own], scale)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features, in order."""
        return tuple(name for column in self.columns for name in column.features)

    def rows(self, table: Any, missing: Sequence[str] | None = None, decimal: str | None = None) -> Array:
        """Return rows as a network takes them: float32, a column per feature.

        Args:
            table: a data frame, a mapping of columns, a list of dicts, or a `Sheet`; columns that are not inputs are left aside.
            missing: words that stand for no value, instead of the usual ones.
            decimal: ``.`` or ``,``, where the numbers leave it open.

        Returns:
            The features of every row.

        Raises:
            DataError: a column is missing, or holds what it cannot hold; file, column and row are named.
        """
        how = Words(None if missing is None else tuple(word.casefold() for word in missing), decimal)
        sheet = table if isinstance(table, Sheet) else self.sheet(raw_of(table), how)
        known = {column.name: column for column in sheet.columns}
        parts = [_coded(decided, known[decided.name]) for decided in self.columns]
        return np.concatenate(parts, axis=1).astype(np.float32)

    def sheet(self, raw: Any, how: Words) -> Sheet:
        """Return a table with the kinds that were decided before."""
        for column in self.columns:
            if column.name not in raw.columns:
                raise DataError(f"{raw.origin.files[0]} has no column '{column.name}'; it has {', '.join(raw.columns)}")
        typed = (as_kind(c.kind, c.name, raw.columns[c.name], how, raw.origin) for c in self.columns)
        return Sheet(tuple(typed), given=self)

    def as_json(self) -> list[dict[str, Any]]:
        """Return plain values, one mapping per column; what is at its default is left out."""
        usual = {f.name: f.default for f in fields(Decided)}
        plain = (asdict(c) for c in self.columns)
        return [{k: list(v) if isinstance(v, tuple) else v for k, v in c.items() if v != usual[k]} for c in plain]

    @staticmethod
    def of_json(found: Any) -> Columns:
        """Return the decisions in plain values."""
        try:
            return Columns(tuple(Decided(**{**c, "levels": tuple(c.get("levels", ()))}) for c in found))
        except (TypeError, AttributeError) as wrong:
            raise DataError(f"these are no decisions for columns: {wrong}") from wrong


@dataclass(frozen=True)
class ColumnSums:
    """What leaves a client so that columns can be agreed on: counts, means and sums of squares, never a row."""

    columns: tuple[dict[str, Any], ...]

    @staticmethod
    def of(sheet: Sheet) -> ColumnSums:
        """Return the sums over a client's training rows."""
        return ColumnSums(tuple(_sums(column) for column in sheet.columns))


def _sums(column: SheetColumn) -> dict[str, Any]:
    there = column.values[~column.gaps]
    found = {"name": column.name, "kind": column.kind, "count": len(there), "gaps": int(column.gaps.sum())}
    if column.kind == "category":
        counts = np.bincount(there, minlength=len(column.levels)).tolist()
        return found | {"levels": {level: n for level, n in zip(column.levels, counts, strict=True) if n}}
    mean = float(there.mean()) if len(there) else 0.0
    return found | {"mean": mean, "squares": float(((there - mean) ** 2).sum())}


def agreed(clients: Sequence[ColumnSums], scale: Scale = "federated") -> Columns:
    """Return the decisions of several clients together, from their sums alone."""
    return Columns(tuple(_decided(parts, scale) for parts in zip(*(own.columns for own in clients), strict=True)))


def _decided(parts: Sequence[Mapping[str, Any]], scale: Scale) -> Decided:
    first = parts[0]
    for part in parts:
        mine, theirs = ((p["name"], p["kind"]) for p in (first, part))
        if mine != theirs:
            raise DataError(
                f"clients disagree on a column: '{mine[0]}' is {mine[1]} at one, '{theirs[0]}' is {theirs[1]} at another"
            )
    found = Decided(name=first["name"], kind=first["kind"], gaps=any(part["gaps"] for part in parts))
    if found.kind == "category":
        counts: dict[str, int] = {}
        for part in parts:
            for level, n in part["levels"].items():
                counts[level] = counts.get(level, 0) + n
        kept = tuple(sorted(level for level, n in counts.items() if n >= LEAST))
        return replace(found, levels=kept, other=len(kept) < len(counts))
    total = sum(part["count"] for part in parts)
    mean = sum(part["count"] * part["mean"] for part in parts) / max(total, 1)
    found = replace(found, fill=mean)
    if found.kind == "yes/no" or scale == "none":
        return found
    squares = sum(part["squares"] + part["count"] * (part["mean"] - mean) ** 2 for part in parts)
    spread = float(np.sqrt(squares / max(total - 1, 1)))
    return replace(found, mean=mean, scale=spread if spread > 1e-12 * max(abs(mean), 1.0) else 1.0)


def fitted(sheet: Sheet, train: Sequence[Any], out: Sequence[int] = ()) -> tuple[Columns, ...]:
    """Return every client's decisions: the same for all, but for the scale where it is each client's own.

    Clients that are kept ``out`` of training decide nothing for the others.
    """
    scale: Scale = "federated" if sheet.scale == "usual" else sheet.scale
    seen = [rows for place, rows in enumerate(train) if place not in out]
    common = sheet.given or Columns.fit(sheet, seen, "none" if scale == "client" else scale)
    if scale != "client":
        return (common,) * len(train)
    return tuple(own_scale(common, ColumnSums.of(sheet.take(rows))) for rows in train)


def own_scale(common: Columns, sums: ColumnSums) -> Columns:
    """Return common decisions with the scale, and what fills gaps, of one client's own training rows."""
    own = [_decided([part], "client") for part in sums.columns]
    pairs = zip(common.columns, own, sums.columns, strict=True)
    return Columns(
        tuple(
            replace(c, fill=o.fill, mean=o.mean, scale=o.scale) if c.kind == "number" and part["count"] else c
            for c, o, part in pairs
        )
    )


def laid(samples: Samples, split: Any, columns: Sequence[Columns]) -> tuple[Samples, Any]:
    """Return samples with numbers for their sheet, and the split; clients that code rows their own way have copies of them."""
    assert samples.sheet is not None
    if all(own is columns[0] for own in columns):
        return replace(samples, x=torch.from_numpy(columns[0].rows(samples.sheet)), sheet=None), split
    parts = [(split.train[i], split.validation[i], split.test[i]) for i in range(len(columns))]
    places = [np.concatenate(own) for own in parts]
    coded = [own.rows(samples.sheet.take(rows)) for own, rows in zip(columns, places, strict=True)]
    x = torch.from_numpy(np.concatenate(coded))
    told = replace(replace(samples, sheet=None, x=samples.x.new_zeros(len(samples), 0)).take(np.concatenate(places)), x=x)
    ends = np.cumsum([len(rows) for own in parts for rows in own])
    cut = np.split(np.arange(len(x)), ends[:-1])
    moved = {part: tuple(cut[at::3]) for at, part in enumerate(("train", "validation", "test"))}
    return told, replace(split, **moved)


def _coded(decided: Decided, column: SheetColumn) -> Array:
    gaps = column.gaps
    shown = [gaps.astype(np.float64)] if decided.gaps else []
    if decided.kind == "category":
        place = {level: at for at, level in enumerate(decided.levels)}
        known = np.array([place.get(level, len(place)) for level in column.levels] + [-1], dtype=np.int64)
        at = known[column.values]  # a gap is -1, the last entry
        if not decided.gaps:
            at = np.where(gaps, len(place), at)
        width = len(place) + decided.other
        return np.stack([*((at == level).astype(np.float64) for level in range(width)), *shown, np.zeros(len(at))], axis=1)[
            :, :-1
        ]
    values = np.where(gaps, decided.fill, column.values)
    return np.stack([(values - decided.mean) / decided.scale, *shown], axis=1)


def _sheet(table: Any) -> Sheet:
    from .sheet import typed

    raw = raw_of(table)
    return Sheet(typed(raw, raw.names, Words()))


def refuse_scale(scale: Any) -> Scale:
    """Return a way of scaling, or name those there are."""
    from .sheet import SCALES

    if scale not in SCALES:
        raise InputError(f"scale must be one of {', '.join(SCALES)}, got {scale!r}")
    return scale  # type: ignore[no-any-return]
