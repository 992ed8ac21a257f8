"""Ditto (Li et al., ICML 2021): beside the common model, a personal one on a spring."""

from dataclasses import dataclass

from torch import Tensor

from ..local import Shard, descend
from ..method import Method, positive
from ..method.search import log
from ..server import average, broadcast
from ..task import Task
from ..trees import Params


@dataclass(frozen=True, kw_only=True)
class Ditto(Method[Params, Params, Params, Params]):
    """Train w as FedAvg does; train v on the same data, held near the received w."""

    crosses = "body head | body head | body head"  # fields that go down, go up and stay
    guarded = (
        "yes: the model is all that leaves, and it is clipped and noised as one; the personal model stays exact | yes: "
        "every step of the common model is clipped and noised; the personal model never enters it and stays exact"
    )
    search = {"spring": log(0.05, 5)}  # worth tuning, and in which range
    newcomer = (
        "the common model | trains a personal model on a spring to it, from it | "
        "the paper's step; ours that it begins at the common model"
    )

    cost = 2.0
    home = ("personal",)
    at_first = {"personal_epochs": 1}

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
        v = self._personal(task, down, mine, data, self.own_epochs)
        w = descend(task.loss, down, data.epochs(self.budget.epochs), self.budget)
        return w, v

    def _personal(self, task: Task, down: Params, start: Params, data: Shard, epochs: int) -> Params:
        held = (self.spring, down)  # to the received model, not to the one trained below
        return descend(task.loss, start, data.epochs(epochs, "personal"), self.budget, spring=held)

    def join(self, task: Task, down: Params, mine: Params, data: Shard) -> tuple[Params, Params]:
        return down, self._personal(task, down, down, data, self.budget.epochs)

    def predict(self, task: Task, down: Params, mine: Params, x: Tensor) -> Tensor:
        return task.logits(mine, x)
