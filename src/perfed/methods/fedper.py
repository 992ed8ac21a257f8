"""FedPer (Arivazhagan et al., 2019): a shared body, a head of one's own, trained together."""

from dataclasses import dataclass

from torch import Tensor

from ..local import Shard, descend
from ..method import Method
from ..server import average, broadcast
from ..task import Task
from ..trees import Params


@dataclass(frozen=True, kw_only=True)
class FedPer(Method[Params, Params, Params, Params]):
    """Average the body; never let the head leave."""

    rule: str = "mean"  # how answers are averaged: by samples; uniform, median, trimmed:0.1

    crosses = "body | body | head"  # fields that go down, go up and stay
    guarded = (
        "yes: the body is all that leaves, and it is clipped and noised as one; the head stays exact | yes: body and "
        "head train in the same steps, which are clipped and noised together, so the head is noised too"
    )
    newcomer = (
        "the common body | fits a head of its own to it, from the start that everyone had | "
        "ours: the paper trains head and body together, here the body is held"
    )

    send = broadcast
    merge = average

    def init(self, task: Task, clients: int) -> tuple[Params, Params]:
        return task.split(task.params())

    def local(self, task: Task, down: Params, mine: Params, data: Shard) -> tuple[Params, Params]:
        return task.split(descend(task.loss, down | mine, data.epochs(self.budget.epochs), self.budget))

    def predict(self, task: Task, down: Params, mine: Params, x: Tensor) -> Tensor:
        return task.logits(down | mine, x)
