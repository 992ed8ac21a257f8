"""A run as analyses see it: its record, its clients' states, and any round of it replayed."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from perfed import experiment, trees
from perfed.build import samples_of
from perfed.errors import InputError, RunError
from perfed.evaluate.scores import Line
from perfed.experiment import Run
from perfed.job import Job
from perfed.method import Method
from perfed.record import Lines, get_json, load_state, read_state, snapshots
from perfed.server import Uploads
from perfed.transport import Private, Site, Store
from perfed.trees import Params, Tree

LIMIT = 400  # samples of a client that an analysis looks at, unless told otherwise


@dataclass(frozen=True)
class Answer:
    """What one client did in one round: what it was sent and had, what it sent and has."""

    down: Tree
    mine: Tree
    up: Tree  # as it crosses
    after: Tree  # what the client would serve right after training
    kept: Private


@dataclass(frozen=True)
class State:
    """Everything that was there after a round."""

    round: int
    site: Site
    server: Tree
    privates: dict[int, Private] = field(repr=False)
    first: Private = field(repr=False)

    def private(self, client: int) -> Private:
        """Return what a client keeps to itself."""
        return self.privates.get(client, self.first)

    def held(self, client: int, *, adapted: bool = True) -> tuple[Tree, Tree]:
        """Return what a client serves with: what it was sent, and its own."""
        private, method = self.private(client), self.site.method
        down, mine = self.site.withheld.overlay(method.send(self.server, client), private.kept), private.mine
        if adapted and type(method).adapt is not Method.adapt:
            data = self.site.federation.shard(client, self.round, method.budget.batch_size, self.site.task.needs_pairs)
            down, mine = method.adapt(self.site.task, down, mine, data)
        return down, mine

    def replay(self, client: int, site: Site | None = None) -> Answer:
        """Do a client's part of the next round again, bit for bit as the run did it."""
        site = site or self.site
        sent, private = site.method.send(self.server, client), self.private(client)
        up, kept, whole = site.train(client, sent, private, self.round + 1)
        down = site.withheld.overlay(sent, private.kept)
        return Answer(down, private.mine, up, site.method.after(down, whole), kept)

    def next(self, participants: list[int]) -> tuple["State", dict[int, Answer]]:
        """Do the next round again: the state after it, and what every participant did."""
        answers = {client: self.replay(client) for client in participants}
        sizes = [self.site.federation.sizes[client] for client in participants]
        server = self.site.method.merge(self.server, Uploads(participants, sizes, [a.up for a in answers.values()]))
        privates = self.privates | {client: answer.kept for client, answer in answers.items()}
        return State(self.round + 1, self.site, server, privates, self.first), answers

    def samples(self, client: int, part: str = "test", limit: int = LIMIT) -> tuple[Tensor, Tensor]:
        """Return at most ``limit`` inputs of a client, and their labels."""
        rows = getattr(self.site.federation, part)[client][:limit]
        if not len(rows):
            raise RunError(f"client {client} has no {part} samples to look at")
        return self.site.federation.inputs(self.site.federation.x[rows], None), self.site.federation.y[rows]

    @torch.no_grad()
    def seen(self, client: int, x: Tensor, part: str = "body", held: tuple[Tree, Tree] | None = None) -> Tensor:
        """Return what a part of the network (``body``, or one that the method inserts) gives while the client predicts."""
        site = self.site
        found: list[Tensor] = []
        skeleton = site.task.body.skeleton if part == "body" else site.task.parts[part].skeleton

        def keep(_module: nn.Module, _inputs: tuple[Tensor, ...], output: Tensor) -> None:
            found.append(output.detach())

        hook = skeleton.serving.register_forward_hook(keep)
        try:
            down, mine = held or self.held(client)
            site.method.predict(site.task.served, down, mine, x)
        finally:
            hook.remove()
        if not found:
            raise RunError(f"{type(site.method).__name__} does not use its '{part}' when it predicts")
        return found[-1]


