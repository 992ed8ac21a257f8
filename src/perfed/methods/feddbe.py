"""FedDBE (Zhang et al., NeurIPS 2023): a memory of one's own takes the domain's bias out of the features that are shared."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from ..errors import MethodError
from ..local import Batch, Shard, descend
from ..method import Method
from ..method.search import linear, log
from ..server import Uploads, averaged, mean
from ..task import Task
from ..trees import STATE, Params

_MEAN, _SEEN = f"{STATE}mean", f"{STATE}seen"  # the running mean of this round's features, never differentiated


class Server(NamedTuple):
    model: Params
    centre: Params  # the mean feature of all clients under the common start
    known: Tensor  # whether it was gathered


class Down(NamedTuple):
    model: Params
    centre: Params  # empty until it is known


class Up(NamedTuple):
    model: Params
    survey: Params  # the client's mean feature under the common start; empty once the server has its centre


class Model(NamedTuple):
    model: Params
    own: Params  # the memory and the running mean


@dataclass(frozen=True, kw_only=True)
class FedDBE(Method[Server, Down, Up, Params]):
    """Add a trained personal mean to the features before the head; hold the features' own mean near everyone's."""

    crosses = "model | model survey | memory"  # fields that go down, go up and stay
    guarded = (
        "yes: model and, in the first round, the client's mean feature are clipped and noised together; the memory stays "
        "exact | no: it uploads the mean feature of the first round and follows a running mean, neither of which is "
        "noised"
    )
    search = {"pull": log(0.01, 10), "momentum": linear(0.1, 1)}  # worth tuning, and in which range
    newcomer = (
        "the common model and everyone's mean feature | fits its memory, the personal mean that is added to the features | "
        "ours: the paper trains all together, here the model is held"
    )

    cost = 1.1

    pull: float = 1.0  # κ, weight of the squared distance between a client's mean feature and everyone's; 0 is "w/o MR"
    momentum: float = 0.1  # μ, weight of a batch in the running mean; 1 takes the batch alone
    memory: bool = True  # whether a personal mean is added to the features; False is "w/o PRBM"
    rule: str = "mean"  # how answers are averaged: by samples; uniform, median, trimmed:0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pull < 0 or not 0 < self.momentum <= 1:
            raise MethodError(f"FedDBE needs pull (κ) ≥ 0 and momentum (μ) in (0, 1], got {self.pull:g} and {self.momentum:g}")
        if not self.pull and not self.memory:
            raise MethodError("FedDBE without memory and with pull (κ) = 0 is FedAvg; keep one of them")

    def init(self, task: Task, clients: int) -> tuple[Server, Params]:
        nothing = torch.zeros(task.width, dtype=task.dtype, device=task.device)
        return Server(task.params(), {"mean": nothing}, torch.zeros((), dtype=torch.bool)), {"memory": nothing.clone()}

    def send(self, server: Server, client: int) -> Down:
        return Down(server.model, server.centre if bool(server.known) else {})

    def admit(self, server: Server) -> Server:
        return server

    def forms(self, server: Server) -> list[Down]:
        return [self.send(at, 0) for at in (server, server._replace(known=torch.ones_like(server.known)))]

    def local(self, task: Task, down: Down, mine: Params, data: Shard) -> tuple[Up, Params]:
        survey = {} if down.centre else {"mean": _surveyed(task, down.model, data)}

        def loss(m: Model, batch: Batch) -> Tensor:
            z = task.features(m.model, batch.x)
            fit = task.fit(task.classify(m.model, z + m.own["memory"] if self.memory else z), batch)
            if not (self.pull and down.centre):
                return fit
            return fit + self.pull * (self._running(m.own, _average(z, batch)) - down.centre["mean"]).square().mean()

        nothing = torch.zeros_like(mine["memory"])
        start = Model(down.model, mine | {_MEAN: nothing, _SEEN: nothing[0]})
        m = descend(loss, start, data.epochs(self.budget.epochs), self.budget)
        return Up(m.model, survey), {"memory": m.own["memory"]}

    def unmoved(self, task: Task, down: Down) -> Up:
        nothing = torch.zeros(task.width, dtype=task.dtype, device=task.device)
        return Up(down.model, {} if down.centre else {"mean": nothing})

    def _running(self, own: Params, now: Tensor) -> Tensor:
        """Return (1 − μ) times the mean so far, a constant, plus μ times a batch's; the first batch is taken alone."""
        weight = torch.where(own[_SEEN] > 0, self.momentum, 1.0)
        mixed = (1 - weight) * own[_MEAN].clone() + weight * now
        own[_MEAN].copy_(mixed.detach())
        own[_SEEN].add_(1)
        return mixed

    def merge(self, server: Server, ups: Uploads[Up]) -> Server:
        if bool(server.known):
            return server._replace(model=averaged(self.rule, ups.each(lambda up: up.model)))
        centre = mean([up.survey for up in ups.trees], ups.sizes)
        return Server(averaged(self.rule, ups.each(lambda up: up.model)), centre, torch.ones_like(server.known))

    def predict(self, task: Task, down: Down, mine: Params, x: Tensor) -> Tensor:
        z = task.features(down.model, x)
        return task.classify(down.model, z + mine["memory"] if self.memory else z)

    def after(self, down: Down, up: Up) -> Down:
        return down._replace(model=up.model)


def _average(z: Tensor, batch: Batch) -> Tensor:
    """Return the mean feature of the real samples of a batch."""
    if batch.mask is None:
        return z.mean(0)
    return (z * batch.mask[:, None]).sum(0) / batch.mask.sum().clamp(min=1)


def _surveyed(task: Task, model: Params, data: Shard) -> Tensor:
    """Return a client's mean feature as the model serves it."""
    total = torch.zeros(task.width, dtype=task.dtype, device=task.device)
    for batch in data.passes():
        with torch.no_grad():
            z = task.served.features(model, batch.x)
        total = total + (z if batch.mask is None else z * batch.mask[:, None]).sum(0)
    return total / data.total.clamp(min=1).to(total.dtype)
