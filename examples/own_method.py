# %% [markdown]
# # A method of one's own
# FedAvg whose clients keep a running average of the models they trained, and serve that one.

# %%
"""A method of one's own in one file, checked and compared."""

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


# %% [markdown]
# The public checks: purity, wire, transports, absent clients, resume.

# %%
if __name__ == "__main__":
    testing.check_method(Keepsake(budget=Budget(lr=0.1, batch_size=8)))

    # %% Beside others, on the same split with the same steps
    split = {"data": "digits", "clients": 10, "partition": "dirichlet", "alpha": 0.1}
    found = perfed.compare(["local", "fedavg", Keepsake()], rounds=15, budget={"lr": 0.1}, **split)
    print(found.table()[["method", "last.weighted", "last.std"]])
