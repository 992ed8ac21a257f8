"""FedAMP (Huang et al., AAAI 2021): every client is pulled towards a mixture of the models that resemble its own."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from .. import trees
from ..local import Shard, descend
from ..method import Method, positive
from ..method.search import log
from ..server import Uploads, combine, mean
from ..task import Task
from ..trees import Params


@dataclass(frozen=True, kw_only=True)
class FedAMP(Method[tuple[Params, ...], Params, Params, Params]):
    """Let similar clients draw each other closer, by attention on the distance of their models."""

    spring: float = 0.01  # λ, pull towards the mixture, divided by α
    attention: float = 0.1  # α, scale of the attention that others get
    width: float = 0.3  # σ, squared distance at which attention has dropped to 1/e
    distance: Literal["relative", "absolute"] = "relative"  # in units of the clients' mean squared distance, or as it is
    start: Literal["own", "cloud"] = "own"  # where local training begins: the client's model, or the mixture sent to it

    crosses = "body head | body head | body head"  # fields that go down, go up and stay
    guarded = (
        "yes: what leaves is the client's own model, clipped around the mixture that it was sent and noised; attention "
        "then compares noisy models, and noise soon outweighs their likeness | yes: what leaves is the client's own "
        "model, and every step that ever led to it is clipped and noised"
    )
    search = {"spring": log(0.001, 0.1), "attention": log(0.03, 0.3)}  # worth tuning, and in which range
    newcomer = (
        "the mean of all clients' mixtures | trains a model of its own on a spring to it, from it | "
        "ours: attention needs a model that the server has seen"
    )

    at_first = {"spring": 1.0, "attention": 1000.0, "width": 0.1, "distance": "absolute"}
    reveals = "the client's own model, which the server compares and mixes with the others"

    def __post_init__(self) -> None:
        positive("FedAMP", "spring (λ)", self.spring, "without it FedAMP is Local")
        positive("FedAMP", "attention (α)", self.attention, "nobody would listen to anybody")
        positive("FedAMP", "width (σ)", self.width, "0.3 of the clients' mean squared distance is the default")

    def init(self, task: Task, clients: int) -> tuple[tuple[Params, ...], Params]:
        return (task.params(),) * clients, task.params()

    def send(self, server: tuple[Params, ...], client: int) -> Params:
        return server[client]

    def local(self, task: Task, down: Params, mine: Params, data: Shard) -> tuple[Params, Params]:
        start, held = mine if self.start == "own" else down, (self.spring / self.attention, down)
        w = descend(task.loss, start, data.epochs(self.budget.epochs), self.budget, spring=held)
        return w, w

    def admit(self, server: tuple[Params, ...]) -> tuple[Params, ...]:
        return (*server, mean(server, [1.0] * len(server)))

    def join(self, task: Task, down: Params, mine: Params, data: Shard) -> tuple[Params, Params]:
        return down, self.local(task, down, down, data)[1]

    def merge(self, server: tuple[Params, ...], ups: Uploads[Params]) -> tuple[Params, ...]:
        answers, clouds = ups.trees, list(server)
        for client, row in zip(ups.ids, self.shares(square_distances(answers)), strict=True):
            clouds[client] = combine(row.tolist(), answers)
        return tuple(clouds)

    def shares(self, square: Tensor) -> Tensor:
        """Return how the models are mixed, row by row; others' shares are scaled back where they exceed one."""
        if self.distance == "relative":
            square = square / _mean_of_others(square)
        xi = self.attention * torch.exp(-square / self.width) / self.width
        xi = xi.masked_fill(torch.eye(len(xi), dtype=torch.bool), 0.0)
        xi = xi / xi.sum(1, keepdim=True).clamp(min=1)
        return xi + torch.diag((1 - xi.sum(1)).clamp(min=0))

    def predict(self, task: Task, down: Params, mine: Params, x: Tensor) -> Tensor:
        return task.logits(mine, x)


def _mean_of_others(square: Tensor) -> Tensor:
    """Return the mean squared distance of two clients; one where nobody is apart."""
    others = square[~torch.eye(len(square), dtype=torch.bool)]
    return others.mean() if len(others) and bool(others.sum() > 0) else torch.ones((), dtype=square.dtype)


def square_distances(models: Sequence[Params]) -> Tensor:
    """Return the squared distances of all pairs of models in double precision, running state left out."""
    dots = torch.zeros(len(models), len(models), dtype=torch.float64)
    for name in trees.weights(models[0]):
        for piece in zip(*(torch.split(m[name].flatten(), 1 << 16) for m in models), strict=True):
            rows = torch.stack(piece).double()
            dots += (rows @ rows.T).cpu()
    own = dots.diagonal()
    return (own[:, None] + own[None, :] - 2 * dots).clamp(min=0)
