"""FedCP (Zhang et al., KDD 2023): a policy splits every feature between a personal and a global head."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .. import keys, trees
from ..errors import MethodError
from ..local import Batch, Shard, descend
from ..local.losses import WIDTHS, mmd, paired_discrepancy
from ..method import Method, Piece
from ..method.search import log
from ..server import average, broadcast
from ..task import Task
from ..trees import Params


class Model(NamedTuple):
    body: Params
    head: Params  # the common head on the wire, the client's own while it trains
    policy: Params


@dataclass(frozen=True, kw_only=True)
class FedCP(Method[Model, Model, Model, Params]):
    """Let a conditional policy network decide, sample by sample, which features are personal."""

    crosses = "body head policy | body head policy | head"  # fields that go down, go up and stay
    guarded = (
        "yes: body, blended head and policy are clipped and noised as one; the client's own head stays exact, and the "
        "blend no longer gives it away | no: its pull compares the features of a whole batch, so no sample's part can be "
        "clipped"
    )
    search = {"align": log(0.1, 10)}  # worth tuning, and in which range
    newcomer = (
        "the common body, head and policy | fits a head of its own to them, from the start that everyone had | "
        "ours: the paper trains all together, here what is common is held"
    )

    cost = 1.5

    align: float = 5.0  # λ, pull of the trained features towards the received body's; 0 leaves it out ("w.o. GFM")
    policy: Literal["softmax", "gumbel_train", "gumbel_always"] = "softmax"  # Eq. (4), or noisy as the official code
    context: Literal["both", "client", "sample", "none"] = "both"  # what the policy network sees ("w.o. cs", "w.o. ss")
    blend: Literal["policy", "sum", "personal"] = "policy"  # heads by policy, both ("w.o. CPN"), own ("w.o. CPN & GH")
    layers: int = 1  # linear layers of the policy network, 1 to 4
    layer_norm: Literal["layer", "batch", "group"] = "layer"  # its normalisation
    activation: Literal["relu", "tanh", "sigmoid"] = "relu"  # its activation
    discrepancy: Literal["mmd", "paired"] = "mmd"  # between feature clouds, or sample by sample
    widths: tuple[float, ...] = WIDTHS  # variances of the kernels
    rule: str = "mean"  # how answers are averaged: by samples; uniform, median, trimmed:0.1

    send = broadcast
    merge = average

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.align < 0:
            raise MethodError(f"FedCP needs align (λ) ≥ 0, got {self.align:g}; 5 for a CNN, 1 for ResNet-18 or fastText")
        if not 1 <= self.layers <= 4:
            raise MethodError(f"FedCP's policy network has 1 to 4 layers, got {self.layers}")

    def check(self, task: Task, sizes: list[int], participants: int) -> None:
        if not task.head.linears and self.blend == "policy":
            raise MethodError("FedCP reads a client's direction off its head's linear layers, this head has none")

    def init(self, task: Task, clients: int) -> tuple[Model, Params]:
        body, head = task.split(task.params())
        policy = task.part("policy", lambda: self._network(task.width)).params() if self.blend == "policy" else {}
        return Model(body, head if self.blend != "personal" else {}, policy), trees.clone(head)

    def local(self, task: Task, down: Model, mine: Params, data: Shard) -> tuple[Model, Params]:
        vector = self._vector(task, mine)

        def see(x: Tensor) -> Tensor:
            return task.still.features(down.body, x).detach()

        def loss(m: Model, batch: Batch) -> Tensor:
            z = task.features(m.body, batch.x)
            fit = task.fit(self._logits(task, m, down.head, vector, z, batch.key), batch)
            if not self.align:
                return fit
            received = see(batch.x) if batch.seen is None else batch.seen
            drift = mmd if self.discrepancy == "mmd" else paired_discrepancy
            return fit + self.align * drift(z, received, batch, self.widths)

        ahead = see if self.align and task.body.steady else None
        batches = data.epochs(self.budget.epochs, see=ahead)
        m = descend(loss, Model(down.body, mine, down.policy), batches, self.budget)
        blended = trees.lerp(m.head, down.head, 0.5) if down.head else {}
        return m._replace(head=blended), m.head

    def predict(self, task: Task, down: Model, mine: Params, x: Tensor) -> Tensor:
        z = task.features(down.body, x)
        return self._logits(task, down._replace(head=mine), down.head, self._vector(task, mine), z, None)

    def after(self, down: Model, up: Model) -> Model:
        return up._replace(head=down.head)  # the answer's head is a blend for the server, not what the client uses

    def policies(self, task: Task, down: Model, mine: Params, x: Tensor) -> Tensor:
        if self.blend != "policy":
            raise MethodError(f"this FedCP has no policy network: its blend is '{self.blend}', not 'policy'")
        return self._served(task, down, mine, task.features(down.body, x))

    def _served(self, task: Task, down: Model, mine: Params, z: Tensor) -> Tensor:
        return self.personal(task, down.policy, self._vector(task, mine), z, self._serving_key(task, z.device))

    def heads(self, task: Task, down: Model, mine: Params, x: Tensor) -> dict[str, Tensor]:
        z = task.features(down.body, x)
        if self.blend == "personal":
            return {"personal": task.classify(mine, z)}
        s = self._served(task, down, mine, z) if self.blend == "policy" else None
        own, common = (z, z) if s is None else (s * z, (1 - s) * z)
        return {"personal": task.classify(mine, own), "global": task.classify(down.head, common)}

    def pieces(self, task: Task, down: Model) -> dict[str, Piece]:
        """Return the client's model as far as it is uploaded, its blended head in the place of its own."""

        def logits(weights: Params, x: Tensor) -> Tensor:
            m = Model(*({name: weights[name] for name in part} for part in down))
            received = {name: leaf.to(x.dtype) for name, leaf in down.head.items()}
            vector = self._vector(task, m.head).to(x.dtype)
            return self._logits(task, m, received, vector, task.features(m.body, x), None)

        # the answer's head lies halfway between the received one and the client's, so the server can tell the client's
        gains = dict.fromkeys(down.head, 2.0)
        return {"upload": Piece([name for part in down for name in part], logits, task.classes, gains)}

    def personal(self, task: Task, policy: Params, vector: Tensor, z: Tensor, key: Tensor | None) -> Tensor:
        """Return s, the share of each feature that goes to the personal head."""
        client = vector.expand_as(z)
        seen = {"both": z * vector, "sample": z, "client": client, "none": client}[self.context]
        scores = task.part("policy", lambda: self._network(task.width))(policy, seen).view(*z.shape[:-1], 2, -1)
        if key is not None and self.policy != "softmax":
            scores = scores + keys.gumbel(key, tuple(scores.shape))
        return torch.softmax(scores, dim=-2)[..., 0, :]

    def _logits(self, task: Task, m: Model, head: Params, vector: Tensor, z: Tensor, key: Tensor | None) -> Tensor:
        if self.blend == "personal":
            return task.classify(m.head, z)
        frozen = task.still if task.mode == "train" else task  # its statistics never move, and serve when it serves
        if self.blend == "sum":
            return task.classify(m.head, z) + frozen.classify(head, z)
        s = self.personal(task, m.policy, vector, z, self._serving_key(task, z.device) if key is None else key)
        return task.classify(m.head, s * z) + frozen.classify(head, (1 - s) * z)

    def _serving_key(self, task: Task, device: torch.device) -> Tensor | None:
        """Return the key of the noise that the official code also serves with."""
        return keys.key(task.seed, "serve").to(device) if self.policy == "gumbel_always" else None

    def _vector(self, task: Task, head: Params) -> Tensor:
        """Return the client's direction: its head's weights multiplied out, summed over classes, of length one."""
        if self.context == "none" or self.blend != "policy":  # without a policy network nobody asks
            return keys.uniform(keys.key(task.seed, "context").to(task.device), (task.width,)).to(task.dtype)
        product = head[task.head.linears[-1]]
        for name in reversed(task.head.linears[:-1]):
            product = product @ head[name]
        return F.normalize(product.sum(0), dim=0).detach()

    def _network(self, width: int) -> nn.Module:
        norm = {
            "layer": nn.LayerNorm(2 * width),
            "batch": nn.BatchNorm1d(2 * width),
            "group": nn.GroupNorm(2, 2 * width),
        }
        bend = {"relu": nn.ReLU(), "tanh": nn.Tanh(), "sigmoid": nn.Sigmoid()}
        front = [nn.Linear(width, width) for _ in range(self.layers - 1)]
        return nn.Sequential(*front, nn.Linear(width, 2 * width), norm[self.layer_norm], bend[self.activation])
