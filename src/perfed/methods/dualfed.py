"""DualFed (Zhu et al., ACM MM 2024): share what comes before a projector, keep what comes after it."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

from torch import Tensor, nn

from .. import trees
from ..errors import MethodError, suggest
from ..local import Batch, Shard, descend
from ..local.losses import pooled, supervised_contrast
from ..method import Method, positive
from ..method.search import log
from ..server import average, broadcast
from ..task import Part, Task
from ..trees import Params

_CALM = 50  # samples of a batch per λ · lr; with fewer the projector's variances grew a thousandfold in one round


class Model(NamedTuple):
    """All of a client's model; on the wire and at home, the parts that are elsewhere are empty."""

    encoder: Params
    projector: Params
    personal_classifier: Params
    global_classifier: Params


@dataclass(frozen=True, kw_only=True)
class DualFed(Method[Model, Model, Model, Model]):
    """Classify general features for everybody and projected ones for oneself, and add the two."""

    crosses = "encoder global_classifier | encoder global_classifier | personal_classifier projector"
    guarded = (
        "yes: encoder and common classifier are clipped and noised as one; projector and personal classifier stay exact "
        "| no: its contrast compares the samples of a batch, and its projector normalises over them"
    )
    search = {"contrast": log(0.5, 50), "temperature": log(0.05, 0.5)}  # worth tuning, and in which range
    newcomer = (
        "the common encoder and classifier | fits a projector and a personal classifier of its own | "
        "ours: the paper trains all together, here what is common is held"
    )
    names_classes = "its contrastive loss pulls samples of one class together"

    cost = 1.5
    counted = ("projector",)

    contrast: float = 40.0  # λ, weight of the contrastive loss on projected features; 2 for Office-Home
    temperature: float = 0.2  # τ, of the contrastive loss; 0.05 for Office-Home
    depth: int = 2  # D, linear layers of the projector
    width: int = 256  # H, its hidden width
    projector_norm: bool = True  # whether BatchNorm follows each of its layers
    training: Literal["stages", "epochs", "simultaneous"] = "stages"  # losses in turn per round or epoch, or at once
    second_stage: Literal["training", "served"] = "training"  # mode of what stage 2 freezes: statistics move, or rest
    global_classifier: Literal["before", "after"] = "before"  # the projector; after it: DualFed-P, or -G if that is shared
    personal: tuple[str, ...] = ("projector", "personal_classifier")  # parts that stay with their client (Table 7)
    ensemble: Literal["logits", "probabilities"] = "logits"  # what of the two classifiers is added
    rule: str = "uniform"  # how answers are averaged: evenly, the paper's; weighted by samples, median, trimmed:0.1

    send = broadcast
    merge = average

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.contrast < 0:
            raise MethodError(f"DualFed needs contrast (λ) ≥ 0, got {self.contrast:g}; 40 for PACS, 2 for Office-Home")
        positive("DualFed", "temperature (τ)", self.temperature, "0.2 for PACS, 0.05 for Office-Home")
        if not 1 <= self.depth <= 3 or self.width < 1:
            raise MethodError(f"DualFed's projector has 1 to 3 layers of width ≥ 1, got {self.depth} of {self.width}")
        object.__setattr__(self, "personal", tuple(self.personal))
        for part in self.personal:
            if part not in Model._fields:
                raise suggest("part of DualFed", part, Model._fields)

    def check(self, task: Task, sizes: list[int], participants: int) -> None:
        least = math.ceil(_CALM * self.contrast * self.budget.lr - 1e-9)
        if self.projector_norm and self.budget.batch_size < least:
            raise MethodError(
                f"DualFed's projector normalises over a batch, which at contrast={self.contrast:g} and "
                f"budget.lr={self.budget.lr:g} blows up below {least} samples: budget.batch_size is {self.budget.batch_size}; "
                "raise it, lower the contrast, or set method.projector_norm=false"
            )

    @property
    def passes(self) -> int:
        return self.budget.epochs * (1 if self.training == "simultaneous" else 2)

    def init(self, task: Task, clients: int) -> tuple[Model, Model]:
        projector = task.part("projector", partial(self._projector, task.width))
        body, head = task.split(task.params())
        return self._cut(Model(body, projector.params(), self._personal(task).params(), head))

    def _cut(self, whole: Model) -> tuple[Model, Model]:
        """Return what is shared and what is the client's own."""
        own = [name in self.personal for name in Model._fields]
        return (
            Model(*({} if kept else part for part, kept in zip(whole, own, strict=True))),
            Model(*(part if kept else {} for part, kept in zip(whole, own, strict=True))),
        )

    def local(self, task: Task, down: Model, mine: Model, data: Shard) -> tuple[Model, Model]:
        m, epochs = trees.over(down, mine), self.budget.epochs
        if self.training == "simultaneous":
            m = descend(partial(self._loss, task), m, data.epochs(epochs), self.budget)
        elif self.training == "stages":
            m = self._stages(task, m, data, epochs, "")
        else:
            for epoch in range(epochs):
                m = self._stages(task, m, data, 1, f" {epoch}")
        return self._cut(m)

    def _stages(self, task: Task, m: Model, data: Shard, epochs: int, label: str) -> Model:
        """Move the main branch, then fit the global classifier to it: Eqs. (8) and (10)."""

        held = task if self.second_stage == "training" else task.served

        def see(x: Tensor) -> Tensor:
            return held.features(m.encoder, x)

        def fit(w: Model, batch: Batch) -> Tensor:
            frozen = trees.over(m, w)
            u, seen = self._features(held, frozen, batch.x, batch.seen)
            if w.personal_classifier:  # as in the official loop the whole model runs, so all of its statistics move
                self._personal(held)(frozen.personal_classifier, u)
            return task.fit(task.classify(w.global_classifier, seen), batch)

        branch = m._replace(global_classifier={})
        m = trees.over(m, descend(partial(self._loss, task), branch, data.epochs(epochs, f"fit{label}"), self.budget))
        moving = Model(*(trees.state(part) if self.second_stage == "training" else {} for part in m))
        start = moving._replace(global_classifier=m.global_classifier)
        batches = data.epochs(epochs, f"classifier{label}", see if held.body.steady else None)
        return trees.over(m, descend(fit, start, batches, self.budget))

    def _loss(self, task: Task, w: Model, batch: Batch) -> Tensor:
        """Return the loss of the main branch, and with it that of the global classifier if it is trained too."""
        u, seen = self._features(task, w, batch.x)
        loss = task.fit(self._personal(task)(w.personal_classifier, u), batch)
        if self.contrast:
            loss = loss + self.contrast * supervised_contrast(u, batch, self.temperature)
        return loss + task.fit(task.classify(w.global_classifier, seen), batch) if w.global_classifier else loss

    def predict(self, task: Task, down: Model, mine: Model, x: Tensor) -> Tensor:
        own, common = self.heads(task, down, mine, x).values()
        return own + common if self.ensemble == "logits" else pooled(own, common)

    def heads(self, task: Task, down: Model, mine: Model, x: Tensor) -> dict[str, Tensor]:
        """Return the logits of the personal and of the global classifier: Eqs. (4) and (3)."""
        m = trees.over(down, mine)
        u, seen = self._features(task, m, x)
        return {
            "personal": self._personal(task)(m.personal_classifier, u),
            "global": task.classify(m.global_classifier, seen),
        }

    def representations(self, task: Task, down: Model, mine: Model, x: Tensor) -> dict[str, Tensor]:
        m = trees.over(down, mine)
        z = task.features(m.encoder, x)
        return {"before the projector": z, "after the projector": self._features(task, m, x, z)[0]}

    def _features(self, task: Task, m: Model, x: Tensor, z: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return what the personal and what the global classifier sees; ``z`` if the encoder was at work before."""
        z = task.features(m.encoder, x) if z is None else z
        u = task.part("projector", partial(self._projector, task.width))(m.projector, z)
        return u, z if self.global_classifier == "before" else u

    def _personal(self, task: Task) -> Part:
        return task.part("personal", task.head.again)

    def _projector(self, width: int) -> nn.Module:
        def normed(size: int) -> list[nn.Module]:
            return [nn.BatchNorm1d(size)] if self.projector_norm else []

        layers: list[nn.Module] = []
        inside = width
        for _ in range(self.depth - 1):
            layers += [nn.Linear(inside, self.width), nn.ReLU(), *normed(self.width)]
            inside = self.width
        return nn.Sequential(*layers, nn.Linear(inside, width), *normed(width))
