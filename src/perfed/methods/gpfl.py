"""GPFL (Zhang et al., ICCV 2023): features guided by common category embeddings and by one's own task at once."""

from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.linalg import vector_norm

from .. import keys, trees
from ..errors import MethodError
from ..local import Batch, Shard, descend
from ..method import Method, Piece, positive
from ..method.search import log
from ..server import average, broadcast
from ..task import Part, Task, cross_entropy
from ..trees import Params

TABLE = "embedding.weight"


class Shared(NamedTuple):
    body: Params
    valve: Params  # V, which turns a condition into a scale and a shift
    embeddings: Params  # C, one row per category


class Mine(NamedTuple):
    head: Params
    shares: Tensor  # α, the frequency of each category among the client's training samples
    table: Params  # the embeddings as the client left them, kept where stale ones are asked for


class Model(NamedTuple):
    shared: Shared
    head: Params


@dataclass(frozen=True, kw_only=True)
class GPFL(Method[Shared, Shared, Shared, Mine]):
    """Bend features two ways: towards the embedding of their category, and for a head of one's own."""

    crosses = "body embeddings valve | body embeddings valve | head shares"  # fields that go down, go up and stay
    guarded = (
        "yes: extractor, valve and embeddings are clipped and noised as one; the head stays exact | no: its guidance is "
        "a distance over the whole batch, under shares of labels that are not noised"
    )
    search = {"magnitude": log(0.001, 0.1), "decay": log(0.001, 0.3)}  # worth tuning, and in which range
    newcomer = (
        "the common extractor, valve and category embeddings | "
        "fits a head of its own, under the condition that its labels make | "
        "ours: the paper trains all together, here what is common is held"
    )
    names_classes = "it learns an embedding of every class"

    cost = 1.2

    magnitude: float = 0.01  # λ, pull of general features to their received embedding; 0 is "w/o L_mlg"
    decay: float = 0.1  # μ, weight decay of valve and embeddings; 1 for HAR-CNN, 0 for ResNet-18 and fastText
    personal_input: bool = True  # whether conditions follow the embeddings; False, two constants, is "w/o PCI"
    valve: bool = True  # whether features are bent at all; False is "w/o CoV"
    embeddings: bool = True  # whether categories guide features; False is "w/o GCE"
    divide: bool = False  # whether the personal condition is divided by the number of categories, as Eq. (7) prints
    source: Literal["received", "stale"] = "received"  # embeddings behind the conditions; stale: the official code's
    distance: Literal["batch", "sample", "square"] = "batch"  # of L_mlg: norm over the batch, mean norm, mean square
    valve_start: float = 1.0  # what the valve's last layer is scaled with at the start; 0.1 lets features through at first
    penalty: Literal["decay", "norms"] = "decay"  # what μ weighs: half the squares, or the norms that Eq. (11) prints
    rule: str = "mean"  # how answers are averaged: by samples; uniform, median, trimmed:0.1

    send = broadcast
    merge = average

    reveals = "where stale embeddings are asked for, the embeddings a client keeps are those it uploaded"

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("GPFL", "valve_start", self.valve_start, "the valve would begin without a slope; 1 is the paper's")
        if self.magnitude < 0 or self.decay < 0:
            raise MethodError(
                f"GPFL needs magnitude (λ) and decay (μ) ≥ 0, got {self.magnitude:g} and {self.decay:g}; a CNN has 0.01 and 0.1"
            )

    def init(self, task: Task, clients: int) -> tuple[Shared, Mine]:
        body, head = task.split(task.params())
        valve = self._bend(task, "gamma").params() | self._bend(task, "beta").params() if self.valve else {}
        table = task.part("embedding", partial(nn.Embedding, task.classes, task.width)).params()
        even = torch.full((task.classes,), 1 / task.classes, device=task.device)
        kept = trees.clone(table) if self.embeddings and self.source == "stale" else {}
        return Shared(body, valve, table if self.embeddings else {}), Mine(head, even, kept)

    def adapt(self, task: Task, down: Shared, mine: Mine, data: Shard) -> tuple[Shared, Mine]:
        return down, mine._replace(shares=_shares(data))  # a client knows its labels before it ever trains

    def local(self, task: Task, down: Shared, mine: Mine, data: Shard) -> tuple[Shared, Mine]:
        mine = mine._replace(shares=_shares(data))
        general, own = self._conditions(task, down, mine)

        def loss(m: Model, batch: Batch) -> Tensor:
            z = task.features(m.shared.body, batch.x)
            fit = task.fit(task.classify(m.head, self._bent(task, m.shared.valve, z, own)), batch)
            if self.embeddings:
                fit = fit + self._guidance(self._bent(task, m.shared.valve, z, general), m, down, batch)
            if self.penalty == "norms" and self.decay:
                parts = (part for part in (m.shared.valve, m.shared.embeddings) if part)
                fit = fit + self.decay * sum(map(_norm, parts))
            return fit

        def decay(path: str) -> float:
            added = path.startswith(("shared/valve/", "shared/embeddings/"))
            return self.decay if added and self.penalty == "decay" else self.budget.weight_decay

        m = descend(loss, Model(down, mine.head), data.epochs(self.budget.epochs), self.budget, decay=decay)
        return m.shared, Mine(m.head, mine.shares, m.shared.embeddings if mine.table else {})

    def predict(self, task: Task, down: Shared, mine: Mine, x: Tensor) -> Tensor:
        _, own = self._conditions(task, down, mine)
        return task.classify(mine.head, self._bent(task, down.valve, task.features(down.body, x), own))

    def pieces(self, task: Task, down: Shared) -> dict[str, Piece]:
        """Return extractor and valve under the general condition, alone and with the embeddings as classifier."""
        if not self.embeddings:
            return {}
        names = [name for part in down for name in part]

        def bent(weights: Params, x: Tensor) -> Tensor:
            valve = {name: weights[name] for name in down.valve}
            return self._bent(task, valve, task.features(weights, x), weights[TABLE].mean(0))

        def classified(weights: Params, x: Tensor) -> Tensor:
            return F.linear(bent(weights, x), weights[TABLE])

        return {
            "pseudo_extractor": Piece(names, bent, task.width),
            "pseudo_model": Piece(names, classified, task.classes),
        }

    def _conditions(self, task: Task, down: Shared, mine: Mine) -> tuple[Tensor, Tensor]:
        """Return g and p, constants of the round: Eqs. (5) and (7)."""
        if not (self.personal_input and self.embeddings):
            key, shape = keys.key(task.seed, "condition").to(task.device), (task.width,)
            general, own = (keys.normal(keys.fold(key, name), shape).to(task.dtype) for name in ("general", "own"))
            return general, own
        table = (mine.table or down.embeddings)[TABLE]
        own = mine.shares.to(table.dtype) @ table  # shares add up to 1: even ones give g, which a further 1/U would shrink
        return table.mean(0), own / task.classes if self.divide else own

    def _bent(self, task: Task, valve: Params, z: Tensor, condition: Tensor) -> Tensor:
        """Return features scaled and shifted by what the valve makes of a condition: Eqs. (3) and (4)."""
        if not self.valve:
            return z
        return F.relu((self._bend(task, "gamma")(valve, condition) + 1) * z + self._bend(task, "beta")(valve, condition))

    def _bend(self, task: Task, name: str) -> Part:
        def build() -> nn.Module:
            layers = nn.Sequential(nn.Linear(task.width, task.width), nn.ReLU(), nn.LayerNorm(task.width))
            nn.init.constant_(layers[2].weight, self.valve_start)  # type: ignore[arg-type]
            return layers

        return task.part(name, build)

    def _guidance(self, z: Tensor, m: Model, down: Shared, batch: Batch) -> Tensor:
        """Return how far general features are from their category in angle and in magnitude: Eqs. (8) and (9)."""
        angle = cross_entropy(F.normalize(z, dim=1) @ F.normalize(m.shared.embeddings[TABLE], dim=1).T, batch)
        if not self.magnitude:
            return angle
        gap = z - down.embeddings[TABLE][batch.y]
        if self.distance == "batch":
            far: Tensor = vector_norm(gap if batch.mask is None else gap * batch.mask[:, None])
        else:
            far = batch.mean(vector_norm(gap, dim=1) if self.distance == "sample" else gap.square().mean(1))
        return angle + self.magnitude * far


def _norm(part: Params) -> Tensor:
    whole: Tensor = vector_norm(torch.stack([vector_norm(leaf) for leaf in part.values()]))  # without a copy of the weights
    return whole


def _shares(data: Shard) -> Tensor:
    return data.counts / data.total
