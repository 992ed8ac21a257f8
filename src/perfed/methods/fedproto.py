"""FedProto (Tan et al., AAAI 2022): clients agree on what a class looks like and share nothing else."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from ..local import Batch, Shard, descend
from ..method import Method, as_in_a_round, positive
from ..method.search import log
from ..server import Uploads, broadcast
from ..task import Task
from ..trees import STATE, Params

_SUM, _SEEN = f"{STATE}prototype.sum", f"{STATE}prototype.seen"  # gathered while training, never differentiated


class Prototypes(NamedTuple):
    centres: Tensor  # C×K, the mean feature of each class; zero where there is none
    known: Tensor  # C, 1 where a class has one


@dataclass(frozen=True, kw_only=True)
class FedProto(Method[Prototypes, Prototypes, Prototypes, Params]):
    """Pull every feature towards the common prototype of its class; classify by the nearest one."""

    crosses = "centres known | centres known | body head"  # fields that go down, go up and stay
    guarded = (
        "no: its prototypes come with the list of classes that a client has, and noise would turn the list into nonsense "
        "| no: its prototypes are means of features without noise, one for each class that the client has"
    )
    search = {"pull": log(0.1, 10)}  # worth tuning, and in which range
    newcomer = (
        "the prototypes of all classes | trains a model of its own, from the start that everyone had, towards them | the paper's"
    )
    names_classes = "its messages are a prototype of every class"

    cost = 1.3

    pull: float = 1.0  # λ, weight of the distance to the common prototype, averaged over features

    send = broadcast
    join = as_in_a_round

    def __post_init__(self) -> None:
        positive("FedProto", "pull (λ)", self.pull, "without it the models are those of Local; 1 to 10 is usual")

    def init(self, task: Task, clients: int) -> tuple[Prototypes, Params]:
        centres = torch.zeros(task.classes, task.width, dtype=task.dtype, device=task.device)
        return Prototypes(centres, centres[:, 0].clone()), task.params()

    def local(self, task: Task, down: Prototypes, mine: Params, data: Shard) -> tuple[Prototypes, Params]:
        left = [self.budget.epochs * data.steps]

        def loss(m: Params, batch: Batch) -> Tensor:
            z = task.features(m, batch.x)
            one_hot = (batch.y[:, None] == torch.arange(task.classes, device=z.device)).to(z.dtype)
            if left[0] <= data.steps:  # the last pass: earlier ones saw another network
                _gather(m, z.detach(), one_hot if batch.mask is None else one_hot * batch.mask[:, None])
            left[0] -= 1
            far = (z - one_hot @ down.centres).square().mean(1) * (one_hot @ down.known)  # no prototype, no pull
            return task.fit(task.classify(m, z), batch) + self.pull * batch.mean(far)

        nothing = 0 * data.counts.to(task.dtype)
        start = mine | {_SUM: nothing[:, None] * down.centres, _SEEN: nothing}
        w = descend(loss, start, data.epochs(self.budget.epochs), self.budget)
        centres = w[_SUM] / w[_SEEN].clamp(min=1)[:, None]
        return Prototypes(centres, (w[_SEEN] > 0).to(task.dtype)), {k: w[k] for k in mine}

    def merge(self, server: Prototypes, ups: Uploads[Prototypes]) -> Prototypes:
        """Average over the clients that own a class, each alike; a class nobody brought keeps its prototype."""
        total, owners = torch.zeros_like(server.centres).double(), torch.zeros_like(server.known).double()
        for up in ups:
            total, owners = total + up.centres * up.known[:, None], owners + up.known
        fresh = (total / owners.clamp(min=1)[:, None]).to(server.centres.dtype)
        return Prototypes(
            torch.where(owners[:, None] > 0, fresh, server.centres),
            torch.maximum(server.known, (owners > 0).to(server.known.dtype)),
        )

    def predict(self, task: Task, down: Prototypes, mine: Params, x: Tensor) -> Tensor:
        z = task.features(mine, x)
        near = -(z[:, None] - down.centres[None]).square().mean(2)
        last = near.masked_fill(down.known == 0, torch.inf).amin(1, keepdim=True) - 10  # below all that are known
        scores = torch.where(down.known > 0, near, last)
        return torch.where(down.known.amax() > 0, scores, 0.0)


def _gather(m: Params, z: Tensor, one_hot: Tensor) -> None:
    """Add a batch's features to the sums of their classes; they are running state, as BatchNorm's statistics are."""
    m[_SUM].add_(one_hot.T @ z)
    m[_SEEN].add_(one_hot.sum(0))
