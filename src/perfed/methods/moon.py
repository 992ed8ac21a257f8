"""MOON (Li et al., CVPR 2021): pull features towards the received model's and away from one's own previous ones."""

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn

from ..local import Batch, Shard, descend
from ..method import Method, positive
from ..method.search import log
from ..server import average, broadcast
from ..task import Norm, Task
from ..trees import Params


@dataclass(frozen=True, kw_only=True)
class Moon(Method[Params, Params, Params, Params]):
    """Contrast each sample's feature with what the received and the client's last model make of it."""

    crosses = "body head | body head | body"  # fields that go down, go up and stay
    guarded = (
        "yes: the model is clipped and noised as one; the previous model that it contrasts with stays at home, exact | "
        "yes: every step is clipped and noised, and the previous model is the outcome of such steps"
    )
    search = {"contrast": log(0.1, 10)}  # worth tuning, and in which range
    newcomer = "the common model | serves it as it is, as everyone does | the paper's: there is nothing personal to fit"

    title = "MOON"
    cost = 2.0

    contrast: float = 1.0  # μ, weight of the contrastive term
    temperature: float = 0.5  # τ, of the similarities
    projection: bool = False  # whether a projection head (two linear layers) stands between body and head
    rule: str = "mean"  # how answers are averaged: by samples; uniform, median, trimmed:0.1
    norm: Norm = "all"

    reveals = "the previous model is the client's last answer, which the server has had"

    send = broadcast
    merge = average

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("MOON", "contrast (μ)", self.contrast, "without it MOON is FedAvg; the paper tries 0.1, 1, 5 and 10")
        positive("MOON", "temperature (τ)", self.temperature, "similarities are divided by it; the paper's is 0.5")

    def init(self, task: Task, clients: int) -> tuple[Params, Params]:
        body, head = task.split(task.params())
        body |= task.part("projection", lambda: _network(task.width)).params() if self.projection else {}
        return body | head, dict(body)  # before its first round a client's previous model is the common start

    def features(self, task: Task, params: Params, x: Tensor) -> Tensor:
        """Return what is compared and classified: R_w(x), everything before the output layer."""
        z = task.features(params, x)
        return task.part("projection", lambda: _network(task.width))(params, z) if self.projection else z

    def local(self, task: Task, down: Params, mine: Params, data: Shard) -> tuple[Params, Params]:
        def loss(w: Params, batch: Batch) -> Tensor:
            z = self.features(task, w, batch.x)
            received = self.features(task.still, down, batch.x).detach()
            previous = self.features(task.still, mine, batch.x).detach()
            nearer = F.cosine_similarity(z, received) - F.cosine_similarity(z, previous)
            contrast = batch.mean(F.softplus(-nearer / self.temperature))  # Eq. (3): one positive, one negative
            return task.fit(task.classify(w, z), batch) + self.contrast * contrast

        w = descend(loss, down, data.epochs(self.budget.epochs), self.budget)
        return w, {k: w[k] for k in mine}

    def predict(self, task: Task, down: Params, mine: Params, x: Tensor) -> Tensor:
        return task.classify(down, self.features(task, down, x))


def _network(width: int) -> nn.Module:
    return nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
