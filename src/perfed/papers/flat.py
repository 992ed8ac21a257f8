"""When a curve is flat: two blocks of rounds whose means differ by no more than their own noise."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from perfed.errors import InputError
from perfed.evaluate.summary import Line, figures

LEAST = 3  # tests per block: fewer say nothing about noise
ERRORS = 2.0  # standard errors that a rise must exceed


class Verdict(NamedTuple):
    """At which round a curve was found flat, and by which numbers (accuracies as fractions)."""

    round: int
    patience: int
    curve: str
    mean: float  # of the last block
    before: float  # of the best block before it
    noise: float  # what a rise would have had to exceed


@dataclass(frozen=True)
class Flat:
    """Stop where the mean of a block of ``patience`` rounds is not above every earlier block's by more than noise.

    Noise is twice the standard error of the difference of two such means, from the deviation of the tests inside the
    blocks. It is looked at where a block ends only, so an interrupted run that goes on stops where it would have.
    """

    patience: int
    report: str = "weighted"
    series: str = "test"
    every: int = 1

    def __post_init__(self) -> None:
        least = LEAST * self.every
        if self.patience < least:
            raise InputError(
                f"--patience must be at least {least} rounds ({LEAST} tests, one every {self.every} rounds), got {self.patience}"
            )

    def verdict(self, lines: Sequence[Line]) -> Verdict | None:
        """Say whether the lines of a run end with a flat block."""
        last = int(lines[-1]["round"]) if lines else 0
        if last == 0 or last % self.patience or last < 2 * self.patience:
            return None
        name = self._curve(lines)
        blocks = self._blocks(lines, name, last)
        mean, before = float(np.mean(blocks[-1])), max(blocks[:-1], key=lambda block: float(np.mean(block)))
        noise = ERRORS * float(np.sqrt(np.var(blocks[-1], ddof=1) / len(blocks[-1]) + np.var(before, ddof=1) / len(before)))
        if mean - float(np.mean(before)) > noise:
            return None
        return Verdict(last, self.patience, f"{name}, {self.report}", mean, float(np.mean(before)), noise)

    def __call__(self, lines: Sequence[Line]) -> dict[str, Any] | None:
        """Return the verdict as a run records it, or nothing where the run is to go on."""
        found = self.verdict(lines)
        return None if found is None else found._asdict()

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
