"""A run as analyses see it: its record, its clients' states, and any round of it replayed."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from .. import methods, trees
from ..errors import InputError, RunError
from ..evaluate.scores import Line
from ..method import Method
from ..runs.assemble import method_of
from ..runs.experiment import Experiment
from ..runs.folder import RunFolder, SeedFolder
from ..runs.run import known, opened, reshared
from ..runs.seed import Seed
from ..server import Uploads
from ..serving.personal import Trained
from ..transport import Private, Site
from ..trees import Params, Tree

Held = tuple[Tree, Tree]  # what a client was sent, and its own
LIMIT = 400  # samples of a client that an analysis looks at, unless told otherwise


@dataclass(frozen=True)
class Replayed:
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

    def held(self, client: int, *, adapted: bool = True) -> Held:
        """Return what a client serves with: what it was sent, and its own."""
        private, method = self.private(client), self.site.method
        down, mine = self.site.withheld.overlay(method.send(self.server, client), private.kept), private.mine
        if adapted and type(method).adapt is not Method.adapt:
            data = self.site.shard(client, self.round)
            down, mine = method.adapt(self.site.task, down, mine, data)
        return down, mine

    def replay(self, client: int, site: Site | None = None) -> Replayed:
        """Do a client's part of the next round again, bit for bit as the run did it."""
        site = site or self.site
        sent, private = site.method.send(self.server, client), self.private(client)
        up, kept, whole = site.train(client, sent, private, self.round + 1)
        down = site.withheld.overlay(sent, private.kept)
        return Replayed(down, private.mine, up, site.method.after(down, whole), kept)

    def next(self, participants: list[int]) -> tuple["State", dict[int, Replayed]]:
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
    def seen(self, client: int, x: Tensor, held: Held | None = None) -> Tensor:
        """Return the features that the network's body gives while the client predicts."""
        site = self.site
        found: list[Tensor] = []

        def keep(_module: nn.Module, _inputs: tuple[Tensor, ...], output: Tensor) -> None:
            found.append(output.detach())

        hook = site.task.body.skeleton.serving.register_forward_hook(keep)
        try:
            down, mine = held or self.held(client)
            site.method.predict(site.task.served, down, mine, x)
        finally:
            hook.remove()
        if not found:
            raise RunError(f"{site.method.title} does not use the network's body when it predicts")
        return found[-1]

    @torch.no_grad()
    def representations(self, client: int, x: Tensor) -> dict[str, Tensor]:
        """Return what a client's model makes of ``x``, by name: several where the method shows them, else its features."""
        method = self.site.method
        if "representations" not in method.views:
            return {"features": self.seen(client, x)}
        return method.representations(self.site.task.served, *self.held(client), x)


def model(site: Site, down: Tree, mine: Tree) -> Params:
    """Return the parameters that a client serves with, by name; where its own and what it was sent both take part, its own.

    A name may stand in several branches (SCAFFOLD's control variates are called as parameters are): what counts is whether
    the scores pass through a leaf.
    """
    paths = [path for path, _ in trees.named((down, mine))]
    moving = [leaf.is_floating_point() and not trees.is_state(path) for path, leaf in trees.named((down, mine))]
    leaves = [leaf.detach().clone().requires_grad_(m) for leaf, m in zip(trees.leaves((down, mine)), moving, strict=True)]
    sent, own = trees.rebuild((down, mine), leaves)
    rows = site.federation.train[0][:2]
    with torch.enable_grad():
        scores = site.method.predict(site.task.served, sent, own, site.federation.inputs(site.federation.x[rows], None))
        asked = [leaf for leaf, m in zip(leaves, moving, strict=True) if m]
        slopes = iter(torch.autograd.grad(scores.sum(), asked, allow_unused=True))
    used = [m and next(slopes) is not None for m in moving]
    return {path.rpartition("/")[2]: leaf.detach() for path, leaf, own in zip(paths, leaves, used, strict=True) if own}


def _state(reached: Trained) -> State:
    store = reached.store
    return State(reached.number, reached.site, reached.server, {client: store[client] for client in store}, store.first)


@dataclass(frozen=True)
class Subject:
    """One seed of a run."""

    path: Path
    seed: int | None = None

    @cached_property
    def run(self) -> RunFolder:
        return opened(self.path)

    @cached_property
    def experiment(self) -> Experiment:
        return known(self.run)

    @cached_property
    def number(self) -> int:
        """The seed."""
        seeds = self.run.experiment.seeds
        if self.seed is not None and self.seed not in seeds:
            raise InputError(f"'{self.path}' has seeds {', '.join(map(str, seeds))}, not {self.seed}")
        return seeds[0] if self.seed is None else self.seed

    @property
    def folder(self) -> SeedFolder:
        return self.run.seed(self.number)

    @cached_property
    def lines(self) -> list[Line]:
        found: list[Line] = list(self.folder.lines.read())
        if not found:
            raise RunError(f"'{self.path}' has not finished a round yet; `perfed resume {self.path}` goes on with it")
        return found

    @cached_property
    def clients(self) -> dict[str, Any]:
        return self.folder.clients

    @property
    def names(self) -> list[str]:
        return list(self.clients["names"])

    @property
    def method(self) -> str:
        return self.run.experiment.method.name

    @cached_property
    def _seed(self) -> Seed:
        return Seed(reshared(self.run, self.experiment).assemble(self.experiment, self.number), self.folder)

    @property
    def site(self) -> Site:
        """The method on its clients' data."""
        return self._seed.made.site

    @property
    def start(self) -> State:
        """The state before any training."""
        made = self._seed.made
        return State(0, made.site, made.server, {}, made.first)

    @cached_property
    def last(self) -> State:
        """The state after the last checkpoint."""
        if self.folder.reached is None:
            raise RunError(f"'{self.path}' has no checkpoint yet; let it finish a round")
        return _state(self._seed.at())

    @property
    def kept(self) -> list[int]:
        """The rounds after which states were kept."""
        return list(self.folder.snapshots)

    def states(self, why: str) -> Iterator[State]:
        """Yield the states that were kept along the way, from the first; say how to keep some where there are none."""
        if not self.kept:
            raise RunError(
                f"'{self.path}' kept no states along the way, and {why} over rounds needs them; "
                "run it again with snapshots=1, or snapshots=10 for every tenth round"
            )
        for number in self.kept:
            yield _state(self._seed.at(number))

    def course(self, why: str) -> Iterator[State]:
        """Yield the states kept along the way, or the last one where there are none."""
        yield from self.states(why) if self.kept else iter([self.last])

    def participants(self, number: int) -> list[int]:
        """Return who took part in a round."""
        line = next((line for line in self.lines if line["round"] == number), None)
        if line is not None:
            return list(line["participants"])
        return self.run.experiment.sampling.participants(self.number, number, len(self.names))

    def chosen(self, client: int | None) -> list[int]:
        """Return the clients to look at: the one that was named, or all."""
        count = len(self.names)
        if client is None:
            return list(range(count))
        if not 0 <= client < count:
            raise InputError(f"there is no client {client}; clients are numbered 0 to {count - 1}")
        return [client]

    def needs(self, view: str, what: str) -> None:
        """Refuse an analysis of something that only some methods show."""
        method = method_of(self.experiment)
        if view not in method.views:
            owners = " and ".join(methods.showing(view))
            raise RunError(f"{what} is part of {owners}; '{self.path}' is a run of {method.title}")
