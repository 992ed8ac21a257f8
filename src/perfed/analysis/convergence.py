"""Accuracy and loss before and after local training, round by round (FedCP, Figure 6)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import InputError, RunError
from ..evaluate.scores import Line
from ..evaluate.summary import Array, rates
from .series import column, scored


@dataclass(frozen=True)
class Convergence:
    """One entry per round; averages over the participants, weighted by samples. None where a loss is not finite."""

    rounds: tuple[int, ...]
    accuracy_before: tuple[float, ...]
    accuracy_after: tuple[float, ...]
    loss_before: tuple[float | None, ...]
    loss_after: tuple[float | None, ...]

    def settled(self, tolerance: float = 0.01) -> int | None:
        """Return the first round from which local training never again moves the loss by more than ``tolerance``."""
        if tolerance <= 0:
            raise InputError(f"tolerance must be positive, got {tolerance}")
        first = None
        for number, before, after in zip(self.rounds, self.loss_before, self.loss_after, strict=True):
            if before is None or after is None or abs(after - before) > tolerance:
                first = None
            elif first is None:
                first = number
        return first


def convergence(lines: Sequence[Line]) -> Convergence:
    """Set the ``after`` scores of a round beside the ``test`` scores its participants started from.

    A round's ``test`` scores belong to the model after merging, which is where the next round starts; so the state
    before local training in round t is found in the line of round t - 1. Losses are those of the test samples.
    """
    trained = {int(line["round"]): line for line in scored(lines, "after")}
    tested = {int(line["round"]): line for line in scored(lines, "test")}
    rows = []
    for number in sorted(trained):
        if number - 1 not in tested:
            continue
        before, after = tested[number - 1], trained[number]
        weight = np.nan_to_num(column(after, "after", "count"))
        rows.append(
            (
                number,
                _mean(rates(before["test"]), weight),
                _mean(rates(after["after"]), weight),
                _finite(_mean(column(before, "test", "loss"), weight)),
                _finite(_mean(column(after, "after", "loss"), weight)),
            )
        )
    if not rows:
        raise RunError("no round has 'after' scores and a tested round right before it; run it again with every=1")
    rounds, accuracy_before, accuracy_after, loss_before, loss_after = zip(*rows, strict=True)
    return Convergence(rounds, accuracy_before, accuracy_after, loss_before, loss_after)


def _mean(values: Array, weight: Array) -> float:
    present = weight > 0
    return float(np.average(values[present], weights=weight[present]))


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None
