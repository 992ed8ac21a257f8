"""The columns of a silo's table: silos that train together must have the same, in the same order."""

from pathlib import Path

from ..errors import DataError
from .config import DataSource

_ROWS = 1000  # rows that tell a column's kind


def columns_of(source: DataSource) -> list[list[str]] | None:
    """Return names and kinds of the columns that are inputs, or nothing where the data are no table."""
    scheme, _, rest = source.source.name.partition(":")
    if scheme != "csv":
        return None
    import pandas as pd

    options = source.source.options
    path = Path(rest)
    if path.is_dir():
        path = sorted(path.glob("*.csv"))[0]
    try:
        frame = pd.read_csv(path, nrows=_ROWS)
    except (OSError, ValueError) as broken:
        raise DataError(f"{path} is no readable csv file ({broken})") from broken
    if options.get("text"):
        return [[str(options["text"]), "text"]]
    special = {str(options.get(name, "label" if name == "label" else "")) for name in ("label", "client", "test")}
    kinds = {"i": "number", "u": "number", "f": "number", "b": "number"}
    return [[str(name), kinds.get(frame[name].dtype.kind, "text")] for name in frame.columns if str(name) not in special]
