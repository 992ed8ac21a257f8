"""What happens at a client, whatever carries the messages there."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .. import keys
from ..errors import InputError, PerfedError
from ..evaluate.metrics import Asked, Begun, Metric, begin, finish, select
from ..evaluate.scores import Score
from ..federation import Federation
from ..local import Shard
from ..local.guard import Guard, Keyed, Noise, System
from ..method import Method
from ..privacy import Privacy, released, same_form
from ..task import Task
from ..trees import Params, Tree, named
from ..wire import Withheld


class Private(NamedTuple):
    """What a client keeps between rounds."""

    mine: Tree  # the method's own
    kept: Params  # leaves of the network that never leave under the BatchNorm policy


class ClientError(PerfedError):
    """A verb failed at a client; the message names both."""


@dataclass(frozen=True)
class Site:
    """A method, a task and the data: everything a client needs besides messages."""

    method: Method[Any, Any, Any, Any]
    task: Task
    federation: Federation
    withheld: Withheld
    metrics: tuple[Metric, ...] = select(())
    privacy: Privacy = Privacy()
    secret: bool = False  # noise from the operating system, not from the run's keys

    @staticmethod
    def of(
        method: Method[Any, Any, Any, Any],
        task: Task,
        federation: Federation,
        metrics: Sequence[Asked] = (),
        clients: int | None = None,
    ) -> tuple["Site", Tree, Private]:
        """Return the site, the server's first state and every client's first private state.

        ``clients`` is how many there are in all, where the federation holds only some of them.
        """
        server, mine = method.init(task, len(federation) if clients is None else clients)
        if task.needs_pairs and min(federation.sizes) < 2:
            small = federation.sizes.index(min(federation.sizes))
            raise InputError(f"client {small} has {min(federation.sizes)} training sample; BatchNorm needs at least two")
        start = task.params()
        for part in task.parts.values():
            start |= part.start
        names = task.withheld(method.norm)
        withheld = Withheld({k: start[k] for k in sorted(names)})
        return Site(method, task, federation, withheld, select(metrics, task.goal)), server, Private(mine, {})

    def to(self, device: torch.device | str) -> "Site":
        """Return this site with its samples and the network's start on a device."""
        if torch.device(device) == self.task.device:
            return self
        start = {name: leaf.to(device) for name, leaf in self.withheld.start.items()}
        return replace(self, task=self.task.to(device), federation=self.federation.to(device), withheld=Withheld(start))

    def shard(self, client: int, number: int) -> Shard:
        """Return what a client trains on in a round."""
        budget = self.method.budget
        data = self.federation.shard(client, number, budget.batch_size, self.task.needs_pairs)
        return replace(data, length=budget.steps, balance=budget.balance, stored=budget.order == "stored")

    def train(self, client: int, down: Tree, private: Private, number: int) -> tuple[Tree, Private, Tree]:
        """Return a client's answer, its next private state, and the answer before anything was withheld."""
        data = self._guarded(self.shard(client, number)) if self.privacy.name == "sample" else self.shard(client, number)
        with self._named("local", client), torch.random.fork_rng(devices=[]):
            self._seed(data)
            whole, mine = self.method.local(self.task, self.withheld.overlay(down, private.kept), private.mine, data)
        up, kept = self.withheld.hide(whole)
        if self.privacy.name == "client":
            up = self._released(client, down, up, data)
        return up, Private(mine, kept), whole

    def _seed(self, data: Shard) -> None:
        """Seed the generator that modules with dropout draw from, since they take no key; every device's costs 0.14 ms a call."""
        own = torch.default_generator.manual_seed if self.task.device.type == "cpu" else torch.manual_seed
        own(keys.seed_of(data.key))

    def _noise(self, data: Shard) -> Noise:
        return System() if self.secret else Keyed(keys.fold(data.key, "privacy"))

    def guarded_steps(self, client: int) -> int:
        """Return how many steps of a round lead to a client's answer: what the accountant is told of."""
        return self.method.guarded_passes * self.shard(client, 1).steps

    def _guarded(self, data: Shard) -> Shard:
        """Return a client's data with what its steps keep to under privacy=sample."""
        promised = self.method.guarded_passes * data.steps
        guard = Guard(self.privacy.clip, self.privacy.noise, self._noise(data), promised, self.method.home)
        return replace(data, guard=guard)

    def _released(self, client: int, down: Tree, up: Tree, data: Shard) -> Tree:
        """Return an answer as it may leave under privacy=client; what the client keeps stays exact."""
        with self._named("unmoved", client):
            still, _ = self.withheld.hide(self.method.unmoved(self.task, down))
            crossing = {path for path, _ in self.withheld.crossing(still)}
            moved = released(self.privacy, dict(named(up)), still, crossing, self._noise(data))
            found = self.method.derived(self.task, down, moved, data)
        if not same_form(found, up):
            raise ClientError(
                f"{self.method.title} has other leaves in its noised answer than in its own; see `unmoved` and `derived`"
            )
        return found

    def join(self, client: int, down: Tree, mine: Tree, number: int) -> tuple[Tree, Tree]:
        """Return the states of a newcomer who has fitted its own parts to what it was sent."""
        data = self.shard(client, number)
        with self._named("join", client), torch.random.fork_rng(devices=[]):
            self._seed(data)
            return self.method.join(self.task, down, mine, data)

    def score(self, client: int, down: Tree, private: Private, number: int, parts: tuple[str, ...]) -> list[Score]:
        """Return how the model that a client would serve does on each part of its data."""
        return [*finish(self.metrics, self.begin(client, down, private, number, parts))]

    def begin(self, client: int, down: Tree, private: Private, number: int, parts: tuple[str, ...]) -> list[Begun]:
        """Predict each part of a client's data, to be measured together with other clients'."""
        return self._begin(client, self.withheld.overlay(down, private.kept), private.mine, number, parts)

    def judge(self, client: int, down: Tree, mine: Tree, number: int, parts: tuple[str, ...]) -> list[Score]:
        """Return how given states do on each part of a client's data."""
        return [*finish(self.metrics, self._begin(client, down, mine, number, parts))]

    def _begin(self, client: int, down: Tree, mine: Tree, number: int, parts: tuple[str, ...]) -> list[Begun]:
        down, mine = self.adapted(client, down, mine, number)
        with self._named("predict", client), torch.no_grad():
            predict: Callable[[Tensor], Tensor] = lambda x: self.method.predict(self.task.served, down, mine, x)  # noqa: E731
            return [self._predicted(client, predict, part) for part in parts]

    def adapted(self, client: int, down: Tree, mine: Tree, number: int) -> tuple[Tree, Tree]:
        """Return what a client predicts with: for methods that tune before they serve, what that makes of it."""
        if type(self.method).adapt is Method.adapt:
            return down, mine
        data = self.shard(client, number)
        with self._named("adapt", client):
            return self.method.adapt(self.task, down, mine, data)

    def after(self, client: int, down: Tree, whole: Tree, mine: Tree, number: int) -> Score:
        """Return how the client does on its test data right after training."""
        return self.judge(client, self.method.after(down, whole), mine, number, ("test",))[0]

    def _predicted(self, client: int, predict: Callable[[Tensor], Tensor], part: str) -> Begun:
        if not len(rows := getattr(self.federation, part)[client]):  # networks need not take a batch of none
            return begin(self.metrics, rows, rows)
        batches = [(predict(batch.x), batch.y) for batch in self.federation.batches(client, part)]
        scores, labels = zip(*batches, strict=True)
        return begin(self.metrics, torch.cat(scores), torch.cat(labels))

    def _named(self, verb: str, client: int) -> "_Named":
        return _Named(
            f"{type(self.method).__name__}.{verb} failed at client {client} ({self.federation.sizes[client]} training samples)"
        )


class _Named:
    """Turns an unexpected error into one that says where it happened."""

    def __init__(self, where: str) -> None:
        self.where = where

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is not None and isinstance(error, Exception) and not isinstance(error, PerfedError):
            raise ClientError(f"{self.where}: {type(error).__name__}: {error}") from error
