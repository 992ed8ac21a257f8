"""FedPHP (Li et al., ECML PKDD 2021): an inherited private model teaches the received one and outlives it."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from .. import trees
from ..errors import MethodError
from ..local import Batch, Shard, descend
from ..local.losses import mmd, mmd_scaled
from ..method import Method, as_in_a_round, positive
from ..method.search import linear, log
from ..server import average, broadcast
from ..task import Task
from ..trees import Params


class Mine(NamedTuple):
    heirloom: Params  # moving average of this client's past models (in the variant of 2022: the last one)
    visits: Tensor  # rounds this client has taken part in


@dataclass(frozen=True, kw_only=True)
class FedPHP(Method[Params, Params, Params, Mine]):
    """Pull the features of the received model towards those of the client's own past; serve that past."""

    crosses = "body head | body head | heirloom visits"  # fields that go down, go up and stay
    guarded = (
        "yes: the model is all that leaves, and it is clipped and noised as one; the heirloom stays exact | no: its "
        "lesson compares the features of a whole batch, so no sample's part can be clipped"
    )
    search = {"lesson": log(0.01, 0.3), "keep": linear(0.5, 0.95)}  # worth tuning, and in which range
    newcomer = "the common model | trains it as in its first round, and keeps the result as its heirloom | the paper's"

    cost = 1.4

    lesson: float = 0.05  # λ, weight of the lesson; the cross-entropy has 1 − λ
    keep: float = 0.9  # μ, share of the past kept once a client has taken part as often as expected
    rounds: int = 1000  # T, rounds of the run: filled in from the experiment where none are given
    participation: float = 1.0  # ρ, expected share of rounds in which a client takes part
    transfer: Literal["mmd", "mmd_fixed", "distil"] = "mmd"  # scaled kernels, FedCP's kernels, or soft labels
    temperature: float = 4.0  # of the teacher's soft labels, where transfer is "distil"
    variant: Literal["original", "pfllib2022"] = "original"  # the past teaches and is served, or PFLlib's scheme of 2022
    rule: str = "mean"  # how answers are averaged: by samples; uniform, median, trimmed:0.1

    send = broadcast
    join = as_in_a_round
    merge = average

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("FedPHP", "lesson (λ)", self.lesson, "without it the past teaches nothing; the original uses 0.05 or 0.1")
        positive("FedPHP", "keep (μ)", self.keep, "without it nothing is inherited; the paper uses 0.9")
        positive("FedPHP", "temperature", self.temperature, "the original uses 4")
        if max(self.lesson, self.keep) >= 1:
            raise MethodError(f"FedPHP needs lesson (λ) and keep (μ) below 1, got {self.lesson:g} and {self.keep:g}")
        if self.rounds < 1 or not 0 < self.participation <= 1:
            raise MethodError(
                f"FedPHP needs rounds (T) ≥ 1 and participation (ρ) in (0, 1], got {self.rounds} and {self.participation:g}"
            )

    def init(self, task: Task, clients: int) -> tuple[Params, Mine]:
        return task.params(), Mine(task.params(), torch.zeros((), device=task.device))

    def local(self, task: Task, down: Params, mine: Mine, data: Shard) -> tuple[Params, Mine]:
        original = self.variant == "original"
        teacher = mine.heirloom if original else down

        def taught(w: Params, batch: Batch) -> Tensor:
            z = task.features(w, batch.x)
            scores = task.classify(w, z)
            gap = self._gap(task, teacher, z, scores, batch)
            return (1 - self.lesson) * task.fit(scores, batch) + self.lesson * gap

        start = down if original else self._inherit(down, mine)
        w = descend(taught, start, data.epochs(self.budget.epochs), self.budget)
        return w, Mine(self._inherit(w, mine) if original else w, mine.visits + 1)

    def _gap(self, task: Task, teacher: Params, z: Tensor, scores: Tensor, batch: Batch) -> Tensor:
        """Return how far a batch's features (or scores) are from the teacher's, who is frozen and served."""
        past = task.served.features(teacher, batch.x)
        if self.transfer == "distil":
            soft = F.softmax(task.served.classify(teacher, past) / self.temperature, 1)
            return batch.mean(-(soft * F.log_softmax(scores, 1)).sum(1))
        return mmd_scaled(z, past, batch) if self.transfer == "mmd" else mmd(z, past, batch)

    def _inherit(self, new: Params, mine: Mine) -> Params:
        """Return ``new`` blended with the heirloom, which weighs more the more often the client took part, up to μ."""
        expected = max(int(self.participation * self.rounds + 1e-6), 1)
        return trees.lerp(new, mine.heirloom, self.keep * (mine.visits / expected).clamp(max=1))

    def predict(self, task: Task, down: Params, mine: Mine, x: Tensor) -> Tensor:
        return task.logits(mine.heirloom if self.variant == "original" else self._inherit(down, mine), x)
