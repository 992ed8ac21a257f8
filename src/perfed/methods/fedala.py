"""FedALA (Zhang et al., AAAI 2023): each client learns, number by number, how much of the common model to take over."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from .. import keys, trees
from ..errors import MethodError
from ..local import Batch, Shard, descend
from ..method import Method, positive
from ..method.search import log
from ..server import average, broadcast
from ..task import Task
from ..trees import Params

_WINDOW, _CALM = 10, 0.1  # settled once the last ten losses deviate by less than this


class Mine(NamedTuple):
    top: Params  # the uppermost layers as the client left them
    mixing: Params  # W, how much of the received ones it takes, per number
    settled: Tensor  # whether W was learned to the end once


@dataclass(frozen=True, kw_only=True)
class FedALA(Method[Params, Params, Params, Mine]):
    """Take the lower layers as received; blend the upper ones with one's own by weights learned on local data."""

    crosses = "body head | body head | mixing settled top"  # fields that go down, go up and stay
    guarded = (
        "yes: the model is all that leaves, and it is clipped and noised as one; the blending weights stay exact | no: "
        "the blend that training starts from is learned from the samples without noise"
    )
    search = {"mixing_lr": log(0.1, 10)}  # worth tuning, and in which range
    newcomer = (
        "the common model | learns how much of the upper layers to take, and trains these; those below stay as received | "
        "the paper's first round, with what is received held"
    )

    cost = 1.5

    layers: int = 1  # p, layers from the top that are blended; those below are taken as received
    mixing_lr: float = 1.0  # η, step size of the blending weights
    sample: float = 0.8  # s, share of the training samples they are learned on, drawn anew each round
    most_epochs: int = 50  # cap on the passes of the first time, which lasts until the loss has settled
    rule: str = "mean"  # how answers are averaged: by samples; uniform, median, trimmed:0.1

    stacks: ClassVar[str] = "FedALA first learns to blend until the loss has settled, each client in its own time"

    reveals = "the upper layers as they were trained, which are part of the model that is averaged"

    send = broadcast
    merge = average

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("FedALA", "layers (p)", self.layers, "with none it is FedAvg; 1 blends the last layer")
        positive("FedALA", "mixing_lr (η)", self.mixing_lr, "without it FedALA is FedAvg; the paper uses 1")
        positive("FedALA", "most_epochs", self.most_epochs, "the blending weights would never be learned")
        if not 0 < self.sample <= 1:
            raise MethodError(f"FedALA needs sample (s) in (0, 1], got {self.sample:g}; the paper uses 0.8")

    @property
    def passes(self) -> int:
        return self.budget.epochs + self.most_epochs

    @property
    def fitted(self) -> int:
        return self.budget.epochs + 1  # after the first round a single pass settles the blend

    def check(self, task: Task, sizes: list[int], participants: int) -> None:
        if self.layers > len(_layers(task)):
            raise MethodError(f"FedALA cannot blend {self.layers} layers (p) of a network with {len(_layers(task))}")

    def init(self, task: Task, clients: int) -> tuple[Params, Mine]:
        params, upper = task.params(), _layers(task)[-self.layers :]
        top = {k: v for k, v in trees.weights(params).items() if _layer(k) in upper}
        return params, Mine(trees.clone(top), trees.map(torch.ones_like, top), torch.tensor(False, device=task.device))

    def local(self, task: Task, down: Params, mine: Mine, data: Shard) -> tuple[Params, Mine]:
        start, mine = self.adapt(task, down, mine, data)
        w = descend(task.loss, start, data.epochs(self.budget.epochs), self.budget)
        return w, mine._replace(top={k: w[k] for k in mine.top})

    def adapt(self, task: Task, down: Params, mine: Mine, data: Shard) -> tuple[Params, Mine]:
        """Return the model that training starts from and that is tested, and what was learned about blending."""
        received = {k: down[k] for k in mine.top}
        if trees.equal(received, mine.top):  # nothing to choose between, as in the first round of all
            return down, mine
        mixing = self._learn(task, down, received, mine, data)
        settled = torch.ones_like(mine.settled)
        return down | trees.map(torch.lerp, mine.top, received, mixing), Mine(mine.top, mixing, settled)

    def _learn(self, task: Task, down: Params, received: Params, mine: Mine, data: Shard) -> Params:
        """Return W after one pass, or after as many as it takes the first time."""

        def loss(mixing: Params, batch: Batch) -> Tensor:
            return task.served.loss(down | trees.map(torch.lerp, mine.top, received, mixing), batch)

        whole = self.sample == 1 or len(data) == 1
        part = data if whole else data.hold_out(self.sample, keys.fold(data.key, "blend"))[1]
        mixing, seen = mine.mixing, []
        for epoch in range(1 if mine.settled else self.most_epochs):
            for batch in part.epochs(1, f"blend {epoch}"):
                slope, value = torch.func.grad_and_value(loss)(mixing, batch)
                mixing = trees.map(lambda m, g: (m - self.mixing_lr * g).clamp(0, 1), mixing, slope)
            seen.append(value)
            if len(seen) > _WINDOW and torch.stack(seen[-_WINDOW:]).std(correction=0) < _CALM:
                break
        return mixing

    def predict(self, task: Task, down: Params, mine: Mine, x: Tensor) -> Tensor:
        return task.logits(down, x)


def _layer(name: str) -> str:
    return name.rpartition(".")[0]


def _layers(task: Task) -> list[str]:
    """Return the names of the layers that have parameters, bottom to top."""
    return list(dict.fromkeys(_layer(k) for k in trees.weights(task.params())))
