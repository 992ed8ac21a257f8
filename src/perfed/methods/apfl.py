"""APFL (Deng et al., 2020): serve a blend of one's own model and the common one, and learn how much of each."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from .. import trees
from ..errors import MethodError
from ..local import Batch, Shard, descend
from ..method import Method
from ..method.search import linear
from ..server import average, broadcast
from ..task import Task
from ..trees import Params


class Pair(NamedTuple):
    common: Params
    own: Params


class Mine(NamedTuple):
    own: Params
    share: Tensor  # α


@dataclass(frozen=True, kw_only=True)
class APFL(Method[Params, Params, Params, Mine]):
    """Train w as FedAvg does, and v so that α v + (1 − α) w is good."""

    crosses = "body head | body head | own share"  # fields that go down, go up and stay
    guarded = (
        "yes: the model is all that leaves, and it is clipped and noised as one; the personal model and its share stay "
        "exact | no: the personal model trains within the same steps, under a share that follows the data without noise"
    )
    search = {"share": linear(0.1, 0.9)}  # worth tuning, and in which range
    newcomer = (
        "the common model | trains a model of its own in the blend with it, from it, and follows its share once | "
        "the paper's step; ours that it begins at the common model"
    )

    cost = 2.0

    share: float = 0.5  # α, weight of the client's own model at the start
    adaptive: bool = True  # whether α follows its slope, once a round
    rule: str = "mean"  # how answers are averaged: by samples; uniform, median, trimmed:0.1

    send = broadcast
    merge = average

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.share < 1:
            raise MethodError(f"APFL needs share (α) between 0 and 1, got {self.share:g}: 0 is FedAvg, 1 is Local")

    def init(self, task: Task, clients: int) -> tuple[Params, Mine]:
        return task.params(), Mine(task.params(), torch.tensor(float(self.share), device=task.device))

    def local(self, task: Task, down: Params, mine: Mine, data: Shard) -> tuple[Params, Mine]:
        share = self._follow(task, down, mine, data) if self.adaptive else mine.share

        def both(m: Pair, batch: Batch) -> Tensor:  # one step each: w by its own loss, v by the blend's
            still = {k: v.detach() for k, v in m.common.items()}
            return task.loss(m.common, batch) + task.loss(blend(still, m.own, share), batch)

        m = descend(both, Pair(down, mine.own), data.epochs(self.budget.epochs), self.budget)
        return m.common, Mine(m.own, share)

    def join(self, task: Task, down: Params, mine: Mine, data: Shard) -> tuple[Params, Mine]:
        return super().join(task, down, mine._replace(own=trees.clone(down)), data)

    def _follow(self, task: Task, down: Params, mine: Mine, data: Shard) -> Tensor:
        """Return α after a step along ⟨v − w, ∇f(α v + (1 − α) w)⟩ on the first batch, kept within [0, 1]."""
        batch = next(data.epochs(1))
        slope = torch.func.grad(lambda share: task.still.loss(blend(down, mine.own, share), batch))(mine.share)
        follow: Tensor = mine.share - self.budget.lr * slope
        return follow.clamp(0, 1)

    def predict(self, task: Task, down: Params, mine: Mine, x: Tensor) -> Tensor:
        return task.logits(blend(down, mine.own, mine.share), x)


def blend(common: Params, own: Params, share: Tensor) -> Params:
    """Return α v + (1 − α) w; running state is that of the client's own model."""
    return {k: v if trees.is_state(k) else share * v + (1 - share) * common[k] for k, v in own.items()}
