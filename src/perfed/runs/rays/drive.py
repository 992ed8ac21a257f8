"""Hand cells to a Ray cluster, longest first; hear of them; and hand one over again whose worker was lost."""

import logging
import math
import os
import secrets
import sys
import time
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ... import cluster
from ...data.mapped import LARGE
from ...disk import put
from ...errors import PerfedError, RunError, Taken
from ...progress import LOGGER
from ..cells import Cell, Ears
from ..engine import Engine
from ..processes import terminable
from .travel import Parcel, packed, take
from .weigh import Weight, weigh
from .worker import PATIENCE, News, Order, work

AHEAD = 2  # cells that wait at the cluster beyond those that it has room for, so that no worker waits for this process
LOOK = 1.0  # seconds between looks at the cluster's size
PAUSE = 0.1  # seconds between looks at folders when all that is left to train is held by somebody else
SILENT = 10.0  # seconds without an answer after which the head is taken for lost
GRACE = 60.0  # seconds in which interrupted cells write their checkpoints and send them


@dataclass(eq=False)
class Attempt:
    """A cell on its way: what it weighs, and how often it lost its worker since its last checkpoint."""

    cell: Cell
    weight: Weight
    lost: int = 0
    reached: int | None = None
    warned: bool = False
    waits: float | None = None  # since when somebody else holds its folder
    held: ExitStack = field(default_factory=ExitStack)  # the folder's lock, where the folder travels


class HeadLost(Exception):
    """The cluster's head does not answer any more."""


