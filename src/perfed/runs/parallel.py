"""Many runs at once: one process per method and seed, as many as there are cores."""

import multiprocessing as mp
import os
import signal
import threading
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

import torch

from ..errors import PerfedError, RunError
from ..progress import word
from .assemble import SharedData
from .experiment import Experiment
from .folder import RunFolder
from .run import train as train_seed
from .seed import OnRound, Stop

Refused = Callable[["Cell", str], None]  # a cell and why it could not be trained


class Cell(NamedTuple):
    """One seed of one run, with the data it needs."""

    run: RunFolder
    experiment: Experiment
    seed: int
    shared: SharedData
    stop: Stop | None = None  # ends the seed before its last round


def train(
    cells: Iterator[Cell],
    workers: int,
    on_round: OnRound | None = None,
    refused: Refused | None = None,
    done: Callable[[Cell], None] | None = None,
) -> None:
    """Train every cell; ``refused`` hears of one that cannot be trained, without it the first such ends everything."""
    if workers < 2:
        for cell in cells:
            try:
                train_seed(cell.run, cell.experiment, cell.seed, cell.shared, on_round, cell.stop)
            except PerfedError as wrong:
                _refuse(cell, str(wrong), refused)
            else:
                _tell(cell, done)
        return
    context, alive = mp.get_context("fork"), dict[Connection, tuple[Any, Cell]]()
    left = True
    before = _terminable()
    try:
        while left or alive:
            while left and len(alive) < workers:
                started = next(cells, None)
                if started is None:
                    left = False
                    break
                here, there = context.Pipe()
                process = context.Process(target=_train, args=(started, there))
                process.start()
                there.close()
                alive[here] = process, started
            for pipe in wait(list(alive)) if alive else ():  # waiting for nobody would be for ever
                _listen(pipe, alive, on_round, refused, done)  # type: ignore[arg-type]
    finally:
        for process, _ in alive.values():
            if process.is_alive():
                os.kill(process.pid, signal.SIGINT)  # lets a cell write its checkpoint
            process.join()
        if before is not None:
            signal.signal(signal.SIGTERM, before)


def _terminable() -> Any:
    """Let a request to end be an interruption, so that cells end too and write their checkpoints."""
    if threading.current_thread() is not threading.main_thread():
        return None

    def interrupt(_number: int, _frame: Any) -> None:
        raise KeyboardInterrupt

    return signal.signal(signal.SIGTERM, interrupt)


def _listen(
    pipe: Connection,
    alive: dict[Connection, tuple[Any, Cell]],
    on_round: OnRound | None,
    refused: Refused | None,
    done: Callable[[Cell], None] | None,
) -> None:
    try:
        told = pipe.recv()
    except EOFError:
        process, cell = alive.pop(pipe)
        process.join()
        _refuse(cell, f"its process ended unexpectedly (exit code {process.exitcode}); resume goes on", refused)
        return
    if isinstance(told, tuple):
        if on_round:
            on_round(*told)
        return
    process, cell = alive.pop(pipe)
    process.join()
    if told == "interrupted":
        raise KeyboardInterrupt
    if told == "done":
        _tell(cell, done)
    else:
        _refuse(cell, told, refused)


def _tell(cell: Cell, done: Callable[[Cell], None] | None) -> None:
    if done:
        done(cell)


def _refuse(cell: Cell, why: str, refused: Refused | None) -> None:
    if refused is None:
        raise RunError(f"{cell.experiment.method.name}, seed {cell.seed}: {why}")
    refused(cell, why)


def _train(cell: Cell, pipe: Connection) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background of a script ignores it by inheritance
    torch.set_num_threads(1)  # a forked process has none of its parent's threads and would wait for them for ever
    alone = cell.experiment.but(workers=1)
    try:
        train_seed(
            cell.run,
            alone,
            cell.seed,
            cell.shared,
            lambda seed, done: pipe.send((seed, word(done, cell.run.path.name))),
            cell.stop,
        )
        pipe.send("done")
    except PerfedError as wrong:
        pipe.send(str(wrong))
    except KeyboardInterrupt:
        pipe.send("interrupted")
