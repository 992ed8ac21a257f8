"""Signs of life while rounds are run: a bar on a terminal or in a notebook, elsewhere a line every so often."""

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, NamedTuple

from .units import spoken

FIRST, THEN = 5.0, 30.0  # seconds until the first line, and between lines
LOGGER = logging.getLogger("perfed")  # set above INFO, or disabled, it switches all of this off

Heard = Callable[[int, Any], None]  # seed, and the round, or what is told of it


class Word(NamedTuple):
    """What is told of a round that another process ran."""

    number: int
    score: float | None = None
    run: str = ""  # which of several
    epsilon: float | None = None  # spent of differential privacy so far
    named: str = "accuracy"  # what the score is


def word(done: Any, run: str = "") -> Word:
    """Return what is to be told of a round."""
    if isinstance(done, Word):
        return done
    found = getattr(done, "scores", {})
    scores = found.get("test") or found.get("validation")  # a race looks at no test data
    if not scores:
        return Word(getattr(done, "number", done), None, run, getattr(done, "epsilon", None))
    from .evaluate.metrics import known
    from .evaluate.scores import columns
    from .evaluate.summary import average, main

    part = columns(scores)
    return Word(done.number, average(part), run, getattr(done, "epsilon", None), known(main(part)).title)


class Spoken:
    """Says, every so often, how far a run is."""

    def __init__(
        self, total: int | None, what: str, say: Callable[[str], object], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.total, self.what, self.say, self.clock = total, what, say, clock
        self.done, self.first = 0, 0.0  # rounds heard of, and when the first of them was: what comes before it is no round
        self.due = clock() + FIRST

    def __call__(self, seed: int, done: Any) -> None:
        """Count a round, and say so if it is time."""
        told, now = word(done), self.clock()
        self.done += 1
        self.first = now if self.done == 1 else self.first
        if now < self.due:
            return
        self.due = now + THEN
        self.say(", ".join([f"{told.run or self.what} seed {seed} round {told.number}", *self._more(told, now - self.first)]))

    def _more(self, told: Word, spent: float) -> Iterator[str]:
        if told.score is not None:
            yield f"{told.named} {told.score:.3f}"
        if told.epsilon is not None:
            yield f"ε {told.epsilon:.2f}"
        if self.total and 1 < self.done <= self.total:
            yield f"about {spoken(spent / (self.done - 1) * (self.total - self.done))} left"


class Told:
    """Shows a round, and passes it on; ``expect`` says how many there will be, where that is found out later."""

    def __init__(self, tell: Any, on_round: Heard | None) -> None:
        self.tell, self.on_round = tell, on_round

    def __call__(self, seed: int, done: Any) -> None:
        self.tell(seed, done)
        if self.on_round:
            self.on_round(seed, done)

    def expect(self, total: int) -> None:
        """Take how many rounds there will be."""
        self.tell.total = total


def wanted(asked: bool) -> bool:
    """Return whether to show anything: not where it was switched off, nor where the logger `perfed` is quiet."""
    return asked and not LOGGER.disabled and LOGGER.level <= logging.INFO


@contextmanager
def shown(total: int | None, what: str, *, progress: bool = True, on_round: Heard | None = None) -> Iterator[Heard | None]:
    """Yield what is to hear of every round: it shows how far the run is, and passes the round on.

    Args:
        total: how many rounds there will be, the start of each seed counted as one; None if nobody knows.
        what: what the rounds are of.
        progress: whether to show anything; the logger ``perfed``, set above ``INFO``, switches it off too.
        on_round: who else hears of every round.

    Examples:
        >>> with shown(3, "fedavg", progress=False) as heard:
        ...     print(heard)
        None
    """
    if not wanted(progress):
        yield on_round
        return
    with _drawn(total, what) if _draws() else _told(total, what) as tell:
        yield Told(tell, on_round)


def _draws() -> bool:
    """Return whether a bar can be drawn: on a terminal, or in a notebook with widgets."""
    if "ipykernel" in sys.modules:
        return find_spec("ipywidgets") is not None
    return sys.stderr.isatty()


@contextmanager
def _told(total: int | None, what: str) -> Iterator[Heard]:
    def say(text: str) -> None:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()

    yield Spoken(total, what, say)


@contextmanager
def _drawn(total: int | None, what: str) -> Iterator[Heard]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield _Bar(bar, bar.add_task(what, total=total), what)


class _Bar:
    """A bar that moves with every round."""

    def __init__(self, bar: Any, task: Any, what: str) -> None:
        self.bar, self.task, self.what = bar, task, what
        self.total: int | None = None  # where it is found out later

    def __call__(self, seed: int, done: Any) -> None:
        told = word(done)
        text = f"{told.run or self.what} seed {seed} round {told.number}"
        more = "" if told.score is None else f"  {told.named} {told.score:.3f}"
        more += "" if told.epsilon is None else f"  ε {told.epsilon:.2f}"
        length = {} if self.total is None else {"total": self.total}
        self.bar.update(self.task, advance=1, description=text + more, **length)