class Drive:
    """A study on a cluster."""

    def __init__(self, cells: Iterable[Cell], engine: Engine, ears: Ears) -> None:
        self.engine, self.ears = engine, ears
        self.ray: Any = None
        self.queue: list[Attempt] = []
        self.running: dict[Any, Attempt] = {}
        self.data: dict[int, Any] = {}  # what all cells of a comparison share, once in the cluster's memory
        self.tokens: dict[Path, tuple[str, str]] = {}
        self.bell, self.ending = f"bell-{secrets.token_hex(8)}", False  # rung when the study is interrupted
        weights: dict[Path, Weight] = {}
        for cell in cells:
            try:
                if cell.run.path not in weights:
                    weights[cell.run.path] = weigh(cell, self.engine)
            except PerfedError as wrong:
                self.ears.refuse(cell, str(wrong))
            else:
                self.queue.append(Attempt(cell, weights[cell.run.path].left(cell)))
        self.queue.sort(key=lambda own: -own.weight.work)

    def train(self, ray: Any) -> None:
        """Train every cell that is left; the longest is handed over first."""
        self.ray, self.slots, self.looked, self.heard = ray, 0, -math.inf, time.monotonic()
        self.head = cluster.head(ray)
        self.task = ray.remote(max_retries=0, scheduling_strategy="SPREAD", num_returns="streaming")(work)
        try:
            while self.queue or self.running:
                self._look()
                self._hand_over()
                self._listen(LOOK)
        except KeyboardInterrupt:
            self._interrupt()
            raise
        except PerfedError:
            raise
        except Exception as broken:
            if cluster.answers(self.head):
                raise
            raise HeadLost from broken
        finally:
            self._end()

    def _look(self) -> None:
        """See, every so often, that the head is there and how large the cluster is."""
        now = time.monotonic()
        if now - self.looked < LOOK:
            return
        while not cluster.answers(self.head):
            if time.monotonic() - self.heard > SILENT:
                raise HeadLost
            time.sleep(LOOK)
        self.heard = self.looked = time.monotonic()
        self.machines = cluster.machines(self.ray)
        self.slots = int(cluster.cpus(self.machines) / max(self.engine.cpus, 0.01))

    def _hand_over(self) -> None:
        """Hand over as many cells as the cluster has room for; one whose folder is still held lets others pass."""
        for own in list(self.queue):
            if len(self.running) >= self.slots + AHEAD:
                return
            self._warn(own)
            try:
                parcel = self._pack(own)
            except Taken as held:
                self._wait(own, str(held))
                continue
            self._start(own, parcel)
            self.queue.remove(own)

    def _warn(self, own: Attempt) -> None:
        if not own.warned and not cluster.fits(self.machines, own.weight.resources):
            own.warned = True
            LOGGER.warning(
                "%s wants %s, which no machine of the cluster has; it waits for one (engine.cpus, engine.gpus and "
                "engine.memory ask for less)",
                own.cell.title,
                own.weight.said,
            )

    def _pack(self, own: Attempt) -> Parcel | None:
        """Return the folder for a worker that may not see it, packed while nobody writes there.

        A worker that Ray has given up may live on for a moment, and write.
        """
        place = own.cell.run.seed(own.cell.seed)
        own.held.close()  # by this process, where the head was lost before a worker had the cell
        with ExitStack() as held:
            held.enter_context(place.alone())
            own.reached, own.waits = place.reached, None
            parcel = None if self.engine.folder == "shared" else packed(own.cell.run, own.cell.seed)
            if self.engine.folder == "travels":
                own.held = held.pop_all()
        return parcel

    def _wait(self, own: Attempt, why: str) -> None:
        """Leave a cell in the queue whose folder is held, for as long as a lost worker may take to end."""
        own.waits = own.waits or time.monotonic()
        if time.monotonic() - own.waits > PATIENCE:
            self.queue.remove(own)
            self.ears.refuse(own.cell, why)

    def _start(self, own: Attempt, parcel: Parcel | None) -> None:
        cell = own.cell
        token = self._token(cell.run.path.parent) if self.engine.folder != "travels" else None
        sent = None if parcel is None else self.ray.put(parcel)
        order = Order(str(cell.run.path.resolve()), cell.experiment, cell.seed, cell.stop, token, sent, self.bell)
        self.running[self.task.options(**own.weight.options).remote(order, self._shared(cell))] = own

    def _token(self, folder: Path) -> tuple[str, str]:
        """Lay down a file by which a worker tells whether it sees this folder, and not another of the same name."""
        if folder not in self.tokens:
            path, secret = folder.resolve() / f".seen-{secrets.token_hex(4)}", secrets.token_hex(16)
            put(path, secret.encode())
            self.tokens[folder] = str(path), secret
        return self.tokens[folder]

    def _shared(self, cell: Cell) -> Any:
        """Return a cell's data as the cluster holds them; what lies in a large file is read where it is needed."""
        shared = cell.shared
        large = shared.samples.x.numel() * shared.samples.x.element_size() > LARGE
        if large and cell.experiment.data.made is None:
            return None
        if id(shared) not in self.data:
            _by_value(self.ray, cell)
            self.data[id(shared)] = self.ray.put(shared)
        return self.data[id(shared)]

    def _listen(self, seconds: float) -> None:
        """Hear what there is within some seconds."""
        if not self.running:
            time.sleep(PAUSE)
            return
        ready, _ = self.ray.wait(list(self.running), num_returns=1, timeout=seconds)
        for stream in ready:
            own = self.running[stream]
            try:
                news: News = self.ray.get(next(stream))
            except StopIteration:
                self._lost(stream, own, "it ended without a word")
            except self.ray.exceptions.RayTaskError as failed:
                if isinstance(failed.cause, self.ray.exceptions.RayError):  # the cluster failed the worker, not the cell
                    self._lost(stream, own, type(failed.cause).__name__)
                    continue
                self._leave(stream, own)
                self.ears.refuse(own.cell, _said(failed))
            except self.ray.exceptions.RayError as lost:
                self._lost(stream, own, type(lost).__name__)
            else:
                self._take(stream, own, news)

    def _take(self, stream: Any, own: Attempt, news: News) -> None:
        place = own.cell.run.seed(own.cell.seed)
        if news.began is not None and not news.began["shared"]:
            if self.engine.folder == "shared":
                self._leave(stream, own)
                raise RunError(f"a worker on {news.began['name']} does not see '{place.path}'; engine.folder=travels sends it")
            if self.engine.folder == "auto" and not self._hold(stream, own):
                return
        if news.parcel is not None:
            take(place, news.parcel, list(news.names))
        for seed, told in news.words:
            if self.ears.on_round:
                self.ears.on_round(seed, told)
        if news.ended is None:
            return
        self._leave(stream, own)
        if news.ended == "done":
            self.ears.finish(own.cell)
        elif news.ended == "interrupted":
            if not self.ending:
                raise KeyboardInterrupt
        else:
            self.ears.refuse(own.cell, news.ended)

    def _hold(self, stream: Any, own: Attempt) -> bool:
        """Hold a folder for a worker elsewhere; where somebody else holds it by now, that worker is stopped."""
        try:
            own.held.enter_context(own.cell.run.seed(own.cell.seed).alone())
        except Taken:
            self.ray.cancel(stream, force=True)
            self._lost(stream, own, "its folder is held by another process")
            return False
        return True

    def _leave(self, stream: Any, own: Attempt) -> None:
        del self.running[stream]
        own.held.close()

    def _lost(self, stream: Any, own: Attempt, why: str) -> None:
        """Hand a cell over again whose worker is gone; it goes on from its last checkpoint."""
        self._leave(stream, own)
        self.looked = -math.inf  # its machine may be gone, and the head with it
        reached = own.cell.run.seed(own.cell.seed).reached
        own.lost = 1 if reached != own.reached else own.lost + 1
        if own.lost > self.engine.retries:
            self.ears.refuse(own.cell, f"its worker was lost {own.lost} times without a new checkpoint ({why}); resume goes on")
            return
        since = "the start" if reached is None else f"round {reached}"
        LOGGER.log(logging.WARNING, "%s lost its worker (%s); it goes on elsewhere from %s", own.cell.title, why, since)
        self.queue.insert(0, own)

    def _interrupt(self) -> None:
        """Ring for the end: each cell writes its checkpoint after its round and sends it. Another interruption ends all at once.

        A task that Ray cancels could not send anything any more.
        """
        if not self.running or not cluster.answers(self.head):
            return
        LOGGER.info("waiting up to %.0f s for %d cells to write their checkpoints", GRACE, len(self.running))
        self.ending = True
        cluster.ring(self.ray, self.bell)
        until = time.monotonic() + GRACE
        while self.running and time.monotonic() < until:
            with suppress(PerfedError):
                self._listen(LOOK)

    def _end(self) -> None:
        """Let go of the cluster; what is still running there is stopped, and in the queue again."""
        there = cluster.answers(self.head)
        for stream, own in list(self.running.items()):
            if there:
                with suppress(Exception):
                    self.ray.cancel(stream, force=True)
            self._leave(stream, own)
            self.queue.append(own)
        self.data.clear()
        if there and self.ending:
            with suppress(Exception):
                cluster.forget(self.ray, self.bell)
        for path, _ in self.tokens.values():
            Path(path).unlink(missing_ok=True)
        self.tokens.clear()


