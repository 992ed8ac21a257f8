"""The table of runs as a data frame."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..report import read, tables

if TYPE_CHECKING:
    from pandas import DataFrame


def frame_of(runs: Sequence[read.Record]) -> "DataFrame":
    """Return the table of runs as a data frame, numbers as numbers: accuracies are fractions."""
    import pandas

    made = tables.comparison(runs, **read.options(runs))
    rows = []
    for row in tables.records(made):
        flat = {"method": row["name"]}
        for key, cell in row.items():
            if isinstance(cell, dict):
                flat |= {key: cell["mean"], f"{key}.std": cell["std"]}
        rows.append(flat)
    return pandas.DataFrame(rows)
