"""FedAvg with fine-tuning (Wang et al., 2019): before a test, a client trains the common model a little further."""

from dataclasses import dataclass

from torch import Tensor

from ..local import Shard, descend
from ..method import Method, positive
from ..method.search import among
from ..server import average, broadcast
from ..task import Norm, Task
from ..trees import Params


@dataclass(frozen=True, kw_only=True)
class FedAvgFT(Method[Params, Params, Params, tuple[()]]):
    """Federate as FedAvg does; personalise only at the end, by fine-tuning what was received."""

    crosses = "body head | body head | "  # fields that go down, go up and stay
    guarded = (
        "yes: the model is all that leaves, and it is clipped and noised as one | yes: every step that leads to the "
        "model is clipped and noised; the fine-tuning before a test stays at home, exact"
    )
    search = {"tune_epochs": among(1, 2, 5)}  # worth tuning, and in which range
    newcomer = "the common model | fine-tunes it, for the method's own passes (tune_epochs) | the paper's"

    title = "FedAvg+FT"

    tune_epochs: int = 1  # passes over the client's own training data before it is tested
    rule: str = "mean"  # how answers are averaged: by samples; uniform, median, trimmed:0.1
    norm: Norm = "all"

    send = broadcast
    merge = average

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("FedAvg with fine-tuning", "tune_epochs", self.tune_epochs, "without tuning it is FedAvg")

    @property
    def tuning(self) -> int:
        return self.tune_epochs

    def init(self, task: Task, clients: int) -> tuple[Params, tuple[()]]:
        return task.params(), ()

    def local(self, task: Task, down: Params, mine: tuple[()], data: Shard) -> tuple[Params, tuple[()]]:
        return descend(task.loss, down, data.epochs(self.budget.epochs), self.budget), ()

    def adapt(self, task: Task, down: Params, mine: tuple[()], data: Shard) -> tuple[Params, tuple[()]]:
        return descend(task.loss, down, data.epochs(self.tune_epochs, "tune"), self.budget), ()

    def predict(self, task: Task, down: Params, mine: tuple[()], x: Tensor) -> Tensor:
        return task.logits(down, x)
