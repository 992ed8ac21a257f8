"""One cell at a worker of a Ray cluster: trained in the study's folder where that is seen from here, else in one that travels."""

import queue
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple

import torch

from ... import __version__, machine
from ...cluster import imported, rung
from ...errors import PerfedError, Taken
from ...progress import word
from ..assemble import SharedData
from ..experiment import Experiment
from ..folder import RunFolder
from ..run import located, reshared
from ..run import train as train_seed
from ..seed import Stop
from .scratch import scratch
from .travel import Parcel, Sent, unpacked

PAUSE = 0.5  # seconds in which rounds are collected before they are told
BELL = 1.0  # seconds between looks whether the study was interrupted
LOOK = 2.0  # seconds between looks whether somebody else has let go of a folder
PATIENCE = 60.0  # seconds for which a lost worker may seem to hold a folder that several machines see


class Order(NamedTuple):
    """What a worker is asked to train."""

    run: str  # where the run's folder is for whoever asks
    experiment: Experiment
    seed: int
    stop: Stop | None
    token: (
        tuple[str, str] | None
    )  # a file and what is in it, for those who see the study's folder; None: it shall not be looked for
    parcel: Any  # a reference to the folder's files, fetched only where the folder is not seen
    bell: str = ""  # rung in the cluster when the study is interrupted
    version: str = __version__


class News(NamedTuple):
    """What a worker tells: rounds, files, and at last how it ended."""

    words: tuple[Any, ...] = ()  # (seed, word) of every round since the last news
    parcel: Parcel | None = None  # files that are new since the last checkpoint, and the names of all
    names: tuple[str, ...] = ()
    began: dict[str, Any] | None = None  # in the first news: the machine, and whether the folder is seen there
    ended: str | None = None  # in the last: "done", "interrupted", or why the cell cannot be trained


def work(order: Order, shared: SharedData | None) -> Iterator[News]:
    """Train a cell; yield news of it while it is trained."""
    if order.version != __version__:
        yield News(
            ended=f"perfed {__version__} is installed at a worker, and {order.version} here; install the same on all machines"
        )
        return
    if _rung(order):
        yield News(ended="interrupted")
        return
    seen = _seen(order.token)
    yield News(began=machine.kind() | {"shared": seen})
    with ExitStack() as held:
        folder = RunFolder(order.run) if seen else _laid_out(order, held.enter_context(scratch()))
        job = _Job(order, shared, folder, seen)
        thread = threading.Thread(target=job.run, daemon=True)
        thread.start()
        try:
            yield from job.told()
        except (KeyboardInterrupt, GeneratorExit):
            job.ending.set()
            yield from job.told()
        finally:
            job.ending.set()
            thread.join()


def _rung(order: Order) -> bool:
    """Return whether the study was interrupted; one without a bell never is, and one whose head does not answer is not."""
    with suppress(Exception):
        return bool(order.bell) and rung(imported(), order.bell)
    return False


def _laid_out(order: Order, folder: Path) -> RunFolder:
    """Fetch the parcel and lay it out; where Ray cannot fetch it, that is a lost worker, and no fault of the cell."""
    return unpacked(imported().get(order.parcel), folder / Path(order.run).name)


def _seen(token: tuple[str, str] | None) -> bool:
    if token is None:
        return False
    try:
        return Path(token[0]).read_text() == token[1]
    except OSError:
        return False


class _Job:
    """A cell in training in a thread of its own, while the worker's own thread tells of it."""

    def __init__(self, order: Order, shared: SharedData | None, folder: RunFolder, seen: bool) -> None:
        self.order, self.shared, self.folder = order, shared, folder
        self.news: queue.SimpleQueue[News] = queue.SimpleQueue()
        self.ending = threading.Event()
        self.sent = None if seen else Sent(folder.seed(order.seed))
        self.saved: int | None = None

    def told(self) -> Iterator[News]:
        """Yield what there is to tell, rounds of a moment together, until the end; look at the bell meanwhile."""
        looked = time.monotonic()
        while True:
            if time.monotonic() - looked >= BELL and not self.ending.is_set():
                looked = time.monotonic()
                if _rung(self.order):
                    self.ending.set()
            try:
                found = [self.news.get(timeout=BELL)]
            except queue.Empty:
                continue
            until = time.monotonic() + PAUSE
            with suppress(queue.Empty):
                while found[-1].ended is None and found[-1].parcel is None:  # what ends a cell, or saves it, is told at once
                    found.append(self.news.get(timeout=max(0.0, until - time.monotonic())))
            words = tuple(one for each in found for one in each.words)
            parcel = {name: content for each in found for name, content in (each.parcel or {}).items()}
            names = next((each.names for each in reversed(found) if each.parcel is not None), ())
            parcel = {name: content for name, content in parcel.items() if name in names}
            yield News(words, parcel if names else None, names, None, found[-1].ended)
            if found[-1].ended is not None:
                return

    def run(self) -> None:
        try:
            self._train()
            ended = "done"
        except PerfedError as wrong:
            ended = str(wrong)
        except KeyboardInterrupt:
            ended = "interrupted"
        except Exception as failed:
            ended = f"{type(failed).__name__}: {failed}\n{traceback.format_exc()}"
        self.news.put(self._parcel(News(ended=ended)))

    def _train(self) -> None:
        torch.set_num_threads(1)
        order, run = self.order, self.folder
        alone = located(run, order.experiment.but(workers=1) if order.experiment.transport != "pooled" else order.experiment)
        self.saved = run.seed(order.seed).reached
        shared = self.shared or reshared(run, alone)
        began = time.monotonic()
        while True:
            try:
                train_seed(run, alone, order.seed, shared, self._heard, order.stop)
                return
            except Taken:
                if time.monotonic() - began > PATIENCE:
                    raise
                time.sleep(LOOK)  # a machine that was lost may still be ending there

    def _heard(self, seed: int, done: Any) -> None:
        self.news.put(self._saved(News(words=((seed, word(done, Path(self.order.run).name)),))))
        if self.ending.is_set():
            raise KeyboardInterrupt  # as if it were pressed here: the seed writes its checkpoint

    def _saved(self, news: News) -> News:
        """Add the folder to the news if there is a new checkpoint in it."""
        if self.sent is None or (reached := self.sent.place.reached) == self.saved:
            return news
        self.saved = reached
        return self._parcel(news)

    def _parcel(self, news: News) -> News:
        if self.sent is None:
            return news
        parcel, names = self.sent.changed()
        return news._replace(parcel=parcel, names=tuple(names))
