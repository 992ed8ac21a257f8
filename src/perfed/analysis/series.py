"""Scores of clients as the lines of a run's rounds.jsonl hold them, or the reason why they do not."""

from collections.abc import Sequence

import numpy as np

from ..errors import RunError
from ..evaluate.metrics import known
from ..evaluate.scores import Line
from ..evaluate.summary import Array, choose, main, rates
from ..evaluate.summary import average as figure

MISSING = {
    "after": "run it again with after=true",
    "test": "finish at least one round",
    "validation": "run it again with validation=0.1 or another share",
}


def scored(lines: Sequence[Line], part: str = "test") -> list[Line]:
    """Return the lines that carry scores of ``part``, or say how to record some."""
    found = [line for line in lines if not np.isnan(rates(line.get(part))).all()]
    if not found:
        raise RunError(f"this run has no '{part}' scores; {MISSING.get(part, 'there are ' + ', '.join(MISSING))}")
    return found


def named(lines: Sequence[Line], part: str = "test") -> str:
    """Return what the main score of these lines is called: accuracy for classes, R², concordance, right labels."""
    return known(main(scored(lines, part)[-1][part])).title


def best(lines: Sequence[Line], part: str = "test") -> Line:
    """Return the first line with the highest weighted score; the initial model only if there is nothing else."""
    return choose(scored(lines, part), "best", series=part) or lines[0]


def weighted(line: Line, part: str = "test") -> float:
    """Return all correct answers over all samples (the rule W of FedCP and GPFL)."""
    return figure(line[part])


def average(line: Line, part: str = "test") -> float:
    """Return the plain mean of the clients' accuracies (the rule U of FedCAC, DualFed and FedPick)."""
    return float(np.nanmean(rates(line[part])))


def column(line: Line, part: str, name: str) -> Array:
    """Return ``count`` or a metric such as ``loss`` of every client; NaN for a client without a score."""
    return np.array([np.nan if value is None else value for value in line[part][name]], dtype=np.float64)
