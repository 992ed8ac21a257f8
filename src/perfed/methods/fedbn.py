"""FedBN (Li et al., ICLR 2021): FedAvg in which nothing of a BatchNorm layer leaves its client."""

from dataclasses import dataclass

from torch import Tensor

from ..errors import MethodError
from ..local import Shard, descend
from ..method import Method
from ..server import average, broadcast
from ..task import Norm, Task
from ..trees import Params


@dataclass(frozen=True, kw_only=True)
class FedBN(Method[Params, Params, Params, tuple[()]]):
    """Average everything but normalisation, which absorbs each client's feature shift."""

    crosses = "body head | body head | kept"  # fields that go down, go up and stay
    guarded = (
        "yes: all but BatchNorm leaves, clipped and noised as one; BatchNorm stays at home, exact | no: BatchNorm mixes "
        "the samples of a batch, so no single sample's part can be clipped"
    )
    newcomer = (
        "the common model but for BatchNorm | fits BatchNorm layers of its own, scales, shifts and statistics | "
        "ours: so nothing of anyone's layers has to leave"
    )

    needs = "BatchNorm"

    rule: str = "uniform"  # how answers are averaged: evenly, the original's; weighted by samples, median, trimmed:0.1
    norm: Norm = "local_all"

    send = broadcast
    merge = average

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.norm != "local_all":
            raise MethodError(
                f"FedBN keeps all of BatchNorm at home, so norm must be local_all, got {self.norm}; "
                "fedavg takes the other policies"
            )

    def check(self, task: Task, sizes: list[int], participants: int) -> None:
        if not task.has_norm:
            raise MethodError(
                "FedBN needs a network with BatchNorm layers, this one has none and it would be FedAvg; try model=cnn_bn"
            )

    def init(self, task: Task, clients: int) -> tuple[Params, tuple[()]]:
        return task.params(), ()

    def local(self, task: Task, down: Params, mine: tuple[()], data: Shard) -> tuple[Params, tuple[()]]:
        return descend(task.loss, down, data.epochs(self.budget.epochs), self.budget), ()

    def predict(self, task: Task, down: Params, mine: tuple[()], x: Tensor) -> Tensor:
        return task.logits(down, x)
