"""FedBABU (Oh et al., ICLR 2022): share a body trained against one random head, and tune both only to serve."""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from ..local import Batch, Shard, descend
from ..method import Method, positive
from ..method.search import among
from ..server import average, broadcast
from ..task import Norm, Task
from ..trees import Params


@dataclass(frozen=True, kw_only=True)
class FedBABU(Method[Params, Params, Params, Params]):
    """Keep the head everyone started with while the body is learned together; fine-tune before serving."""

    tune_epochs: int = 10  # passes of fine-tuning before a client is tested
    tune: Literal["all", "head", "body"] = "all"  # what fine-tuning moves
    rule: str = "mean"  # how answers are averaged: by samples; uniform, median, trimmed:0.1
    norm: Norm = "all"

    crosses = "body | body | head"  # fields that go down, go up and stay
    guarded = (
        "yes: the body is all that leaves, and it is clipped and noised as one | yes: every step of the body is clipped "
        "and noised, against a head that never saw data; the fine-tuning before a test stays at home, exact"
    )
    search = {"tune_epochs": among(1, 5, 10)}  # worth tuning, and in which range
    newcomer = (
        "the common body | fine-tunes it and the head that everyone has, for the method's own passes (tune_epochs) | the paper's"
    )

    send = broadcast
    merge = average

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("FedBABU", "tune_epochs", self.tune_epochs, "it would be tested with the random head it started from")

    @property
    def tuning(self) -> int:
        return self.tune_epochs

    def init(self, task: Task, clients: int) -> tuple[Params, Params]:
        return task.split(task.params())  # one head for all, drawn once: it is never trained nor sent

    def local(self, task: Task, down: Params, mine: Params, data: Shard) -> tuple[Params, Params]:
        return self._body(task, down, mine, data, self.budget.epochs, "body"), mine

    def _body(self, task: Task, start: Params, head: Params, data: Shard, epochs: int, stream: str) -> Params:
        def move(body: Params, batch: Batch) -> Tensor:
            return task.fit(task.still.classify(head, task.features(body, batch.x)), batch)

        return descend(move, start, data.epochs(epochs, stream), self.budget)

    def adapt(self, task: Task, down: Params, mine: Params, data: Shard) -> tuple[Params, Params]:
        if self.tune == "body":
            return self._body(task, down, mine, data, self.tune_epochs, "tune"), mine

        def fit(head: Params, batch: Batch) -> Tensor:
            return task.fit(task.classify(head, task.served.features(down, batch.x)), batch)

        visits = data.epochs(self.tune_epochs, "tune")
        if self.tune == "head":
            return down, descend(fit, mine, visits, self.budget)
        return task.split(descend(task.loss, down | mine, visits, self.budget))

    def predict(self, task: Task, down: Params, mine: Params, x: Tensor) -> Tensor:
        return task.logits(down | mine, x)
