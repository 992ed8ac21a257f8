"""Clients kept by the actors of a Ray cluster: data and private states stay with them, answers are taken in client order."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from typing import Any

from .. import cluster, trees
from ..errors import InputError, RunError
from ..evaluate.scores import Score
from ..server import in_turn
from ..trees import Tree
from .crate import opened, packed
from .keeper import Failed, Keeper, part
from .simulated import Simulated
from .site import ClientError, Private, Site
from .store import Store

AHEAD = 64  # states that are fetched together
WAITING = 4  # parcels of answers that an actor may have on the way
LOOK = 5.0  # seconds after which a cluster without a free CPU is spoken of


class ClientsLost(RunError):
    """An actor is gone, and with it what its clients kept since the last checkpoint."""


class Rayed(Simulated):
    """Trains and scores clients at actors, one per CPU that the cluster has, or ``workers`` of them."""

    name = "ray"

    def __init__(
        self, site: Site, store: Store, workers: int | None = None, address: str = "auto", *, budget: int = 4 << 30
    ) -> None:
        if site.task.device.type != "cpu":
            raise InputError("transport=ray keeps clients on CPUs; engine=ray gives GPUs to the cells of a study")
        super().__init__(site, store)
        self._open = ExitStack()
        self._ray = self._open.enter_context(cluster.joined(address))
        there = int(cluster.cpus(cluster.machines(self._ray)))
        if there < 1:
            self._open.close()
            raise RunError("no machine of the Ray cluster has a CPU to give; add one, then resume")
        count = min(workers or there, there, len(site.federation))
        self._homes = _shared_out(site.federation.sizes, count)
        self._keepers: list[Any] = []
        kind = self._ray.remote(num_cpus=1, max_restarts=0, scheduling_strategy="SPREAD")(Keeper)
        for own in self._clients():
            self._keepers.append(kind.remote(part(site, own), store.first, budget // count))
        begun = list(store)
        try:
            for keeper, here in zip(self._keepers, map(set, self._clients()), strict=True):
                self._get(keeper.take.remote({client: packed(store[client]) for client in begun if client in here}))
        except BaseException:
            self.close()
            raise
        store.lend(_Away(self, set(begun)))

    def _clients(self) -> list[list[int]]:
        found: list[list[int]] = [[] for _ in range(max(self._homes) + 1)]
        for client, home in enumerate(self._homes):
            found[home].append(client)
        return found

    def _asked(self, server: Tree, ids: Sequence[int]) -> Iterator[tuple[Any, list[int], Any]]:
        """Yield every actor with those of its clients that are asked, and what they are sent: once per machine if alike."""
        send = self.site.method.send
        one = self._ray.put(packed(send(server, ids[0]))) if self.alike else None
        for home, keeper in enumerate(self._keepers):
            own = [client for client in ids if self._homes[client] == home]
            if own:
                yield keeper, own, self._ray.put([packed(send(server, client)) for client in own]) if one is None else one

    def _answers(self, server: Tree, ids: list[int], number: int, lost: set[int], after: bool) -> Iterator[Any]:
        """Yield answers in client order; those that come early wait."""
        away = self.store.away
        assert isinstance(away, _Away)
        if self.alike:
            self.ledger.down(self.site.method.send(server, ids[0]), len(ids))
        else:
            for client in ids:
                self.ledger.down(self.site.method.send(server, client))
        streams = [
            keeper.train.options(num_returns="streaming", _generator_backpressure_num_objects=WAITING).remote(
                own, down, number, after
            )
            for keeper, own, down in self._asked(server, ids)
        ]
        away.stale(ids)
        for client, up in in_turn(ids, self._coming(streams)):
            if client not in lost:
                self.ledger.up(up)
                yield up

    def _coming(self, streams: list[Any]) -> Iterator[tuple[int, Any]]:
        left = list(streams)
        while left:
            ready, _ = self._ray.wait(left, num_returns=1)
            for stream in ready:
                try:
                    answers = self._get(next(stream))
                except StopIteration:
                    left.remove(stream)
                    continue
                for one in answers:
                    _refuse(one)
                    if one.after is not None:
                        self.after[one.client] = one.after
                    yield one.client, opened(one.up)

    def score(self, server: Tree, ids: Sequence[int], number: int, parts: tuple[str, ...]) -> list[list[Score]]:
        asked = [(own, keeper.score.remote(own, down, number, parts)) for keeper, own, down in self._asked(server, ids)]
        found: dict[int, list[Score]] = {}
        for own, coming in asked:
            scores = self._get(coming)
            _refuse(scores)
            found |= dict(zip(own, scores, strict=True))
        return [found[client] for client in ids]

    def states(self, clients: Sequence[int]) -> list[Private]:
        """Return private states of clients that one actor keeps."""
        keeper = self._keepers[self._homes[clients[0]]]
        return [opened(state) for state in self._get(keeper.states.remote(list(clients)))]

    def near(self, client: int, among: set[int]) -> list[int]:
        """Return a client and those after it at the same actor, whose states are wanted next."""
        own = [other for other in sorted(among) if other >= client and self._homes[other] == self._homes[client]]
        return own[:AHEAD]

    def _get(self, reference: Any) -> Any:
        try:
            return self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as failed:
            raise ClientError(f"{type(failed.cause).__name__}: {failed.cause}") from failed
        except self._ray.exceptions.RayError as gone:
            raise ClientsLost(
                f"a machine with clients' states was lost ({type(gone).__name__}); `perfed resume` goes on from its checkpoint"
            ) from gone

    def close(self) -> None:
        """Take the states home, where that is still possible, and end the actors."""
        with suppress(ClientsLost):
            self.store.home()
        self.store.away = None
        for keeper in self._keepers:
            with suppress(Exception):
                self._ray.kill(keeper)
        self._keepers = []
        self._open.close()


class _Away:
    """The states that actors keep; some are fetched ahead, since who asks for one asks for the next."""

    def __init__(self, transport: Rayed, begun: set[int]) -> None:
        self.transport, self.begun = transport, begun
        self.fetched: dict[int, Private] = {}

    def stale(self, clients: Sequence[int]) -> None:
        """Forget what was fetched: these clients train."""
        self.begun |= set(clients)
        self.fetched.clear()

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self.begun))

    def get(self, client: int, first: Private) -> Private:
        """Return a client's state, or what every client begins with."""
        if client not in self.begun:
            return first
        if client not in self.fetched:
            near = self.transport.near(client, self.begun)
            if sum(map(trees.memory, self.fetched.values())) > 1 << 28:
                self.fetched.clear()
            self.fetched |= dict(zip(near, self.transport.states(near), strict=True))
        return self.fetched[client]


def _refuse(found: Any) -> None:
    """Raise what went wrong at a client."""
    if isinstance(found, Failed):
        raise (InputError if found.kind == "InputError" else ClientError)(found.text)


def _shared_out(sizes: Sequence[int], count: int) -> list[int]:
    """Return each client's actor: the largest first, each to the one with the fewest samples so far."""
    held, homes = [0] * count, [0] * len(sizes)
    for client in sorted(range(len(sizes)), key=lambda i: (-sizes[i], i)):
        home = min(range(count), key=lambda i: (held[i], i))
        homes[client] = home
        held[home] += max(1, sizes[client])
    return homes
