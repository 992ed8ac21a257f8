"""When a curve is flat: two blocks of rounds whose means differ by no more than noise."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..errors import InputError
from ..evaluate.scores import Line
from ..evaluate.summary import figures

PATIENCE = 50  # rounds, unless said otherwise
LEAST = 3  # tests per block: fewer say nothing about noise
ERRORS = 2.0  # standard errors that a rise must exceed


class Flatness(NamedTuple):
    """Where a run is to end, whether its curve is flat there, and by which numbers (accuracies as fractions)."""

    round: int
    flat: bool  # else it still rose, or had not begun, and was given no more rounds
    patience: int
    curve: str
    mean: float  # of the last block
    before: float  # of the best block before it
    noise: float  # what a rise must exceed


@dataclass(frozen=True)
class Flat:
    """Stop where the mean of a block of ``patience`` rounds is not above every earlier block's by more than noise.

    Noise is twice the standard error of the difference of two such means. How far a test is off is read from the steps
    between neighbouring tests of the last block: the deviation inside a block would take a rise for noise, and a steep
    beginning for a reason to stop. It is looked at where a block ends only, so an interrupted run that goes on stops where
    it would have.
    A curve that has not left the height of the untrained model is not flat: it has not begun. ``most`` rounds are the end
    of any curve.
    """

    patience: int
    most: int | None = None
    report: str = "weighted"
    series: str = "test"
    every: int = 1

    def __post_init__(self) -> None:
        least = LEAST * self.every
        if self.patience < least:
            raise InputError(
                f"--patience must be at least {least} rounds ({LEAST} tests, one every {self.every} rounds), got {self.patience}"
            )
        if self.most is not None and (self.most % self.patience or self.most < 2 * self.patience):
            raise InputError(f"--at-most must be 2, 3, … times --patience ({self.patience} rounds), got {self.most}")

    def verdict(self, lines: Sequence[Line]) -> Flatness | None:
        """Say whether a run ends after these lines."""
        last = int(lines[-1]["round"]) if lines else 0
        if last % self.patience or last < 2 * self.patience:
            return None
        name = self._curve(lines)
        *earlier, block = self._blocks(lines, name, last)
        before = max(earlier, key=lambda own: float(np.mean(own)))
        mean, best = float(np.mean(block)), float(np.mean(before))
        noise = ERRORS * float(np.sqrt(np.mean(np.diff(block) ** 2) / 2 * (1 / len(block) + 1 / len(before))))
        flat = mean - best <= noise and self._begun(lines, name, max(mean, best), noise)
        if not flat and (self.most is None or last < self.most):
            return None
        return Flatness(last, flat, self.patience, f"{name}, {self.report}", mean, best, noise)

    def enough(self, note: Mapping[str, Any] | None) -> bool:
        """Say whether a run that once ended with this verdict has ended for the present question too."""
        if not note or note["patience"] < self.patience:
            return False
        return bool(note["flat"]) or (self.most is not None and note["round"] >= self.most)

    def __call__(self, lines: Sequence[Line]) -> dict[str, Any] | None:
        """Return the verdict as a run records it, or nothing where the run is to go on."""
        found = self.verdict(lines)
        return None if found is None else found._asdict()

    def _begun(self, lines: Sequence[Line], name: str, height: float, noise: float) -> bool:
        """Whether a curve has left the untrained model's height: a plateau there is a slow start, not an end."""
        start = figures(lines[0].get(name)) if lines[0]["round"] == 0 else None
        return start is None or abs(height - float(start[self.report] or 0.0)) > noise

    def _curve(self, lines: Sequence[Line]) -> str:
        """Return the curve that decides: on validation data where there is any, else the one whose best round is reported."""
        return "validation" if any(figures(line.get("validation")) for line in lines) else self.series

    def _blocks(self, lines: Sequence[Line], name: str, last: int) -> list[list[float]]:
        found: list[list[float]] = [[] for _ in range(last // self.patience)]
        for line in lines:
            scored = figures(line.get(name))
            if line["round"] > 0 and scored is not None:
                found[(int(line["round"]) - 1) // self.patience].append(float(scored[self.report] or 0.0))
        return found
