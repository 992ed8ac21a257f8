"""FedProx (Li et al., MLSys 2020): FedAvg on a spring that holds clients near the received model."""

from dataclasses import dataclass

from torch import Tensor

from ..local import Shard, descend
from ..method import Method, positive
from ..method.search import log
from ..server import average, broadcast
from ..task import Norm, Task
from ..trees import Params


@dataclass(frozen=True, kw_only=True)
class FedProx(Method[Params, Params, Params, tuple[()]]):
    """Add (μ/2)‖w − w_received‖² to every client's loss."""

    spring: float = 0.1  # μ, pull towards the received model
    rule: str = "mean"  # how answers are averaged: by samples; uniform, median, trimmed:0.1
    norm: Norm = "all"

    crosses = "body head | body head | "  # fields that go down, go up and stay
    guarded = (
        "yes: the model is all that leaves, and it is clipped and noised as one | yes: every step that leads to the "
        "model is clipped and noised, its pull towards the received model with them"
    )
    search = {"spring": log(0.001, 1)}  # worth tuning, and in which range
    at_first = {"spring": 0.001}
    newcomer = "the common model | serves it as it is, as everyone does | the paper's: there is nothing personal to fit"

    send = broadcast
    merge = average

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("FedProx", "spring (μ)", self.spring, "without it FedProx is FedAvg; 0.001 to 1 is the paper's grid")

    def init(self, task: Task, clients: int) -> tuple[Params, tuple[()]]:
        return task.params(), ()

    def local(self, task: Task, down: Params, mine: tuple[()], data: Shard) -> tuple[Params, tuple[()]]:
        return descend(task.loss, down, data.epochs(self.budget.epochs), self.budget, spring=(self.spring, down)), ()

    def predict(self, task: Task, down: Params, mine: tuple[()], x: Tensor) -> Tensor:
        return task.logits(down, x)
