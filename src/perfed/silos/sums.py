"""How silos agree on the columns of their tables: sums over training rows leave a silo where its policy says so, never a row."""

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..data.columns import Columns, ColumnSums, Decided, agreed
from ..data.sheet import Scale, Sheet
from ..errors import WireError
from .messages import brief, is_count, is_text, parsed
from .refusals import Refused

AGREEING = ("client", "federated")  # ways of scaling for which the silos must agree on columns first
MOST = 10_000  # columns, and levels of one
KINDS = ("number", "category", "yes/no")


def pack(sums: ColumnSums | None) -> bytes:
    """Return sums as a silo sends them; nothing where the silo knows already how its rows are coded."""
    return b"" if sums is None else json.dumps(list(sums.columns), allow_nan=False).encode()


def unpack(body: bytes) -> ColumnSums | None:
    """Return the sums that a silo sent; whatever is not of their form is refused."""
    if not body:
        return None
    try:
        found = parsed(body.decode())
    except UnicodeDecodeError as broken:
        raise WireError("the silo's sums are no text") from broken
    if not isinstance(found, list) or not 0 < len(found) <= MOST:
        raise WireError(f"the silo's sums should be those of some columns, not {brief(found)}")
    for column in found:
        if not isinstance(column, dict) or not _is_sums(column):
            raise WireError(f"the silo's sums of a column should be counts, a mean and a sum of squares, not {brief(column)}")
    return ColumnSums(tuple(found))


def _is_sums(column: Mapping[str, Any]) -> bool:
    category = column.get("kind") == "category"
    keys = {"name", "kind", "count", "gaps"} | ({"levels"} if category else {"mean", "squares"})
    if column.keys() != keys or column["kind"] not in KINDS or not is_text(column["name"]):
        return False
    if not is_count(column["count"]) or not is_count(column["gaps"]):
        return False
    if category:
        levels = column["levels"]
        named = isinstance(levels, dict) and len(levels) <= MOST and all(map(is_text, levels))
        return named and all(is_count(n, 1) for n in levels.values()) and sum(levels.values()) == column["count"]
    return _is_number(column["mean"]) and _is_number(column["squares"]) and column["squares"] >= 0


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value) and abs(value) < 1e300


def decided(silos: Mapping[int, ColumnSums | None], scale: Scale, refuse: Callable[[int, str], None]) -> Columns | None:
    """Return what the silos' sums decide; those whose columns are not as most have them are refused."""
    told = {i: own for i, own in sorted(silos.items()) if own is not None}
    if not told:
        return None
    for i in silos.keys() - told.keys():
        refuse(i, "the silo's columns were decided elsewhere, the others' are not")
    forms = {i: [[c["name"], c["kind"]] for c in own.columns] for i, own in told.items()}
    most = Counter(map(repr, forms.values())).most_common(1)[0][0]
    usual = next(form for form in forms.values() if repr(form) == most)
    for i, form in forms.items():
        if form != usual:
            odd = next((c for c in form if c not in usual), form)
            refuse(i, f"the silo's columns differ from the others': {brief(odd)}")
    return agreed([told[i] for i, form in forms.items() if form == usual], "none" if scale == "client" else scale)


def coded(sheet: Sheet, plain: Sequence[Any], scale: Scale) -> Sheet:
    """Return a silo's table with the decisions that the server passed on; those that do not fit the table are refused."""
    try:
        given = Columns.of_json(plain)
        fine = all(_is_decided(column) for column in given.columns)
    except Exception as wrong:
        raise WireError(f"the decisions for columns are no such: {brief(plain)}") from wrong
    if not fine:
        raise WireError(f"the decisions for columns are no such: {brief(plain)}")
    if [(c.name, c.kind) for c in given.columns] != [(c.name, c.kind) for c in sheet.columns]:
        raise Refused("data", "this table's columns are not those that the silos agreed on")
    return Sheet(sheet.columns, scale, given)


def _is_decided(column: Decided) -> bool:
    named = is_text(column.name) and column.kind in KINDS and all(map(is_text, column.levels)) and len(column.levels) <= MOST
    switches = isinstance(column.other, bool) and isinstance(column.gaps, bool)
    return named and switches and all(map(_is_number, (column.fill, column.mean, column.scale))) and column.scale > 0
