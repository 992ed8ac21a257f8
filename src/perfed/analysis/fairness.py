"""How evenly accuracy is spread over clients, and who gains over a reference (GPFL, Table 3)."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from ..errors import InputError
from ..evaluate.scores import Line
from ..evaluate.summary import rates
from .series import average, best, weighted

EVEN = 1e-9  # accuracies closer than this count as equal


@dataclass(frozen=True)
class Fairness:
    """The spread over clients in the round of the best weighted accuracy; all figures are fractions."""

    round: int
    weighted: float
    mean: float
    std: float  # of the population of clients
    cv: float | None  # std over the weighted accuracy, as GPFL counts it; None when nothing was right
    worst: float
    worst_decile: float  # mean of the worst tenth of the clients, at least one
    best: float


@dataclass(frozen=True)
class Gains:
    """What each client gains over a reference, in client order."""

    gains: tuple[float, ...]
    order: tuple[int, ...]  # clients from the largest gain to the largest loss
    mean: float
    gained: int
    even: int
    lost: int


def fairness(lines: Sequence[Line], part: str = "test") -> Fairness:
    """Measure the spread over clients in the best round."""
    line = best(lines, part)
    scores = rates(line[part])
    scores = np.sort(scores[~np.isnan(scores)])
    overall, std = weighted(line, part), float(scores.std())
    return Fairness(
        round=int(line["round"]),
        weighted=overall,
        mean=average(line, part),
        std=std,
        cv=std / overall if overall else None,
        worst=float(scores[0]),
        worst_decile=float(scores[: ceil(len(scores) / 10)].mean()),
        best=float(scores[-1]),
    )


def gains(ours: Sequence[float], reference: Sequence[float]) -> Gains:
    """Compare each client's accuracy with what it has under a reference such as Local or FedAvg."""
    if len(ours) != len(reference):
        raise InputError(f"gains compare the same clients, got {len(ours)} and {len(reference)}; use one split for both")
    difference = np.asarray(ours, dtype=np.float64) - np.asarray(reference, dtype=np.float64)
    return Gains(
        gains=tuple(difference.tolist()),
        order=tuple(np.argsort(-difference, kind="stable").tolist()),
        mean=float(difference.mean()),
        gained=int((difference > EVEN).sum()),
        even=int((np.abs(difference) <= EVEN).sum()),
        lost=int((difference < -EVEN).sum()),
    )
