"""Step 3: a method of your own: FedAvg whose clients serve a running average of the models they trained."""

from dataclasses import dataclass

from torch import Tensor

from perfed import Method, Shard, Task, average, broadcast, descend, trees
from perfed.trees import Params


@dataclass(frozen=True, kw_only=True)
class Keepsake(Method[Params, Params, Params, Params]):
    """Serve a moving average of the models this client trained."""

    memory: float = 0.7  # ρ, share of the past that is kept each round

    send = broadcast  # everybody receives what the server has
    merge = average  # weighted by training samples

    def init(self, task: Task, clients: int) -> tuple[Params, Params]:
        return task.params(), task.params()

    def local(self, task: Task, down: Params, mine: Params, data: Shard) -> tuple[Params, Params]:
        w = descend(task.loss, down, data.epochs(self.budget.epochs), self.budget)
        return w, trees.lerp(w, mine, self.memory)

    def predict(self, task: Task, down: Params, mine: Params, x: Tensor) -> Tensor:
        return task.logits(mine, x)
