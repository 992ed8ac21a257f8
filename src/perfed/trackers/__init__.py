"""Rounds told to TensorBoard, MLflow or Weights & Biases, while they are run or afterwards; a tracker never stops a run."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from ..errors import MissingExtra, install, suggest
from ..rounds import Round, line_of
from .tracker import About, Tracker, values

LIBRARIES = {"mlflow": "mlflow", "tensorboard": "tensorboard", "wandb": "wandb"}  # the module that each needs
LOG = logging.getLogger("perfed")

OnRound = Callable[[int, Round], None]


def check(names: Sequence[str]) -> None:
    """Refuse trackers that there are not, or whose library is not installed."""
    for name in names:
        if name not in LIBRARIES:
            raise suggest("tracker", name, LIBRARIES)
        if find_spec(LIBRARIES[name]) is None:  # not imported: what it starts would not survive the fork of a cell
            raise MissingExtra(f"{LIBRARIES[name]} is not installed; {install(name)}")


def opened(name: str, about: About) -> Tracker:
    """Return a tracker that has begun with a seed of a run."""
    check([name])
    made: Tracker = import_module(f"perfed.trackers.{name}").begin(about)
    return made


@contextmanager
def following(names: Sequence[str], about: About, clients: int, on_round: OnRound | None = None) -> Iterator[OnRound | None]:
    """Yield what hears of every round of a seed: the trackers, then whoever else listens.

    A tracker that fails is left out from then on, with one warning; the run goes on as if it had never been there.
    """
    if not names:
        yield on_round
        return
    alive = {name: found for name in names if (found := _safely(name, partial(opened, name, about)))}

    def heard(seed: int, done: Round) -> None:
        line = line_of(done, done.seconds_train + done.seconds_test, clients)
        for name, found in list(alive.items()):
            if not _safely(name, partial(_told, found, line)):
                del alive[name]
        if on_round:
            on_round(seed, done)

    try:
        yield heard
    finally:
        for name, found in alive.items():
            _safely(name, found.close)


def replay(name: str, about: About, lines: Sequence[Mapping[str, Any]]) -> int:
    """Tell a tracker of a seed that was run before; return how many rounds."""
    found = opened(name, about)
    try:
        for line in lines:
            _told(found, line)
    finally:
        found.close()
    return len(lines)


def _told(found: Tracker, line: Mapping[str, Any]) -> bool:
    found.log(int(line["round"]), values(line))
    return True


def _safely(name: str, do: Callable[[], Any]) -> Any:
    """Do something with a tracker; where it fails, say so and return nothing."""
    try:
        return do()
    except MissingExtra:
        LOG.warning("track=%s: it is not installed here (%s); the run goes on without it", name, install(name))
    except Exception as error:  # whatever a foreign library raises
        LOG.warning("track=%s failed (%s: %s); the run goes on without it", name, type(error).__name__, str(error)[:300])
    return None