def train(cells: Iterable[Cell], engine: Engine, ears: Ears) -> None:
    """Train every cell on a Ray cluster; when its head is lost, wait for it and go on."""
    drive, begun = Drive(cells, engine, ears), False
    with terminable():
        while drive.queue:
            try:
                with cluster.joined(engine.address) as ray:
                    begun = True
                    drive.train(ray)
            except HeadLost:
                LOGGER.warning("the head of the Ray cluster is gone; this waits for it, and `perfed resume` goes on at any time")
            except cluster.NoCluster:
                if not begun or engine.address == "local":
                    raise
                time.sleep(LOOK)


def _said(failed: Exception) -> str:
    """Return what went wrong at a worker before a cell could speak for itself."""
    cause = getattr(failed, "cause", None) or failed
    if isinstance(cause, PerfedError):
        return str(cause)
    return f"{type(cause).__name__}: {(str(cause).strip().splitlines() or [''])[-1]}"


def _by_value(ray: Any, cell: Cell) -> None:
    """Let classes of the user's own files travel with their objects: a worker cannot import them."""
    asked = cell.experiment
    made = [getattr(asked, what).made for what in ("method", "model", "data")] + [m for m in asked.metrics if callable(m)]
    for thing in made:
        name = getattr(thing if callable(thing) and hasattr(thing, "__module__") else type(thing), "__module__", "")
        module = sys.modules.get(str(name))
        file = getattr(module, "__file__", None) or ""
        own = module is not None and name != "__main__" and not str(name).startswith("perfed.") and "site-packages" not in file
        if own and file and not file.startswith(os.path.dirname(os.__file__)):  # noqa: PTH120
            ray.cloudpickle.register_pickle_by_value(module)
