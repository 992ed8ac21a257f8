"""Accuracies and losses as the lines of a run's rounds.jsonl hold them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfed.errors import RunError

Line = Mapping[str, Any]
Floats = NDArray[np.float64]


def scored(lines: Sequence[Line], part: str = "test") -> list[Line]:
    """Return the lines that carry scores of ``part``, or say that none does."""
    found = [line for line in lines if line.get(part) and _numbers(line[part]["count"]).size]
    if not found:
        raise RunError(f"no round of this run has '{part}' scores; run it again with '{part}' scores recorded")
    return found


def accuracies(line: Line, part: str = "test") -> Floats:
    """Return the accuracy of every client; NaN for a client without a score."""
    correct, count = _numbers(line[part]["correct"]), _numbers(line[part]["count"])
    return np.divide(correct, count, out=np.full_like(correct, np.nan), where=count > 0)


def losses(line: Line, part: str = "test") -> Floats:
    """Return the mean loss of every client; NaN for a client without a score."""
    return _numbers(line[part]["loss"])


def counts(line: Line, part: str = "test") -> Floats:
    """Return how many samples every client was scored on; NaN for a client without a score."""
    return _numbers(line[part]["count"])


def weighted(line: Line, part: str = "test") -> float:
    """Return all correct answers over all samples (the rule W of FedCP and GPFL)."""
    return float(np.nansum(_numbers(line[part]["correct"])) / np.nansum(counts(line, part)))


def average(line: Line, part: str = "test") -> float:
    """Return the plain mean of the clients' accuracies (the rule U of FedCAC, DualFed and FedPick)."""
    return float(np.nanmean(accuracies(line, part)))


def best(lines: Sequence[Line], part: str = "test") -> Line:
    """Return the first line with the highest weighted accuracy."""
    return max(scored(lines, part), key=lambda line: weighted(line, part))


def _numbers(values: Sequence[float | None]) -> Floats:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
