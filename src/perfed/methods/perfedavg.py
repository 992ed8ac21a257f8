"""Per-FedAvg (Fallah et al., NeurIPS 2020): a common model that is good one step later."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from .. import trees
from ..errors import MethodError
from ..local import Batch, Shard, descend
from ..method import Method, positive
from ..method.search import log
from ..server import average, broadcast
from ..task import Task
from ..trees import Params


@dataclass(frozen=True, kw_only=True)
class PerFedAvg(Method[Params, Params, Params, tuple[()]]):
    """Take the slope after a trial step on one batch, measured on a second one: the first-order version."""

    crosses = "body head | body head | "  # fields that go down, go up and stay
    guarded = (
        "yes: the model is all that leaves, and it is clipped and noised as one | no: the trial step on one batch enters "
        "the slope of every sample of the next, so no sample's part can be clipped"
    )
    search = {"step": log(0.001, 0.1)}  # worth tuning, and in which range
    newcomer = "the common model | takes the one step that the model was made for | the paper's"

    title = "Per-FedAvg"
    cost = 2.0

    step: float | None = None  # α, size of the trial step and of the one before a test; if none, the budget's lr
    rule: str = "mean"  # how answers are averaged: by samples; uniform, median, trimmed:0.1

    send = broadcast
    merge = average

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("Per-FedAvg", "step (α)", self.reach, "without a trial step it is FedAvg on every second batch")

    @property
    def reach(self) -> float:
        return self.budget.lr if self.step is None else self.step

    def check(self, task: Task, sizes: list[int], participants: int) -> None:
        need = 2 * self.budget.batch_size
        if min(sizes) < need:
            small = sizes.index(min(sizes))
            raise MethodError(
                f"Per-FedAvg takes two batches a step, {need} training samples, and client {small} has "
                f"{sizes[small]}; lower budget.batch_size or make clients larger"
            )

    def init(self, task: Task, clients: int) -> tuple[Params, tuple[()]]:
        return task.params(), ()

    def local(self, task: Task, down: Params, mine: tuple[()], data: Shard) -> tuple[Params, tuple[()]]:
        half = data.batch_size

        def later(w: Params, pair: Batch) -> Tensor:
            """The loss on the second batch after a trial step on the first; the step itself counts as constant."""
            tried = self._tried(task, {k: v.detach() for k, v in w.items()}, _part(pair, slice(half)))
            return task.loss({k: w[k] + tried[k] for k in tried} | trees.state(w), _part(pair, slice(half, None)))

        return descend(later, down, _pairs(data, self.budget.epochs), self.budget), ()

    def _tried(self, task: Task, w: Params, batch: Batch) -> Params:
        """Return how far a trial step goes; it moves no statistics."""
        slope = torch.func.grad(lambda p: task.still.loss(p | trees.state(w), batch))(trees.weights(w))
        return {k: -self.reach * g for k, g in slope.items()}

    def adapt(self, task: Task, down: Params, mine: tuple[()], data: Shard) -> tuple[Params, tuple[()]]:
        step = self._tried(task, down, next(data.epochs(1, "adapt")))
        return {k: down[k] + step[k] if k in step else down[k] for k in down}, ()

    def predict(self, task: Task, down: Params, mine: tuple[()], x: Tensor) -> Tensor:
        return task.logits(down, x)


def _pairs(data: Shard, epochs: int) -> Iterator[Batch]:
    """Yield batches of double size; a last one whose second half is too small to train on is left out."""
    half, least = data.batch_size, 2 if data.even else 1
    for pair in replace(data, batch_size=2 * half).epochs(epochs):
        if len(pair.y) < half + least:
            continue
        if pair.mask is not None:
            pair = pair._replace(mask=pair.mask * (pair.mask[half:].sum() >= least))
        yield pair


def _part(batch: Batch, which: slice) -> Batch:
    return Batch(batch.x[which], batch.y[which], None if batch.mask is None else batch.mask[which], batch.key)
