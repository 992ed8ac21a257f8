"""A method of one's own in one file: FedAvg whose clients keep a running average of their models and serve it."""

from dataclasses import dataclass

from torch import Tensor

import perfed
from perfed import Budget, Method, Shard, Task, average, broadcast, descend, testing, trees
from perfed.trees import Params


@dataclass(frozen=True, kw_only=True)
class Keepsake(Method[Params, Params, Params, Params]):
    """Serve a moving average of the models this client trained."""

    memory: float = 0.7  # ρ, share of the past that is kept each round

    send = broadcast
    merge = average

    def init(self, task: Task, clients: int) -> tuple[Params, Params]:
        return task.params(), task.params()

    def local(self, task: Task, down: Params, mine: Params, data: Shard) -> tuple[Params, Params]:
        w = descend(task.loss, down, data.epochs(self.budget.epochs), self.budget)
        return w, trees.lerp(w, mine, self.memory)

    def predict(self, task: Task, down: Params, mine: Params, x: Tensor) -> Tensor:
        return task.logits(mine, x)


if __name__ == "__main__":
    testing.check_method(Keepsake(budget=Budget(lr=0.1, batch_size=8)))
    clients = perfed.federate("digits", clients=10, partition="dirichlet", alpha=0.1)
    for method in ("fedavg", Keepsake(budget=Budget(lr=0.05))):
        trained = perfed.train(clients, method, rounds=15, budget={"lr": 0.05})
        print(method if isinstance(method, str) else "keepsake", f"{trained.accuracy:.3f}")
