"""Worker processes with one thread each: data by fork, states through shared memory, answers in client order."""

import ctypes
import multiprocessing as mp
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

import torch

from .. import trees
from ..errors import InputError, PerfedError, RunError
from ..evaluate.scores import Score
from ..machine import cores
from ..server import in_turn
from ..trees import Tree
from .arena import Arena
from .simulated import Simulated
from .site import ClientError, Site
from .store import Store

_AHEAD = 2  # jobs per worker: one that runs and one that waits, so that no worker does
_HOLD = 1 << 30  # bytes of answers that may wait for their turn


class Job(NamedTuple):
    verb: str  # "train" or "score"
    client: int
    number: int
    slot: int
    down: Any  # where the message lies: in the common arena or, with the private state, in the slot's
    private: Any
    common: bool
    parts: tuple[str, ...]
    after: bool


class _Worker(NamedTuple):
    process: Any
    pipe: Connection
    inbox: list[Arena]
    outbox: list[Arena]


class Pooled(Simulated):
    """Trains and scores clients in processes that were forked from this one: so many ``workers``, or one per device."""

    name = "pooled"

    def __init__(
        self, site: Site, store: Store, workers: int | None = None, *, devices: Sequence[str] = (), reserve: int = 4 << 30
    ) -> None:
        if site.task.device.type != "cpu" or sys.platform != "linux":
            raise InputError(
                "transport=pooled shares memory between forked processes on Linux, and its server is on the CPU; "
                "devices=cuda:0,cuda:1 has it train on GPUs, serial and stacked train on one"
            )
        if any(name.startswith("cuda") for name in devices) and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            raise InputError("a forked worker cannot use a GPU that this process has used before; train in a process of its own")
        if workers is not None and workers < 1:
            raise InputError(f"workers must be at least 1, got {workers}")
        super().__init__(site, store)
        self._common = Arena(reserve)
        self._workers: list[_Worker] = []
        places = devices or ("cpu",) * (workers or cores())
        for place in places[: len(site.federation)]:
            self._workers.append(self._start(place, reserve))

    def _start(self, place: str, reserve: int) -> _Worker:
        context = mp.get_context("fork")
        here, there = context.Pipe()
        inbox, outbox = ([Arena(reserve) for _ in range(_AHEAD)] for _ in range(2))
        ends = [w.pipe for w in self._workers] + [here]
        process = context.Process(target=_work, args=(self.site, place, there, self._common, inbox, outbox, ends), daemon=True)
        process.start()
        there.close()
        return _Worker(process, here, inbox, outbox)

    def _answers(self, server: Tree, ids: list[int], number: int, lost: set[int], after: bool) -> Iterator[Any]:
        """Yield answers in client order; those that come early wait, within bounds."""

        def coming() -> Iterator[tuple[int, Any]]:
            for client, (spots, score), worker, slot in self._run("train", server, ids, number, after=after):
                up, private = worker.outbox[slot].read(spots)
                self.store[client] = trees.clone(private)
                if score is not None:
                    self.after[client] = score
                yield client, trees.clone(up)

        for client, up in in_turn(ids, coming()):
            if client not in lost:
                self.ledger.up(up)
                yield up

    def score(self, server: Tree, ids: Sequence[int], number: int, parts: tuple[str, ...]) -> list[list[Score]]:
        scores = {client: result for client, result, _, _ in self._run("score", server, list(ids), number, parts=parts)}
        return [scores[i] for i in ids]

    def _run(
        self, verb: str, server: Tree, ids: list[int], number: int, *, parts: tuple[str, ...] = (), after: bool = False
    ) -> Iterator[tuple[int, Any, _Worker, int]]:
        """Hand out jobs, longest first where answers fit, and yield each result while its slot is unwritten."""
        spots = self._common.write(self.site.method.send(server, ids[0])) if self.alike else None
        weight = trees.nbytes(server) * len(ids)
        sizes = self.site.federation.sizes
        queue = sorted(ids, key=lambda i: -sizes[i]) if weight < _HOLD or verb == "score" else list(ids)
        free = [(worker, slot) for slot in range(_AHEAD) for worker in self._workers]
        open_jobs = 0
        queue.reverse()
        while queue or open_jobs:
            while free and queue:
                worker, slot = free.pop(0)
                job = Job(verb, queue.pop(), number, slot, None, None, spots is not None, parts, after)
                self._hand(worker, server, spots, job)
                open_jobs += 1
            for pipe in wait([w.pipe for w in self._workers]):
                worker = next(w for w in self._workers if w.pipe is pipe)
                client, slot, result = self._receive(worker)
                open_jobs -= 1
                yield client, result, worker, slot
                free.append((worker, slot))

    def _hand(self, worker: _Worker, server: Tree, spots: Any, job: Job) -> None:
        """Send a job to a worker, with the message and the private state in shared memory."""
        client, slot = job.client, job.slot
        private = self.store[client]
        if spots is None:
            down = self.site.method.send(server, client)
            where, kept = worker.inbox[slot].write((down, private))
        else:
            down = server
            where, kept = spots, worker.inbox[slot].write(private)
        if job.verb == "train":
            self.ledger.down(down)
        try:
            worker.pipe.send(job._replace(down=where, private=kept))
        except (BrokenPipeError, OSError) as broken:
            raise self._died(worker) from broken

    def _receive(self, worker: _Worker) -> tuple[int, int, Any]:
        try:
            client, slot, result, error = worker.pipe.recv()
        except (EOFError, ConnectionResetError) as broken:
            raise self._died(worker) from broken
        if error is not None:
            kind, text = error
            raise (ClientError if kind != "InputError" else InputError)(text)
        return client, slot, result

    def _died(self, worker: _Worker) -> RunError:
        worker.process.join(1)
        return RunError(
            f"a worker process ended unexpectedly (exit code {worker.process.exitcode}); "
            "often the machine ran out of memory: try fewer workers"
        )

    def close(self) -> None:
        """End the workers."""
        for worker in self._workers:
            worker.pipe.close()
        for worker in self._workers:
            worker.process.join(0.5)
            if worker.process.is_alive():
                worker.process.terminate()
                worker.process.join()
        self._workers = []


