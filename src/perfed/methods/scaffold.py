"""SCAFFOLD (Karimireddy et al., ICML 2020): correct each client's drift by the difference of two control variates."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from .. import trees
from ..errors import MethodError
from ..local import Batch, Shard, descend
from ..method import Method, positive
from ..method.search import linear
from ..server import Uploads, averaged, combine
from ..task import Norm, Task
from ..trees import Params


class Server(NamedTuple):
    model: Params  # x
    control: Params  # c, the mean gradient of all clients
    clients: Tensor  # N


class Down(NamedTuple):
    model: Params
    control: Params


class Up(NamedTuple):
    model: Params  # y_i itself, not a difference: what a BatchNorm policy withholds must be recognised
    change: Params  # c_i⁺ − c_i


@dataclass(frozen=True, kw_only=True)
class Scaffold(Method[Server, Down, Up, Params]):
    """Step along g − c_i + c, where c_i and c remember the gradients of the client and of everyone."""

    crosses = "control model | change model | body head"  # fields that go down, go up and stay
    guarded = (
        "yes: the model is clipped and noised, and the change of the control variate follows from it and from what is "
        "known | yes: every step is clipped and noised, and control variates follow from the models that these lead to"
    )
    search = {"server_lr": linear(0.5, 1)}  # worth tuning, and in which range
    newcomer = (
        "the common model and the common control variate | serves the model as it is, as everyone does | "
        "the paper's: there is nothing personal to fit"
    )

    title = "SCAFFOLD"

    server_lr: float = 1.0  # η_g, how far the server goes towards the mean answer
    rule: str = "uniform"  # how answers are averaged: evenly, the paper's; weighted by samples, median, trimmed:0.1
    norm: Norm = "all"

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("SCAFFOLD", "server_lr (η_g)", self.server_lr, "the server would never move; 1 is usual")
        if self.budget.optimizer != "sgd":
            raise MethodError(
                "SCAFFOLD reads mean gradients off the distance a client went, which Adam rescales; use budget.optimizer=sgd"
            )

    def init(self, task: Task, clients: int) -> tuple[Server, Params]:
        kept = task.withheld(self.norm)  # what is never averaged has no drift to correct
        control = {k: torch.zeros_like(v) for k, v in trees.weights(task.params()).items() if k not in kept}
        return Server(task.params(), control, torch.tensor(clients)), trees.clone(control)

    def send(self, server: Server, client: int) -> Down:
        return Down(server.model, server.control)

    def admit(self, server: Server) -> Server:
        return server._replace(clients=server.clients + 1)

    def local(self, task: Task, down: Down, mine: Params, data: Shard) -> tuple[Up, Params]:
        x, control = down
        drift = trees.map(torch.sub, control, mine)  # c − c_i
        steps: list[Tensor] = []

        def corrected(y: Params, batch: Batch) -> Tensor:  # the gradient of ⟨y, c − c_i⟩ is the correction
            return task.loss(y, batch) + trees.dot({k: y[k] for k in drift}, drift)

        y = descend(corrected, x, _counted(data.epochs(self.budget.epochs), steps), self.budget)
        reach = self.budget.lr * self._weight(torch.stack(steps).sum())
        # option II: c_i⁺ = c_i − c + (x − y) / (K η)
        new = {k: (x[k] - y[k]) / reach - d for k, d in drift.items()}
        return Up(y, trees.map(torch.sub, new, mine)), new

    def unmoved(self, task: Task, down: Down) -> Up:
        return Up(down.model, {})

    def derived(self, task: Task, down: Down, released: Up, data: Shard) -> Up:
        """Return the answer with c_i⁺ − c_i = (x − y) / (K η) − c, which says nothing that x, y and c do not."""
        reach = self.budget.lr * self._weight(torch.tensor(float(self.budget.epochs * data.steps)))
        change = {k: (down.model[k] - released.model[k]) / reach.to(c.device) - c for k, c in down.control.items()}
        return released._replace(change=change)

    def _weight(self, steps: Tensor) -> Tensor:
        """Return K, or what K gradients weigh in all when momentum repeats the early ones."""
        m = self.budget.momentum
        return (steps - m * (1 - m**steps) / (1 - m)) / (1 - m) if m else steps

    def merge(self, server: Server, ups: Uploads[Up]) -> Server:
        answers = ups.trees
        model = averaged(self.rule, ups.each(lambda up: up.model))
        if self.server_lr != 1:
            model = trees.lerp(server.model, model, self.server_lr)
        share = 1 / int(server.clients)  # |S|/N times the mean over S: absent clients count with no change
        weights = [1.0] + [share] * len(answers)
        return Server(model, combine(weights, [server.control] + [up.change for up in answers]), server.clients)

    def predict(self, task: Task, down: Down, mine: Params, x: Tensor) -> Tensor:
        return task.logits(down.model, x)

    def after(self, down: Down, up: Up) -> Down:
        return down._replace(model=up.model)


def _counted(batches: Iterator[Batch], steps: list[Tensor]) -> Iterator[Batch]:
    """Pass batches on and note each that has a real sample."""
    for batch in batches:
        steps.append(torch.ones((), device=batch.y.device) if batch.mask is None else (batch.mask.amax() > 0).float())
        yield batch
