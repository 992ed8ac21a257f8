"""A command that trains: says where it writes, how far it is, and how to go on after a stop."""

import logging
import os
import shlex
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from .output import note


class Attended:
    """What a command knows of the training that it has begun."""

    def __init__(self, again: str) -> None:
        self.folder: Path | None = None
        self.again = again  # how to go on where there is no folder to resume
        self.on_round: Any = None
        self.expect: Any = None  # takes how many rounds there will be, where that is not known from the start

    def begun(self, folder: Path, who: str = "") -> None:
        """Say where the record goes and who the clients are."""
        self.folder = folder
        note(f"folder: {folder}")
        if who:
            note(who)

    def stopped(self) -> str:
        """Return how far it came and how to go on."""
        if self.folder is None:
            return f"stopped; {self.again}"
        return f"stopped {reached(self.folder)}; `perfed resume {shlex.quote(str(self.folder))}` goes on"


@contextmanager
def attended(total: int | None, what: str, again: str = "nothing was begun") -> Iterator[Attended]:
    """Show progress; turn Ctrl-C and a request to end into a sentence that says how to go on."""
    from ..progress import shown

    found = Attended(again)
    try:
        with _terminable(), _overheard(), shown(total, what) as on_round:
            found.on_round, found.expect = on_round, getattr(on_round, "expect", None)
            yield found
    except KeyboardInterrupt:
        note(found.stopped())
        raise typer.Exit(130) from None


def reached(folder: Path) -> str:
    """Return after which round the states of a run or a comparison were kept."""
    from ..runs.folder import CompareFolder, RunFolder
    from ..runs.race.folder import RaceFolder

    if RaceFolder.there(folder):
        runs = RaceFolder(folder).runs
        rounds_done = sum(seed.reached or 0 for run in runs for seed in run.seeds.values())
        return f"after {rounds_done} rounds of {len(runs)} candidates"
    if CompareFolder.there(folder):
        runs = CompareFolder(folder).runs
        done = [seed.reached or 0 for run in runs for seed in run.seeds.values()]
        return f"after {sum(done)} rounds of {len(done)} runs"
    rounds = {number: seed.reached for number, seed in RunFolder(folder).seeds.items()}
    began = {number: at for number, at in rounds.items() if at is not None}
    if not began:
        return "before the first round was kept"
    last = max(began)
    return f"after round {began[last]}" + (f" of seed {last}" if len(rounds) > 1 else "")


class _Lines(logging.Handler):
    """Says what is logged: warnings always, the rest once, and not again in every worker."""

    def __init__(self) -> None:
        super().__init__()
        self.own, self.said = os.getpid(), set[str]()

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.levelno >= logging.WARNING or (os.getpid() == self.own and text not in self.said):
            self.said.add(text)
            note(text)


@contextmanager
def _overheard() -> Iterator[None]:
    """Let the log `perfed` be read on standard error, unless it was set to be quiet or louder."""
    log, lines = logging.getLogger("perfed"), _Lines()
    before = log.level
    log.addHandler(lines)
    log.setLevel(before or logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(lines)
        log.setLevel(before)


@contextmanager
def _terminable() -> Iterator[None]:
    """Let a request to end (SIGTERM) be an interruption, so that states are kept; worker processes end as ever."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    own = os.getpid()

    def interrupt(number: int, _frame: Any) -> None:
        if os.getpid() == own:
            raise KeyboardInterrupt
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
