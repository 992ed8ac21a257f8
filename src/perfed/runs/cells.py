"""A cell of a study: one seed of one run; and who hears of it while it is trained."""

from collections.abc import Callable
from typing import NamedTuple

from ..errors import RunError
from .assemble import SharedData
from .experiment import Experiment
from .folder import RunFolder
from .seed import OnRound, Stop

Refused = Callable[["Cell", str], None]  # a cell and why it could not be trained


class Cell(NamedTuple):
    """One seed of one run, with the data it needs."""

    run: RunFolder
    experiment: Experiment
    seed: int
    shared: SharedData
    stop: Stop | None = None  # ends the seed before its last round

    @property
    def title(self) -> str:
        """What sentences call it."""
        return f"{self.experiment.method.name}, seed {self.seed}"


class Ears(NamedTuple):
    """Who hears of rounds, of cells that cannot be trained and of those that are done."""

    on_round: OnRound | None = None
    refused: Refused | None = None  # without it the first cell that cannot be trained ends everything
    done: Callable[[Cell], None] | None = None

    def finish(self, cell: Cell) -> None:
        if self.done:
            self.done(cell)

    def refuse(self, cell: Cell, why: str) -> None:
        if self.refused is None:
            raise RunError(f"{cell.title}: {why}")
        self.refused(cell, why)
