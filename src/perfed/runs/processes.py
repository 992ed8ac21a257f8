"""Cells in processes of this machine: forked from this one, one thread each, and none outlives it."""

import _thread
import multiprocessing as mp
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from typing import Any

import torch

from ..errors import PerfedError
from ..progress import word
from .cells import Cell, Ears
from .run import train as train_seed

GRACE = 60.0  # seconds in which a cell whose parent is gone writes its checkpoint


def train(cells: Iterator[Cell], workers: int, ears: Ears) -> None:
    """Train every cell, as many at once as there are workers."""
    alive = dict[Connection, tuple[Any, Cell]]()
    with terminable():
        try:
            _all(cells, workers, alive, ears)
        finally:
            for process, _ in alive.values():
                if process.is_alive():
                    os.kill(process.pid, signal.SIGINT)  # lets a cell write its checkpoint
                process.join()


def _all(cells: Iterator[Cell], workers: int, alive: dict[Connection, tuple[Any, Cell]], ears: Ears) -> None:
    context, left = mp.get_context("fork"), True
    while left or alive:
        while left and len(alive) < workers:
            started = next(cells, None)
            if started is None:
                left = False
                break
            here, there = context.Pipe()
            process = context.Process(target=_train, args=(started, there, [*alive, here]))
            process.start()
            there.close()
            alive[here] = process, started
        for pipe in wait(list(alive)) if alive else ():  # waiting for nobody would be for ever
            _listen(pipe, alive, ears)  # type: ignore[arg-type]


@contextmanager
def terminable() -> Iterator[None]:
    """Let a request to end be an interruption, so that cells end too and write their checkpoints."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(_number: int, _frame: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _listen(pipe: Connection, alive: dict[Connection, tuple[Any, Cell]], ears: Ears) -> None:
    try:
        told = pipe.recv()
    except (EOFError, ConnectionResetError):
        process, cell = alive.pop(pipe)
        process.join()
        ears.refuse(cell, f"its process ended unexpectedly (exit code {process.exitcode}); resume goes on")
        return
    if isinstance(told, tuple):
        if ears.on_round:
            ears.on_round(*told)
        return
    process, cell = alive.pop(pipe)
    process.join()
    if told == "interrupted":
        raise KeyboardInterrupt
    if told == "done":
        ears.finish(cell)
    else:
        ears.refuse(cell, told)


def _train(cell: Cell, pipe: Connection, ends: Sequence[Connection]) -> None:
    for end in ends:  # inherited: held open here they would hide the parent's end from all
        end.close()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background of a script ignores it by inheritance
    threading.Thread(target=_watch, args=(pipe,), daemon=True).start()
    torch.set_num_threads(1)  # a forked process has none of its parent's threads and would wait for them for ever
    alone = cell.experiment.but(workers=1)
    try:
        train_seed(
            cell.run,
            alone,
            cell.seed,
            cell.shared,
            lambda seed, done: _heard(pipe, (seed, word(done, cell.run.path.name))),
            cell.stop,
        )
        pipe.send("done")
    except PerfedError as wrong:
        pipe.send(str(wrong))
    except KeyboardInterrupt:
        _last(pipe)
    except OSError as broken:
        if not isinstance(broken, BrokenPipeError):
            raise


def _heard(pipe: Connection, told: Any) -> None:
    """Tell of a round; where nobody is there any more, wait for `_watch` to interrupt, once, so that a checkpoint is written."""
    try:
        pipe.send(told)
    except (BrokenPipeError, ConnectionResetError):
        while True:
            time.sleep(0.05)


def _last(pipe: Connection) -> None:
    with suppress(OSError):  # nobody may be there any more
        pipe.send("interrupted")


def _watch(pipe: Connection) -> None:
    """Wait for the parent's end, which closes the pipe whatever it died of, and end too, if possible with a checkpoint."""
    try:
        pipe.recv()  # nothing is ever said this way
    except (EOFError, OSError):
        _thread.interrupt_main()
        threading.Event().wait(GRACE)
        os._exit(1)