def model(down: Tree, mine: Tree) -> Params:
    """Return the parameters of a client's network by name; where it has its own of what it was sent, its own."""
    found: Params = {}
    for tree in (down, mine):
        for path, leaf in trees.named(tree):
            name = path.rpartition("/")[2]
            if leaf.is_floating_point():
                found[name] = leaf
    return found


@dataclass(frozen=True)
class Subject:
    """One seed of a run."""

    path: Path
    seed: int | None = None

    @cached_property
    def run(self) -> Run:
        return experiment.opened(self.path)

    @cached_property
    def number(self) -> int:
        """The seed."""
        seeds = self.run.settings.seeds
        if self.seed is not None and self.seed not in seeds:
            raise InputError(f"'{self.path}' has seeds {', '.join(map(str, seeds))}, not {self.seed}")
        return seeds[0] if self.seed is None else self.seed

    @property
    def folder(self) -> Path:
        return self.run.path / f"seed-{self.number}"

    @cached_property
    def lines(self) -> list[Line]:
        found: list[Line] = list(Lines(self.folder / "rounds.jsonl").read())
        if not found:
            raise RunError(f"'{self.path}' has not finished a round yet; `perfed resume {self.path}` goes on with it")
        return found

    @cached_property
    def clients(self) -> dict[str, Any]:
        return dict(get_json(self.folder / "clients.json"))

    @property
    def names(self) -> list[str]:
        return list(self.clients["names"])

    @property
    def method(self) -> str:
        return self.run.settings.method.name

    @cached_property
    def job(self) -> Job:
        settings = self.run.settings
        samples = samples_of(settings)
        return Job(settings, self.number, self.folder, samples, experiment.splits_of(self.run, samples)[self.number])

    @cached_property
    def last(self) -> State:
        """The state after the last checkpoint."""
        if not (self.folder / "checkpoint.json").exists():
            raise RunError(f"'{self.path}' has no checkpoint yet; let it finish a round")
        return self._state(lambda job, store: load_state(self.folder, job.server, store, job.template))

    @property
    def kept(self) -> list[int]:
        """The rounds after which states were kept."""
        return list(snapshots(self.folder))

    def states(self, why: str) -> Iterator[State]:
        """Yield the states that were kept along the way, from the first; say how to keep some where there are none."""
        found = snapshots(self.folder)
        if not found:
            raise RunError(
                f"'{self.path}' kept no states along the way, and {why} over rounds needs them; "
                "run it again with snapshots=1, or snapshots=10 for every tenth round"
            )
        for number, path in found.items():
            yield self._state(self._reader(number, path))

    def _reader(self, number: int, path: Path) -> Callable[[Job, Store], tuple[int, Tree]]:
        return lambda job, store: (number, read_state(path, job.server, store, job.template))

    def course(self, why: str) -> Iterator[State]:
        """Yield the states kept along the way, or the last one where there are none."""
        yield from self.states(why) if self.kept else iter([self.last])

    def _state(self, read: Callable[[Job, Store], tuple[int, Tree]]) -> State:
        job = self.job
        store = Store(job.store.first, len(self.names))  # empty: an early state has fewer clients with one of their own
        number, server = read(job, store)
        return State(number, job.site, server, {client: store[client] for client in store}, store.first)

    def participants(self, number: int) -> list[int]:
        """Return who took part in a round."""
        line = next((line for line in self.lines if line["round"] == number), None)
        if line is not None:
            return list(line["participants"])
        return self.run.settings.sampling.participants(self.number, number, len(self.names))

    def chosen(self, client: int | None) -> list[int]:
        """Return the clients to look at: the one that was named, or all."""
        count = len(self.names)
        if client is None:
            return list(range(count))
        if not 0 <= client < count:
            raise InputError(f"there is no client {client}; clients are numbered 0 to {count - 1}")
        return [client]

    def needs(self, what: str, *methods: str) -> None:
        """Refuse an analysis of something that only some methods have."""
        if self.method not in methods:
            raise RunError(f"{what} is part of {' and '.join(methods)}; '{self.path}' is a run of {self.method}")
