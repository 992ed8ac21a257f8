"""APPLE (Luo and Wu, IJCAI 2022): every client learns how much of everyone's core model to take."""

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from .. import trees
from ..errors import MethodError
from ..local import Batch, Shard, descend
from ..method import Method, positive
from ..method.search import log
from ..server import Uploads, mean
from ..task import Task
from ..trees import Params


class Server(NamedTuple):
    cores: tuple[Params, ...]
    sizes: Tensor  # n_j, 0 until a client has answered
    round: Tensor


class Down(NamedTuple):
    own: Params  # the client's core comes first, so that it need not know its number
    others: tuple[Params, ...]
    shares: Tensor  # p0 = n_j / Σ n, in the same order
    round: Tensor


class Model(NamedTuple):
    core: Params
    relation: Tensor


@dataclass(frozen=True, kw_only=True)
class Apple(Method[Server, Down, Params, Tensor]):
    """Train one's core and one's relation vector through the personal model Σ_j p_ij c_j."""

    crosses = "others own round shares | body head | state"  # fields that go down, go up and stay
    guarded = (
        "yes: the client's core is clipped around the core that the server has of it and noised; its relations stay "
        "exact | yes: core and relations train in the same steps, which are clipped and noised together"
    )
    search = {"relation_lr": log(0.0001, 0.01), "pull": log(0.01, 1)}  # worth tuning, and in which range
    newcomer = (
        "everyone's core, and as its own the mean of them by samples | trains its core and its relations, which begin even | "
        "ours that its core begins at the mean"
    )

    title = "APPLE"
    cost = 2.0

    relation_lr: float = 0.001  # η_p, step size of the relation vector
    products: Literal["summed", "averaged"] = "summed"  # ⟨G, c_j⟩ in full, or averaged over entries and tensors
    pull: float = 0.1  # μ, of the relation vector towards the clients' shares of samples
    fading: float = 0.2  # L / T, part of the rounds over which that pull fades to nothing
    core_step: Literal["full", "share"] = "full"  # a core goes η G, or η p_ii G as in the paper
    rounds: int = 160  # T, rounds of the whole run

    def __post_init__(self) -> None:
        positive("APPLE", "relation_lr (η_p)", self.relation_lr, "every client would keep the mean of all cores")
        if self.pull < 0 or not 0 <= self.fading <= 1:
            raise MethodError(f"APPLE needs pull (μ) ≥ 0 and fading (L/T) in [0, 1], got {self.pull:g} and {self.fading:g}")
        if self.budget.optimizer != "sgd":
            raise MethodError(
                "APPLE gives cores and relations step sizes of their own, which Adam would equal out; use budget.optimizer=sgd"
            )

    def check(self, task: Task, sizes: list[int], participants: int) -> None:
        if len(sizes) < 2:
            raise MethodError("APPLE mixes the cores of several clients, there is only 1; try method=local")

    def init(self, task: Task, clients: int) -> tuple[Server, Tensor]:
        cores, sizes = (task.params(),) * clients, torch.zeros(clients, dtype=torch.float64)
        relation = torch.full((clients,), 1 / clients, dtype=task.dtype, device=task.device)
        return Server(cores, sizes, torch.zeros((), dtype=torch.int64)), relation

    def send(self, server: Server, client: int) -> Down:
        order = [client] + [i for i in range(len(server.cores)) if i != client]
        known = server.sizes[server.sizes > 0]
        typical = known.mean() if len(known) else torch.ones((), dtype=torch.float64)
        sizes = torch.where(server.sizes > 0, server.sizes, typical)[order]
        others = tuple(server.cores[i] for i in order[1:])
        return Down(server.cores[client], others, (sizes / sizes.sum()).to(_leaf(server.cores[client])), server.round)

    def unmoved(self, task: Task, down: Down) -> Params:
        return down.own

    def local(self, task: Task, down: Down, mine: Tensor, data: Shard) -> tuple[Params, Tensor]:
        others, rate = _stacked(down.others), self.relation_lr / self.budget.lr
        pull = rate * self.pull * self._fade(down.round)

        def loss(m: Model, batch: Batch) -> Tensor:
            w = self._personal(m.core, others, m.relation, rate)
            return task.loss(w, batch) + pull / 2 * (m.relation - down.shares).square().sum()

        start = Model(down.own, mine)
        m = descend(
            loss,
            start,
            data.epochs(self.budget.epochs),
            self.budget,
            decay=lambda path: 0.0 if path == "relation" else self.budget.weight_decay,
        )
        return m.core, m.relation

    def admit(self, server: Server) -> Server:
        known = server.sizes if bool(server.sizes.any()) else torch.ones_like(server.sizes)
        return server._replace(
            cores=(*server.cores, mean(server.cores, known)), sizes=torch.cat([server.sizes, known.new_zeros(1)])
        )

    def join(self, task: Task, down: Down, mine: Tensor, data: Shard) -> tuple[Down, Tensor]:
        core, relation = self.local(task, down, mine, data)
        return down._replace(own=core), relation

    def _fade(self, number: Tensor) -> Tensor:
        """Return λ(t) = (cos(π t / L) + 1) / 2 for t < L, else 0."""
        last = self.fading * self.rounds
        return torch.where(number < last, (torch.cos(math.pi * number / max(last, 1e-9)) + 1) / 2, 0.0)

    def _personal(self, core: Params, others: Params, relation: Tensor, rate: float = 1.0) -> Params:
        """Return Σ_j p_j c_j; running state is not mixed but the core's own.

        Values are exact; slopes are such that a step of the budget's lr moves the core along G or p_ii G and the relation
        ``rate`` times as fast along ⟨G, c_j⟩ or its average.
        """
        weights = trees.weights(core)
        mixed = {}
        for name, own in weights.items():
            share = rate if self.products == "summed" else rate / (own.numel() * len(weights))
            p = relation.detach() + share * (relation - relation.detach())
            c = p[0] * own if self.core_step == "share" else p[0] * own.detach() + (own - own.detach())
            mixed[name] = c + torch.tensordot(p[1:], others[name], 1)
        return core | mixed

    def merge(self, server: Server, ups: Uploads[Params]) -> Server:
        cores, ids = list(server.cores), torch.tensor(ups.ids)
        for client, core in zip(ups.ids, ups, strict=True):
            cores[client] = core
        return Server(tuple(cores), server.sizes.scatter(0, ids, ups.sizes), server.round + 1)

    def predict(self, task: Task, down: Down, mine: Tensor, x: Tensor) -> Tensor:
        return task.logits(self._personal(down.own, _stacked(down.others), mine), x)

    def after(self, down: Down, up: Params) -> Down:
        return down._replace(own=up)


def _leaf(core: Params) -> Tensor:
    """Return one of the weights, whose type and device are those of all."""
    return next(iter(trees.weights(core).values()))


def _stacked(cores: tuple[Params, ...]) -> Params:
    return trees.stack([trees.weights(core) for core in cores])
