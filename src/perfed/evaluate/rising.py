"""Whether a run's curve still rises where it ends: then more rounds would say something else."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .scores import Line
from .summary import figures

PART = 10  # the last tenth of the tests is held against the tenth before
FEWEST = 3  # tests in a part: fewer say nothing about noise
ERRORS = 2.0  # standard errors that a rise must exceed
LEAST = 0.001  # a tenth of a point, as a fraction: less is nobody's concern


class Rise(NamedTuple):
    """How much higher the last part of a curve is than the part before, as fractions, means over seeds."""

    rise: float
    noise: float  # what it had to exceed
    tests: int  # in each part
    curve: str  # ``validation`` where there is validation data


def rising(seeds: Mapping[int, Sequence[Line]], *, report: str = "weighted", series: str = "test") -> Rise | None:
    """Return the rise of a curve that still rises, or ``None`` where it does not or is too short to say.

    A curve still rises if the mean of its last tenth of tests is above that of the tenth before (three tests at least)
    by a tenth of a point and by two standard errors, which follow from how the tests scatter inside the two parts.
    The curve is the one on validation data where there is any, else the one that is reported.
    """
    known = [line for lines in seeds.values() for line in lines]
    curve = "validation" if any(line.get("validation") for line in known) else series
    rises, errors, tests = [], [], 0
    for lines in seeds.values():
        parts = _ends(lines, curve, report)
        if parts is None:
            return None
        before, last = parts
        tests = max(tests, len(last))
        rises.append(float(np.mean(last) - np.mean(before)))
        errors.append(float(np.var(last, ddof=1) / len(last) + np.var(before, ddof=1) / len(before)))
    if not rises:
        return None
    rise, noise = float(np.mean(rises)), max(LEAST, ERRORS * float(np.sqrt(sum(errors))) / len(errors))
    return Rise(rise, noise, tests, curve) if rise > noise else None


def _ends(lines: Sequence[Line], curve: str, report: str) -> tuple[list[float], list[float]] | None:
    """The figures of the last part of a seed's tests and of the part before, or ``None`` if they are too few."""
    tested = [line for line in lines if line["round"] > 0 and line.get(curve)]
    size = max(FEWEST, len(tested) // PART)
    found: list[Any] = [(figures(line[curve]) or {}).get(report) for line in tested[-2 * size :]]
    if len(found) < 2 * size or None in found:
        return None
    return found[:size], found[size:]
