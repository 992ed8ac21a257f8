"""Local training alone, also called Separate or SingleSet: no communication at all."""

from dataclasses import dataclass

from torch import Tensor

from ..local import Shard, descend
from ..method import Method
from ..server import Uploads, broadcast
from ..task import Task
from ..trees import Params

Nothing = tuple[()]


@dataclass(frozen=True, kw_only=True)
class Local(Method[Nothing, Nothing, Nothing, Params]):
    """Train on one's own data only: what collaboration has to beat."""

    crosses = " |  | body head"  # fields that go down, go up and stay
    guarded = "no: nothing leaves, so there is nothing to noise | no: nothing leaves, so there is nothing to noise"
    newcomer = "nothing | trains a model of its own, from the start that everyone had | the paper's: there is nobody to ask"

    send = broadcast

    def init(self, task: Task, clients: int) -> tuple[Nothing, Params]:
        return (), task.params()

    def local(self, task: Task, down: Nothing, mine: Params, data: Shard) -> tuple[Nothing, Params]:
        return (), descend(task.loss, mine, data.epochs(self.budget.epochs), self.budget)

    def merge(self, server: Nothing, ups: Uploads[Nothing]) -> Nothing:
        return ()

    def predict(self, task: Task, down: Nothing, mine: Params, x: Tensor) -> Tensor:
        return task.logits(mine, x)
