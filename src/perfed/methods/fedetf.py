"""FedETF (Li et al., ICCV 2023): a classifier fixed as a simplex, the features turned towards it."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import MethodError
from ..local import Batch, Budget, Shard, descend
from ..local.losses import balanced
from ..method import Method, positive
from ..server import average, broadcast
from ..task import Norm, Part, Task
from ..trees import Params


class Model(NamedTuple):
    body: Params
    projection: Params
    scale: Params  # β, one number that sharpens the cosines


@dataclass(frozen=True, kw_only=True)
class FedETF(Method[Model, Model, Model, Params]):
    """Learn body, projection and scale against class vectors as far apart as they can be."""

    directions: int = 0  # d, size of the projected features; 0 takes the number of classes
    personal: int = 0  # rounds of personal fine-tuning before a test; 0 serves the common model, the original takes 20
    personal_epochs: int = 3  # passes for the class vectors, then as many for the projection, in each of these rounds
    vector_lr: float = 0.1  # step size of the class vectors in fine-tuning
    projection_lr: float = 0.05  # step size of the projection in fine-tuning
    rule: str = "mean"  # how answers are averaged: by samples; uniform, median, trimmed:0.1
    norm: Norm = "all"

    crosses = "body projection scale | body projection scale | "  # fields that go down, go up and stay
    guarded = (
        "yes: body, projection and scale are clipped and noised as one | no: its balanced loss uses the client's counts "
        "of labels, which are not noised"
    )
    newcomer = (
        "the common body, projection and scale | serves them as they are, or fine-tunes as everyone does (personal) | the paper's"
    )
    names_classes = "its head is a simplex with a corner for every class"

    send = broadcast
    merge = average

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.personal < 0:
            raise MethodError(f"FedETF needs personal ≥ 0, got {self.personal}; 20 is the original's")
        positive("FedETF", "personal_epochs", self.personal_epochs, "personal=0 turns fine-tuning off")

    @property
    def tuning(self) -> int:
        return 2 * self.personal * self.personal_epochs

    def check(self, task: Task, sizes: list[int], participants: int) -> None:
        if task.classes < 2 or self._width(task) < task.classes:
            raise MethodError(
                f"FedETF needs 2 ≤ classes ≤ directions (d), got {task.classes} classes and {self._width(task)} directions"
            )

    def init(self, task: Task, clients: int) -> tuple[Model, Params]:
        self._simplex(task)
        scale = {"scale": torch.ones((), dtype=task.dtype, device=task.device)}
        return Model(task.split(task.params())[0], self._projection(task).params(), scale), {}

    def _width(self, task: Task) -> int:
        return self.directions or task.classes

    def _projection(self, task: Task) -> Part:
        return task.part("projection", lambda: nn.Linear(task.width, self._width(task)))

    def _simplex(self, task: Task) -> Part:
        return task.part("simplex", lambda: _simplex(self._width(task), task.classes))

    def local(self, task: Task, down: Model, mine: Params, data: Shard) -> tuple[Model, Params]:
        counts, simplex = data.counts, self._simplex(task)

        def loss(m: Model, batch: Batch) -> Tensor:
            z = task.features(m.body, batch.x)
            cosines = simplex(simplex.start, self._turned(task, m.projection, z))
            return balanced(m.scale["scale"] * cosines, counts, batch)

        return descend(loss, down, data.epochs(self.budget.epochs), self.budget), mine

    def _turned(self, task: Task, projection: Params, z: Tensor) -> Tensor:
        return F.normalize(self._projection(task)(projection, z))

    def adapt(self, task: Task, down: Model, mine: Params, data: Shard) -> tuple[Model, Params]:
        """Tune class vectors and projection in turn, on the plain cross-entropy."""
        if not self.personal:
            return down, mine
        simplex = self._simplex(task)

        def loss(m: Params, batch: Batch) -> Tensor:
            z = task.served.features(down.body, batch.x).detach()
            return task.fit(down.scale["scale"] * simplex(m, self._turned(task, m, z)), batch)

        both, rates = down.projection | simplex.params(), {"simplex": self.vector_lr, "projection": self.projection_lr}
        for turn, (part, lr) in enumerate(list(rates.items()) * self.personal):
            visits = data.epochs(self.personal_epochs, f"tune {turn}")
            both = _tuned(loss, both, part, visits, replace(self.budget, lr=lr))
        return down._replace(projection={k: both[k] for k in down.projection}), simplex.take(both)

    def predict(self, task: Task, down: Model, mine: Params, x: Tensor) -> Tensor:
        simplex = self._simplex(task)
        return simplex(mine or simplex.start, self._turned(task, down.projection, task.features(down.body, x)))


def _simplex(width: int, classes: int) -> nn.Module:
    """Return the equiangular tight frame √(C/(C−1)) P (I − 11'/C), P with orthonormal columns, as a linear layer."""
    frame = nn.Linear(width, classes, bias=False)
    nn.init.orthogonal_(frame.weight)
    with torch.no_grad():
        frame.weight.copy_(math.sqrt(classes / (classes - 1)) * (frame.weight - frame.weight.mean(0)))
    return frame


def _tuned(loss: Callable[[Params, Batch], Tensor], both: Params, part: str, visits: Iterator[Batch], budget: Budget) -> Params:
    """Return ``both`` after training only the leaves of ``part``."""
    still = {k: v for k, v in both.items() if not k.startswith(f"{part}.")}
    moved = {k: v for k, v in both.items() if k not in still}
    return still | descend(lambda m, batch: loss(still | m, batch), moved, visits, budget)
