"""FedAvg (McMahan et al., AISTATS 2017): average the models that clients train from a common start."""

from dataclasses import dataclass

from torch import Tensor

from ..local import Shard, descend
from ..method import Method
from ..server import average, broadcast
from ..task import Norm, Task
from ..trees import Params


@dataclass(frozen=True, kw_only=True)
class FedAvg(Method[Params, Params, Params, tuple[()]]):
    """One model for all: the reference that personal models have to beat."""

    rule: str = "mean"  # how answers are averaged: by samples; uniform, median, trimmed:0.1
    norm: Norm = "all"

    crosses = "body head | body head | "  # fields that go down, go up and stay
    guarded = (
        "yes: the model is all that leaves, and it is clipped and noised as one | yes: every step that leads to the "
        "model is clipped and noised"
    )
    newcomer = "the common model | serves it as it is, as everyone does | the paper's: there is nothing personal to fit"

    send = broadcast
    merge = average

    def init(self, task: Task, clients: int) -> tuple[Params, tuple[()]]:
        return task.params(), ()

    def local(self, task: Task, down: Params, mine: tuple[()], data: Shard) -> tuple[Params, tuple[()]]:
        return descend(task.loss, down, data.epochs(self.budget.epochs), self.budget), ()

    def predict(self, task: Task, down: Params, mine: tuple[()], x: Tensor) -> Tensor:
        return task.logits(down, x)
