"""Every number of every client as a tidy data frame: one row per method, seed, round, client, part and metric."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..evaluate.summary import rates
from .read import Record, gather, labels

if TYPE_CHECKING:
    from pandas import DataFrame

COLUMNS = ("method", "seed", "round", "client", "part", "metric", "value")
PARTS = ("test", "validation", "after", "unseen")
COUNTS = ("count", "correct", "accuracy")  # accuracy comes from `rates`


def frame(runs: Iterable[Record | Path | str]) -> "DataFrame":
    """Return runs as a tidy data frame.

    Args:
        runs: runs that were read, or folders of runs and comparisons.

    Returns:
        Columns ``method`` (as tables name it), ``seed``, ``round``, ``client`` (its name), ``part`` (``test``,
        ``validation``, ``after``, ``unseen``), ``metric`` and ``value``; accuracies are fractions. A client that was not
        scored in a round has no row there.
    """
    import pandas

    given = list(runs)
    known = [run for run in given if isinstance(run, Record)]
    paths = [run for run in given if not isinstance(run, Record)]
    everything = [*known, *(gather(paths) if paths or not known else [])]
    pieces = [piece for run, name in zip(everything, labels(everything), strict=True) for piece in _pieces(run, name)]
    return pandas.concat(pieces, ignore_index=True) if pieces else pandas.DataFrame(columns=list(COLUMNS))


def _pieces(run: Record, name: str) -> Iterable["DataFrame"]:
    import pandas

    for seed, lines in run.rounds.items():
        for line in lines:
            for part in PARTS:
                who = run.clients[seed].get("unseen", {"names": []}) if part == "unseen" else run.clients[seed]
                clients = np.array(who["names"], dtype=object)
                found = per_client(line.get(part), len(clients))
                scored = ~np.isnan(np.array(list(found.values()))).all(0) if found else np.zeros(0, bool)
                for metric, values in found.items():
                    made = {"client": clients[scored], "part": part, "metric": metric, "value": values[scored]}
                    yield pandas.DataFrame({"method": name, "seed": seed, "round": line["round"]} | made)[list(COLUMNS)]


def per_client(scores: Mapping[str, Sequence[Any]] | None, clients: int) -> dict[str, NDArray[np.float64]]:
    """Return every metric with one number per client, ``nan`` where there is none."""
    if not scores:
        return {}
    found = {"accuracy": rates(scores)}
    for name, values in scores.items():
        plain = all(value is None or isinstance(value, int | float) for value in values)
        if name not in COUNTS and plain and len(values) == clients:
            found[name] = np.array([np.nan if value is None else value for value in values], float)
    return {name: values for name, values in found.items() if len(values) == clients}
