"""How a run holds up when the participants of a round are drawn at random (FedCP Table 7, GPFL Table 4)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import InputError, RunError
from ..evaluate.scores import Line
from .series import scored, weighted


@dataclass(frozen=True)
class Participation:
    """Who took part; shares are fractions of all clients."""

    clients: int
    least: float
    mean: float
    most: float
    visits: tuple[int, ...]  # rounds each client took part in


@dataclass(frozen=True)
class Swing:
    """How much the accuracy still moves in the last rounds."""

    rounds: int
    mean: float
    std: float
    largest_fall: float  # from one tested round to the next; 0 if it never fell


@dataclass(frozen=True)
class Drop:
    """What is lost, over seeds, when participation becomes random; a positive ``drop`` is a loss."""

    full: float
    full_std: float
    drawn: float
    drawn_std: float
    drop: float


def participation(lines: Sequence[Line], clients: int) -> Participation:
    """Count who took part in the rounds after the initial model."""
    rounds = [line["participants"] for line in lines if int(line["round"]) > 0]
    if not rounds:
        raise RunError("this run has no rounds yet, so nobody took part")
    if clients < 1 or max((max(ids) for ids in rounds if ids), default=0) >= clients:
        raise InputError(f"clients must be the number of clients of the run, got {clients}")
    visits = np.zeros(clients, dtype=np.int64)
    for ids in rounds:
        visits[list(ids)] += 1
    shares = [len(ids) / clients for ids in rounds]
    return Participation(clients, min(shares), sum(shares) / len(shares), max(shares), tuple(visits.tolist()))


def swing(lines: Sequence[Line], last: int = 10, part: str = "test") -> Swing:
    """Measure how far the weighted accuracy moves over the ``last`` tested rounds."""
    if last < 2:
        raise InputError(f"last must be at least 2 rounds, got {last}")
    scores = np.array([weighted(line, part) for line in scored(lines, part)[-last:]])
    fall = float(-np.diff(scores).min()) if len(scores) > 1 else 0.0
    return Swing(len(scores), float(scores.mean()), float(scores.std()), max(fall, 0.0))


def drop(full: Sequence[float], drawn: Sequence[float]) -> Drop:
    """Compare accuracies (one per seed) with everyone present and with participants drawn."""
    if not full or not drawn:
        raise InputError("drop compares two runs, each with at least one seed")
    everyone, some = np.asarray(full, dtype=np.float64), np.asarray(drawn, dtype=np.float64)
    loss = float(everyone.mean() - some.mean())
    return Drop(float(everyone.mean()), float(everyone.std()), float(some.mean()), float(some.std()), loss)
