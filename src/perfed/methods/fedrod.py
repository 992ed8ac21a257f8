"""FedRoD (Chen & Chao, ICLR 2022): a generic head trained for all classes alike, a personal one on top of it."""

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from ..local import Batch, Shard, descend
from ..local.losses import balanced
from ..method import Method
from ..server import average, broadcast
from ..task import Task
from ..trees import Params


class Model(NamedTuple):
    generic: Params  # body and head
    personal: Params  # the client's own head


@dataclass(frozen=True, kw_only=True)
class FedRoD(Method[Params, Params, Params, Params]):
    """Train body and generic head by balanced softmax; let a personal head correct its scores, without moving them."""

    rule: str = "mean"  # how answers are averaged: by samples; uniform, median, trimmed:0.1

    crosses = "body head | body head | head"  # fields that go down, go up and stay
    guarded = (
        "yes: the model is all that leaves, and it is clipped and noised as one; the personal head stays exact | no: its "
        "balanced loss uses the client's counts of labels, which are not noised"
    )
    newcomer = (
        "the common body and generic head | fits a personal head that corrects the generic one | "
        "ours: the paper trains all together, here what is common is held"
    )
    names_classes = "its common head is balanced over classes"

    send = broadcast
    merge = average

    def init(self, task: Task, clients: int) -> tuple[Params, Params]:
        start = task.params()
        return start, task.split(start)[1]

    def local(self, task: Task, down: Params, mine: Params, data: Shard) -> tuple[Params, Params]:
        counts = data.counts  # of all the client's samples: a class it has is never counted zero

        def loss(m: Model, batch: Batch) -> Tensor:
            z = task.features(m.generic, batch.x)
            scores = task.classify(m.generic, z)
            both = scores.detach() + task.classify(m.personal, z.detach())
            return balanced(scores, counts, batch) + task.fit(both, batch)

        w = descend(loss, Model(down, mine), data.epochs(self.budget.epochs), self.budget)
        return w.generic, w.personal

    def predict(self, task: Task, down: Params, mine: Params, x: Tensor) -> Tensor:
        z = task.features(down, x)
        return task.classify(down, z) + task.classify(mine, z)
