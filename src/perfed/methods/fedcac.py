"""FedCAC (Wu et al., ICCV 2023): share boldly what is harmless, cautiously what is critical."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from .. import keys, trees
from ..errors import MethodError
from ..local import Shard, descend
from ..method import Method
from ..method.search import linear, whole
from ..server import Uploads, averaged, mean, mix, rule_of
from ..task import Task
from ..trees import Params

Masks = Params  # boolean leaves, one per parameter; running state has none


class Server(NamedTuple):
    models: tuple[Params, ...]  # where each client starts its next round
    round: Tensor


class Up(NamedTuple):
    params: Params
    critical: Masks


@dataclass(frozen=True, kw_only=True)
class FedCAC(Method[Server, Params, Up, Masks]):
    """Average harmless parameters over all clients, critical ones over clients whose critical positions agree."""

    crosses = "body head | critical params | body head"  # fields that go down, go up and stay
    guarded = (
        "yes: the parameters are clipped and noised, and the mask of critical positions is taken from the noised ones | "
        "yes: every step is clipped and noised, and the mask follows from the parameters that these lead to"
    )
    search = {"critical": linear(0.1, 0.9), "narrowing": whole(10, 200)}  # worth tuning, and in which range
    newcomer = (
        "the mean of all clients' models, with nothing critical | "
        "trains it and keeps what turns out critical; the rest stays the mean | "
        "ours: it is what the paper does once everyone is alone (round > β)"
    )

    cost = 1.1

    critical: float = 0.5  # τ, fraction of each tensor held critical
    narrowing: int = 100  # β, rounds until every client trains its critical parameters alone
    choice: Literal["sensitivity", "random", "reversed"] = "sensitivity"  # what is held critical
    collaboration: Literal["narrowing", "none", "closest"] = "narrowing"  # with whom critical parameters are shared
    closest: int = 1  # k, partners where collaboration is "closest"
    harmless: Literal["shared", "as_critical"] = "shared"  # the rest: averaged over all, or treated alike
    overlap: Literal["fraction", "jaccard"] = "fraction"  # how the agreement of two masks is counted
    ties: Literal["all", "first"] = "all"  # where entries tie at the cut: all are critical, or as many as τ says
    rule: str = "uniform"  # how answers are averaged: evenly, the paper's; weighted; the average over all: median, trimmed:0.1

    reveals = "the mask of critical positions, by which the server finds clients alike"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.critical <= 1:
            raise MethodError(f"FedCAC needs critical (τ) in [0, 1], got {self.critical:g}; 0.5 is the paper's")
        if self.narrowing < 1:
            raise MethodError(f"FedCAC needs narrowing (β) ≥ 1, got {self.narrowing}; the paper uses 100 to 170")
        if self.closest < 1:
            raise MethodError(f"FedCAC needs closest (k) ≥ 1, got {self.closest}; collaboration=none has no partners")

    def check(self, task: Task, sizes: list[int], participants: int) -> None:
        if participants < 2:
            raise MethodError("FedCAC compares clients, so every round needs at least 2 participants, got 1")

    def init(self, task: Task, clients: int) -> tuple[Server, Masks]:
        start = task.params()
        nothing = {k: torch.zeros_like(v, dtype=torch.bool) for k, v in trees.weights(start).items()}
        return Server((start,) * clients, torch.zeros((), dtype=torch.int64)), nothing

    def send(self, server: Server, client: int) -> Params:
        return server.models[client]

    def local(self, task: Task, down: Params, mine: Masks, data: Shard) -> tuple[Up, Masks]:
        w = descend(task.loss, down, data.epochs(self.budget.epochs), self.budget)
        critical = self._masks(w, down, data)
        return Up(w, critical), critical

    def _masks(self, w: Params, down: Params, data: Shard) -> Masks:
        return {k: self._critical(w[k], old, keys.fold(data.key, "mask", k)) for k, old in trees.weights(down).items()}

    def unmoved(self, task: Task, down: Params) -> Up:
        return Up(down, {})

    def derived(self, task: Task, down: Params, released: Up, data: Shard) -> Up:
        return released._replace(critical=self._masks(released.params, down, data))

    def admit(self, server: Server) -> Server:
        return server._replace(models=(*server.models, mean(server.models, [1.0] * len(server.models))))

    def join(self, task: Task, down: Params, mine: Masks, data: Shard) -> tuple[Params, Masks]:
        up, critical = self.local(task, down, mine, data)
        own = up.params  # running state is the client's own, as after a merge
        return {k: torch.where(critical[k], own[k], down[k]) if k in critical else own[k] for k in down}, critical

    def _critical(self, new: Tensor, old: Tensor, key: Tensor) -> Tensor:
        """Return which entries of a tensor are critical: Eqs. (5) and (6)."""
        count = int(self.critical * new.numel() + 1e-6)  # 0.29 · 100 is 29
        sensitivity = ((new - old) * new).abs().flatten()
        if count == 0:
            return torch.zeros_like(new, dtype=torch.bool)
        rank = {"sensitivity": sensitivity, "reversed": -sensitivity, "random": keys.bits(key, new.numel())}[self.choice]
        if self.ties == "first":
            first = rank.argsort(descending=True, stable=True)[:count]
            return torch.zeros_like(rank, dtype=torch.bool).scatter(0, first, True).view(new.shape)
        cut = rank.topk(count).values[-1]
        if self.choice == "sensitivity":  # nothing to choose by: whatever moved at all, or everything
            least = torch.where(rank > 1e-20, rank, torch.inf).min()
            cut = torch.where(cut <= 1e-10, torch.where(least.isinf(), -torch.inf, least), cut)
        return (rank >= cut).view(new.shape)

    def merge(self, server: Server, ups: Uploads[Up]) -> Server:
        answers, number = ups.trees, server.round + 1
        team = self.teams([up.critical for up in answers], int(number))
        weight = ups.sizes if rule_of(self.rule).name == "mean" else torch.ones(len(ups), dtype=torch.float64)
        params = [up.params for up in answers]
        common = averaged(self.rule, ups.each(lambda up: up.params))  # Eq. (9)
        models = list(server.models)
        rows = team * weight
        rows = rows / rows.sum(1, keepdim=True)
        for first in range(0, len(ups), 50):  # Eq. (10), a few clients at a time: all of them need not be held twice
            for place, custom in enumerate(mix(rows[first : first + 50], params), first):
                critical = answers[place].critical
                models[ups.ids[place]] = (
                    custom
                    if self.harmless == "as_critical"
                    else {k: trees.select(critical[k], custom[k], common[k]) if k in critical else custom[k] for k in common}
                )
        return Server(tuple(models), number)

    def critical_masks(self, up: Up) -> Masks:
        return up.critical

    def teams(self, masks: Sequence[Masks], number: int) -> Tensor:
        """Return who works with whom in round ``number``, row by row: Eqs. (7) and (8), with oneself."""
        agreement, same = self.overlaps(masks), torch.eye(len(masks), dtype=torch.bool)
        over = self.collaboration == "none" or (self.collaboration == "narrowing" and number > self.narrowing)
        if over or len(masks) == 1:  # all others may have dropped out
            return same.double()
        if self.collaboration == "closest":
            ranked = agreement.masked_fill(same, -torch.inf).argsort(dim=1, descending=True, stable=True)
            return same.double().scatter(1, ranked[:, : min(self.closest, len(masks) - 1)], 1.0)
        others = agreement[~same]
        bar = others.mean() + number / self.narrowing * (others.max() - others.mean())
        return ((agreement >= bar - 1e-9) | same).double()

    def overlaps(self, masks: Sequence[Masks]) -> Tensor:
        """Return how far the critical positions of two clients agree: 1 for equal masks, 0 for disjoint ones."""
        both = torch.zeros(len(masks), len(masks), dtype=torch.float64)
        for name in masks[0]:
            for piece in zip(*(torch.split(m[name].flatten(), 1 << 15) for m in masks), strict=True):
                bits = torch.stack(piece).float()  # small pieces stay in the cache; counts are exact below 2^24
                both += (bits @ bits.T).double().cpu()
        count = both.diagonal()
        apart = count[:, None] + count[None, :] - 2 * both
        if self.overlap == "jaccard":
            return both / (count[:, None] + count[None, :] - both).clamp(min=1)
        return torch.where(count[:, None] > 0, 1 - apart / (2 * count[:, None]).clamp(min=1), 0.0)

    def predict(self, task: Task, down: Params, mine: Masks, x: Tensor) -> Tensor:
        return task.logits(down, x)

    def after(self, down: Params, up: Up) -> Params:
        return up.params
