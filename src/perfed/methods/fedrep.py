"""FedRep (Collins et al., ICML 2021): a shared body, a head of one's own, trained in turn."""

from dataclasses import dataclass, replace

from torch import Tensor

from ..errors import MethodError
from ..local import Batch, Shard, descend
from ..method import Method
from ..method.search import among
from ..server import average, broadcast
from ..task import Task
from ..trees import Params


@dataclass(frozen=True, kw_only=True)
class FedRep(Method[Params, Params, Params, Params]):
    """Fit the head to the received body, then move the body towards that head."""

    crosses = "body | body | head"  # fields that go down, go up and stay
    guarded = (
        "yes: the body is all that leaves, and it is clipped and noised as one; the head stays exact | yes: the steps of "
        "the head are clipped, noised and counted as those of the body are, because the body moves against that head"
    )
    search = {"head_epochs": among(1, 2, 5)}  # worth tuning, and in which range
    newcomer = "the common body | fits a head of its own to it, from the start that everyone had | the paper's step for the head"

    cost = 1.5

    head_epochs: int = 1  # passes over the data for the head before the body moves
    rule: str = "mean"  # how answers are averaged: by samples; uniform, median, trimmed:0.1

    send = broadcast
    merge = average

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.head_epochs < 1:
            raise MethodError(f"FedRep needs head_epochs ≥ 1, got {self.head_epochs}: its head would never be trained")

    @property
    def passes(self) -> int:
        return self.budget.epochs + self.head_epochs

    @property
    def guarded_passes(self) -> int:
        return self.budget.epochs + self.head_epochs

    def init(self, task: Task, clients: int) -> tuple[Params, Params]:
        return task.split(task.params())

    def local(self, task: Task, down: Params, mine: Params, data: Shard) -> tuple[Params, Params]:
        def see(x: Tensor) -> Tensor:  # a frozen body is served: its statistics do not move either
            return task.served.features(down, x)

        def fit(head: Params, batch: Batch) -> Tensor:
            return task.fit(task.classify(head, see(batch.x) if batch.seen is None else batch.seen), batch)

        def move(body: Params, batch: Batch) -> Tensor:
            return task.fit(task.still.classify(head, task.features(body, batch.x)), batch)

        head = descend(fit, mine, data.epochs(self.head_epochs, "head", see), self.budget)
        body = descend(move, down, data.epochs(self.budget.epochs, "body"), self.budget)
        return body, head

    def join(self, task: Task, down: Params, mine: Params, data: Shard) -> tuple[Params, Params]:
        return super(FedRep, replace(self, head_epochs=self.budget.epochs)).join(task, down, mine, data)

    def predict(self, task: Task, down: Params, mine: Params, x: Tensor) -> Tensor:
        return task.logits(down | mine, x)