def _work(
    site: Site,
    place: str,
    pipe: Connection,
    common: Arena,
    inbox: list[Arena],
    outbox: list[Arena],
    ends: list[Connection],
) -> None:
    """A worker's life on its device: take a job, do it, answer, until the pipe closes."""
    for end in ends:  # inherited; held open they would hide the parent's death
        end.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: never outlive the parent
    torch.set_num_threads(1)
    keep_memory()
    site = site.to(place)
    while True:
        try:
            job: Job = pipe.recv()
        except (EOFError, ConnectionError):  # the parent closes the pipe, also while something is on its way
            return
        result, error = None, None
        try:
            result = _do(site, job, common, inbox[job.slot], outbox[job.slot])
        except PerfedError as refused:
            error = (type(refused).__name__, str(refused))
        except Exception as failed:
            error = (type(failed).__name__, f"client {job.client}: {traceback.format_exc()}")
        try:
            pipe.send((job.client, job.slot, result, error))
        except ConnectionError:
            return


def _do(site: Site, job: Job, common: Arena, inbox: Arena, outbox: Arena) -> Any:
    if job.common:
        down, private = common.read(job.down), inbox.read(job.private)
    else:
        down, private = inbox.read((job.down, job.private))
    if site.task.device.type != "cpu":
        down, private = trees.to(down, site.task.device), trees.to(private, site.task.device)
    if job.verb == "score":
        return site.score(job.client, down, private, job.number, job.parts)
    up, private, whole = site.train(job.client, down, private, job.number)
    score = site.after(job.client, down, whole, private.mine, job.number) if job.after else None
    return outbox.write((up, private)), score


def keep_memory() -> None:
    """Keep freed memory in this process: returning gradients to the system each step costs a third of it."""
    try:
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(-1, 1 << 30)  # M_TRIM_THRESHOLD
        libc.mallopt(-3, 1 << 30)  # M_MMAP_THRESHOLD
    except OSError:  # another C library: nothing to keep
        pass
