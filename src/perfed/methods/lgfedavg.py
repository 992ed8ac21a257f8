"""LG-FedAvg (Liang et al., 2020): bodies of one's own under a shared head, after a start from FedAvg."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from .. import trees
from ..errors import MethodError
from ..local import Shard, descend
from ..method import Method
from ..server import Uploads, averaged
from ..task import Task
from ..trees import Params


class Server(NamedTuple):
    body: Params  # averaged during the warm-up, then the checkpoint that later clients begin with
    head: Params
    begun: Tensor  # which clients have trained a body of their own
    round: Tensor


class Down(NamedTuple):
    head: Params
    common: Params  # the body during the warm-up
    checkpoint: Params  # the body to begin with, until everyone has begun


class Up(NamedTuple):
    head: Params
    common: Params  # empty after the warm-up


class Mine(NamedTuple):
    body: Params
    begun: Tensor


@dataclass(frozen=True, kw_only=True)
class LGFedAvg(Method[Server, Down, Up, Mine]):
    """Train everything together for a while; then keep the body and average only the head."""

    crosses = "common head | common head | begun body"  # fields that go down, go up and stay
    guarded = (
        "yes: what leaves, the whole model in the warm-up and the head afterwards, is clipped and noised as one; the "
        "body stays exact | yes: head and body train in the same steps, which are clipped and noised together, so the "
        "body is noised too"
    )
    newcomer = (
        "the common head, and the body at the end of the warm-up | trains a body of its own from that one, under the head | "
        "the paper's way of clients that begin late; ours that the head is held"
    )

    title = "LG-FedAvg"

    warmup: int = 20  # rounds of full FedAvg before bodies become personal
    rounds: int = 300  # T, rounds of the whole run
    rule: str = "uniform"  # how answers are averaged: evenly, the original's; weighted by samples, median, trimmed:0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.warmup < self.rounds:
            raise MethodError(
                f"LG-FedAvg needs warmup in [0, rounds), got {self.warmup} of {self.rounds} rounds: "
                "it would be FedAvg all the way; set method.warmup lower"
            )

    def init(self, task: Task, clients: int) -> tuple[Server, Mine]:
        body, head = task.split(task.params())
        begun = torch.zeros(clients, dtype=torch.bool)
        return Server(body, head, begun, torch.zeros((), dtype=torch.int64)), Mine(trees.clone(body), begun.any())

    def send(self, server: Server, client: int) -> Down:
        if int(server.round) < self.warmup:
            return Down(server.head, server.body, {})
        needed = self.warmup and not bool(server.begun.all())  # without a warm-up everyone has the start already
        return Down(server.head, {}, server.body if needed else {})

    def admit(self, server: Server) -> Server:
        return server._replace(begun=torch.cat([server.begun, server.begun.new_zeros(1)]))

    def forms(self, server: Server) -> list[Down]:
        after = server._replace(round=torch.full_like(server.round, self.warmup))
        all_begun = after._replace(begun=torch.ones_like(server.begun))
        return [self.send(at, 0) for at in (server, after, all_begun)]

    def local(self, task: Task, down: Down, mine: Mine, data: Shard) -> tuple[Up, Mine]:
        start = self._body(down, mine) | down.head
        body, head = task.split(descend(task.loss, start, data.epochs(self.budget.epochs), self.budget))
        if down.common:
            return Up(head, body), mine
        return Up(head, {}), Mine(body, torch.ones_like(mine.begun))

    def unmoved(self, task: Task, down: Down) -> Up:
        return Up(down.head, down.common)

    def _body(self, down: Down, mine: Mine) -> Params:
        """Return the common body during the warm-up, one's own afterwards, the checkpoint in between."""
        if down.common:
            return down.common
        if not down.checkpoint:
            return mine.body
        return trees.map(lambda own, first: torch.where(mine.begun, own, first), mine.body, down.checkpoint)

    def merge(self, server: Server, ups: Uploads[Up]) -> Server:
        new = averaged(self.rule, ups)
        if new.common:
            return server._replace(body=new.common, head=new.head, round=server.round + 1)
        begun = server.begun.scatter(0, torch.tensor(ups.ids), True)
        return server._replace(head=new.head, begun=begun, round=server.round + 1)

    def predict(self, task: Task, down: Down, mine: Mine, x: Tensor) -> Tensor:
        return task.logits(self._body(down, mine) | down.head, x)

    def after(self, down: Down, up: Up) -> Down:
        return Down(up.head, up.common, {})
