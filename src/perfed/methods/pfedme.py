"""pFedMe (T. Dinh et al., NeurIPS 2020): personal models on springs, and a common one that follows them."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from .. import trees
from ..errors import MethodError
from ..local import Batch, Shard, descend
from ..method import Method, as_in_a_round, positive
from ..method.search import log
from ..server import Uploads, averaged, broadcast
from ..task import Task
from ..trees import Params


@dataclass(frozen=True, kw_only=True)
class PFedMe(Method[Params, Params, Params, Params]):
    """Per batch, solve roughly for the personal model near w, then draw w towards it."""

    crosses = "body head | body head | body head"  # fields that go down, go up and stay
    guarded = (
        "yes: the model is all that leaves, and it is clipped and noised as one; the personal model stays exact | no: it "
        "takes several steps on the same batch, which the accountant does not assume"
    )
    search = {"budget.lr": log(0.001, 0.05), "spring": log(1, 15), "personal_lr": log(0.003, 0.1)}  # ηλ stays below 1
    newcomer = "the common model | solves for a personal model near it, batch by batch | the paper's"

    title = "pFedMe"
    cost = 5.0

    spring: float = 15.0  # λ, pull of the personal model towards w
    steps: int = 5  # K, steps of the personal model per batch
    personal_lr: float = 0.01  # η_p, size of these steps
    decay: float = 0.001  # weight decay of the personal model
    stride: float = 1.0  # β, how far the server moves towards the average; above 1 it goes beyond
    rule: str = "mean"  # how answers are averaged: by samples; uniform, median, trimmed:0.1

    send = broadcast
    join = as_in_a_round

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("pFedMe", "spring (λ)", self.spring, "without it w never moves; the paper uses 15")
        positive("pFedMe", "steps (K)", self.steps, "the personal model would never be trained")
        positive("pFedMe", "personal_lr (η_p)", self.personal_lr, "the personal model would never be trained")
        positive("pFedMe", "stride (β)", self.stride, "the server would never move")
        if self.budget.lr * self.spring >= 1:
            raise MethodError(
                f"pFedMe needs budget.lr · spring (ηλ) < 1, got {self.budget.lr * self.spring:g}: "
                f"w would jump past the personal model; a spring below {1 / self.budget.lr:g} fits this learning rate"
            )

    @property
    def passes(self) -> int:
        return self.budget.epochs * self.steps

    def init(self, task: Task, clients: int) -> tuple[Params, Params]:
        return task.params(), task.params()

    def local(self, task: Task, down: Params, mine: Params, data: Shard) -> tuple[Params, Params]:
        w = personal = down
        for batch in data.epochs(self.budget.epochs):
            personal = self._solve(task, personal, w, batch)
            live = torch.ones((), device=batch.y.device) if batch.mask is None else batch.mask.amax()
            pull = self.budget.lr * self.spring * live  # a batch of pure padding pulls nothing
            w = {k: v if trees.is_state(k) else torch.lerp(w[k], v, pull.to(v.dtype)) for k, v in personal.items()}
        return w, personal

    def _solve(self, task: Task, personal: Params, w: Params, batch: Batch) -> Params:
        """Return the personal model after K steps on one batch, held near w."""
        budget = replace(self.budget, lr=self.personal_lr, weight_decay=self.decay, momentum=0.0)  # K plain steps
        return descend(task.loss, personal, [batch] * self.steps, budget, spring=(self.spring, w))

    def merge(self, server: Params, ups: Uploads[Params]) -> Params:
        middle = averaged(self.rule, ups)
        if self.stride == 1:
            return middle
        return trees.state(middle) | trees.lerp(trees.weights(server), trees.weights(middle), self.stride)

    def predict(self, task: Task, down: Params, mine: Params, x: Tensor) -> Tensor:
        return task.logits(mine, x)
