"""FedPick (Zhu et al., 2023): a selector of one's own picks, sample by sample, the features worth using."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from .. import keys, trees
from ..errors import MethodError
from ..local import Batch, Shard, descend
from ..local.losses import divergence, negative_entropy, pooled
from ..method import Method, positive
from ..method.search import log
from ..server import average, broadcast
from ..task import Norm, Part, Task
from ..trees import Params


class Model(NamedTuple):
    """All of a client's model; on the wire and at home, the parts that are elsewhere are empty."""

    encoder: Params
    head: Params  # h_g, on all features
    selector: Params  # φ, one logit per feature
    chosen: Params  # h_p, the classifier of selected features
    rejected: Params  # h_u, the classifier of the others


@dataclass(frozen=True, kw_only=True)
class FedPick(Method[Model, Model, Model, Model]):
    """Classify all features for everybody and the selected ones for oneself; let each teach the other."""

    crosses = "encoder head | encoder head | chosen rejected selector"  # fields that go down, go up and stay
    guarded = (
        "yes: encoder and common classifier are clipped and noised as one; selector and own classifiers stay exact | "
        "yes: all parts train in the same steps, which are clipped and noised together, so the client's own parts are "
        "noised too"
    )
    search = {"personal_loss": log(0.5, 10), "distil": log(0.5, 10)}  # worth tuning, and in which range
    newcomer = (
        "the common encoder and classifier, but for BatchNorm | "
        "fits a selector, two classifiers and BatchNorm layers of its own | "
        "ours: the paper trains all together, here what is common is held"
    )
    names_classes = "it compares probabilities of classes"

    cost = 1.2
    former = {"teachers": "moving"}

    temperature: float = 1.0  # τ, of the mask; 10 for Digits-Five
    personal_loss: float = 1.0  # λ_lce, weight of the selected features' cross-entropy; 10 for Digits-Five
    entropy: float = 0.001  # λ_ent, how strongly rejected features are kept from telling classes apart
    distil: float = 1.0  # λ_dis, weight of the two classifiers' mutual teaching; 10 for Digits-Five
    threshold: float = 0.5  # ε, of the soft mask, from which a feature is selected
    selection: Literal["hard", "soft", "none"] = "hard"  # masks of 0 and 1, in between, or no selector ("w/o PFSM")
    share_selector: bool = False  # whether selector and its two classifiers are averaged too ("Share PFSM")
    ensemble: Literal["logits", "probabilities", "global"] = "logits"  # what is served; "global" is "w/o Ensemble"
    teachers: Literal["fixed", "moving"] = "fixed"  # whether gradients of the mutual teaching reach the teaching side
    entropy_scope: Literal["all", "selector"] = "all"  # what the entropy loss trains: also the encoder, or not
    rule: str = "mean"  # how answers are averaged: by samples; uniform, median, trimmed:0.1
    norm: Norm = "local_all"

    send = broadcast
    merge = average

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("FedPick", "temperature (τ)", self.temperature, "it divides the mask's logits; the paper has 1 and 10")
        if min(self.personal_loss, self.entropy, self.distil) < 0:
            raise MethodError("FedPick needs personal_loss, entropy and distil ≥ 0; the paper has 1, 0.001 and 1")
        if not 0 < self.threshold < 1:
            raise MethodError(f"FedPick needs a threshold (ε) between 0 and 1, got {self.threshold:g}; 0.5 is the paper's")
        untrained = self.personal_loss == 0 and self.distil == 0
        if untrained and self.selection != "none" and self.ensemble != "global":
            raise MethodError(
                "FedPick without personal_loss and distil never trains its personal classifier; "
                "ensemble=global leaves that one out"
            )

    def init(self, task: Task, clients: int) -> tuple[Model, Model]:
        body, head = task.split(task.params())
        selector = _selector(task).params(), _another(task, "chosen").params(), _another(task, "rejected").params()
        return self._cut(Model(body, head, *(selector if self.selection != "none" else ({}, {}, {}))))

    def _cut(self, m: Model) -> tuple[Model, Model]:
        """Return what is shared and what is the client's own."""
        if self.share_selector:
            return m, Model({}, {}, {}, {}, {})
        return Model(m.encoder, m.head, {}, {}, {}), Model({}, {}, *m[2:])

    def local(self, task: Task, down: Model, mine: Model, data: Shard) -> tuple[Model, Model]:
        start = trees.over(down, mine)
        return self._cut(descend(partial(self._loss, task), start, data.epochs(self.budget.epochs), self.budget))

    def _loss(self, task: Task, m: Model, batch: Batch) -> Tensor:
        """Return the total loss, Eq. (15), without the terms whose weight is zero."""
        z = task.features(m.encoder, batch.x)
        common = task.classify(m.head, z)
        loss = task.fit(common, batch)
        if self.selection == "none" or not (self.personal_loss or self.entropy or self.distil):
            return loss
        mask = self.mask(task, m.selector, z, batch.key)
        if self.personal_loss or self.distil:
            own = _another(task, "chosen")(m.chosen, z * mask)
            loss = loss + self.personal_loss * task.fit(own, batch) + self.distil * self._lesson(own, common, batch)
        if self.entropy:
            if self.entropy_scope == "selector":  # the same mask, but as a function of the selector alone
                z = z.detach()
                mask = self.mask(task, m.selector, z, batch.key)
            rest = _another(task, "rejected")(m.rejected, z * (1 - mask))
            loss = loss + self.entropy * negative_entropy(rest, batch)
        return loss

    def _lesson(self, own: Tensor, common: Tensor, batch: Batch) -> Tensor:
        """Return what each classifier has to learn from the other: Eq. (13)."""
        if self.teachers == "moving":  # without a bound: where they differ much, they are thrown past each other
            return divergence(own, common, batch) + divergence(common, own, batch)
        return divergence(own.detach(), common, batch) + divergence(common.detach(), own, batch)

    def mask(self, task: Task, selector: Params, z: Tensor, key: Tensor | None = None) -> Tensor:
        """Return which features are selected, Eq. (9); with a ``key`` Gumbel noise is added, as in training."""
        scores = _selector(task)(selector, z)
        if key is not None:
            shape = tuple(scores.shape)
            scores = scores + keys.gumbel(keys.fold(key, "pick"), shape) - keys.gumbel(keys.fold(key, "drop"), shape)
        soft = torch.sigmoid(scores / self.temperature)
        if self.selection == "soft":
            return soft
        level = self.temperature * math.log(self.threshold / (1 - self.threshold))
        hard = (scores >= level).to(soft.dtype)  # by the logit: the sigmoid rounds small negative ones up to 0.5
        return soft + (hard - soft).detach()  # in this order the sum is exactly 0 or 1

    def predict(self, task: Task, down: Model, mine: Model, x: Tensor) -> Tensor:
        *own, common = self.heads(task, down, mine, x).values()
        if not own or self.ensemble == "global":
            return common
        return own[0] + common if self.ensemble == "logits" else pooled(own[0], common)

    def heads(self, task: Task, down: Model, mine: Model, x: Tensor) -> dict[str, Tensor]:
        """Return the logits of the personal classifier, if there is one, and of the global classifier."""
        m = trees.over(down, mine)
        z = task.features(m.encoder, x)
        if not m.selector:
            return {"global": task.classify(m.head, z)}
        own = _another(task, "chosen")(m.chosen, z * self.mask(task, m.selector, z))
        return {"personal": own, "global": task.classify(m.head, z)}

    def selected(self, task: Task, down: Model, mine: Model, x: Tensor) -> Tensor:
        if self.selection == "none":
            raise MethodError("this FedPick has no selector: its selection is 'none'")
        m = trees.over(down, mine)
        return self.mask(task, m.selector, task.features(m.encoder, x))

    def representations(self, task: Task, down: Model, mine: Model, x: Tensor) -> dict[str, Tensor]:
        z = task.features(down.encoder, x)
        if self.selection == "none":
            return {"features": z}
        mask = self.mask(task, trees.over(down, mine).selector, z)
        return {"selected features": z * mask, "rejected features": z * (1 - mask)}


def _selector(task: Task) -> Part:
    wide, half = task.width, max(1, task.width // 2)
    return task.part("selector", lambda: nn.Sequential(nn.Linear(wide, half), nn.ReLU(), nn.Linear(half, wide)))


def _another(task: Task, name: str) -> Part:
    return task.part(name, task.head.again)
