"""Ditto (Li et al., ICML 2021): beside the common model, a personal one on a spring."""

from dataclasses import dataclass

from torch import Tensor

from ..local import Batch, Shard, descend
from ..local.losses import proximal
from ..method import Method, positive
from ..method.search import log
from ..server import average, broadcast
from ..task import Task
from ..trees import Params


@dataclass(frozen=True, kw_only=True)
class Ditto(Method[Params, Params, Params, Params]):
    """Train w as FedAvg does; train v on the same data, held near the received w."""

    crosses = "body head | body head | body head"  # fields that go down, go up and stay
    search = {"spring": log(0.05, 5)}  # worth tuning, and in which range

    cost = 2.0

    spring: float = 1.0  # λ, pull of the personal model towards the received one
    personal_epochs: int | None = None  # passes for the personal model; if none, the budget's
    rule: str = "mean"  # how answers are averaged: by samples; uniform, median, trimmed:0.1

    send = broadcast
    merge = average

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("Ditto", "spring (λ)", self.spring, "without it the personal model is Local; 0.01 to 1 is usual")
        positive("Ditto", "personal_epochs", self.own_epochs, "the personal model would never be trained")

    @property
    def passes(self) -> int:
        return self.budget.epochs + self.own_epochs

    @property
    def own_epochs(self) -> int:
        return self.budget.epochs if self.personal_epochs is None else self.personal_epochs

    def init(self, task: Task, clients: int) -> tuple[Params, Params]:
        return task.params(), task.params()

    def local(self, task: Task, down: Params, mine: Params, data: Shard) -> tuple[Params, Params]:
        def held(v: Params, batch: Batch) -> Tensor:  # the anchor is the received model, not the one trained below
            return task.loss(v, batch) + self.spring * proximal(v, down)

        v = descend(held, mine, data.epochs(self.own_epochs, "personal"), self.budget)
        w = descend(task.loss, down, data.epochs(self.budget.epochs), self.budget)
        return w, v

    def predict(self, task: Task, down: Params, mine: Params, x: Tensor) -> Tensor:
        return task.logits(mine, x)
