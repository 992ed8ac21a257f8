"""The seam for cells: a study hands them over here, and an engine trains them."""

from collections.abc import Callable, Iterator

from ..errors import PerfedError
from . import processes
from .cells import Cell as Cell
from .cells import Ears, Refused
from .engine import Engine
from .run import train as train_seed
from .seed import OnRound


def train(
    cells: Iterator[Cell],
    workers: int,
    on_round: OnRound | None = None,
    refused: Refused | None = None,
    done: Callable[[Cell], None] | None = None,
    engine: Engine | None = None,
) -> None:
    """Train every cell; ``refused`` hears of one that cannot be trained, without it the first such ends everything.

    Args:
        cells: what is to be trained.
        workers: how many at once on this machine; a cluster knows itself how many.
        on_round: hears of every round.
        refused: hears of a cell that cannot be trained.
        done: hears of a cell that is done.
        engine: who trains them; by default processes of this machine.
    """
    ears = Ears(on_round, refused, done)
    if engine is not None and engine.name == "ray":
        from .rays import drive

        drive.train(cells, engine, ears)
    elif workers < 2:
        for cell in cells:
            _here(cell, ears)
    else:
        processes.train(cells, workers, ears)


def _here(cell: Cell, ears: Ears) -> None:
    try:
        train_seed(cell.run, cell.experiment, cell.seed, cell.shared, ears.on_round, cell.stop)
    except PerfedError as wrong:
        ears.refuse(cell, str(wrong))
    else:
        ears.finish(cell)
