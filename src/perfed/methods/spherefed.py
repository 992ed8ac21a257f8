"""SphereFed (Dong et al., ECCV 2022): features on a sphere, learned against class directions that never move."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import MethodError
from ..local import Batch, Shard, descend
from ..method import Method, positive
from ..server import Uploads, combine, mean
from ..task import Norm, Part, Task
from ..trees import Params


class Server(NamedTuple):
    body: Params
    head: Params  # the calibrated classifier, once there is one
    round: Tensor


class Down(NamedTuple):
    body: Params
    head: Params
    survey: Params  # not empty in the round that calibrates


class Up(NamedTuple):
    body: Params  # empty in the round that calibrates
    statistics: Params  # Σ h h' and Σ h y' of that round


@dataclass(frozen=True, kw_only=True)
class SphereFed(Method[Server, Down, Up, tuple[()]]):
    """Fit cosines with fixed orthonormal class vectors to one-hot labels; average the body alone."""

    calibrate: bool = False  # whether the last round solves for the best classifier instead of training
    ridge: float = 1.0  # r, of the least squares of the calibration
    rounds: int = 300  # T, the round that calibrates
    norm: Norm = "all"

    def __post_init__(self) -> None:
        positive("SphereFed", "ridge (r)", self.ridge, "features that never vary would make the least squares singular")
        if self.rounds < 1 + self.calibrate:
            raise MethodError(f"SphereFed needs rounds ≥ {1 + self.calibrate}, got {self.rounds}: "
                              "the round that calibrates does not train")

    def check(self, task: Task, sizes: list[int], participants: int) -> None:
        if task.classes > task.width:
            raise MethodError(f"SphereFed needs {task.classes} orthogonal class vectors in {task.width} features: "
                              "the network needs wider ones")

    def init(self, task: Task, clients: int) -> tuple[Server, tuple[()]]:
        _sphere(task)
        return Server(task.split(task.params())[0], {}, torch.zeros((), dtype=torch.int64)), ()

    def send(self, server: Server, client: int) -> Down:
        last = self.calibrate and int(server.round) + 1 == self.rounds
        return Down(server.body, server.head, {"last": torch.ones((), dtype=torch.bool)} if last else {})

    def local(self, task: Task, down: Down, mine: tuple[()], data: Shard) -> tuple[Up, tuple[()]]:
        if down.survey:
            return Up({}, _statistics(task, down.body, data)), ()
        sphere = _sphere(task)

        def loss(body: Params, batch: Batch) -> Tensor:
            cosines = sphere(sphere.start, F.normalize(task.features(body, batch.x)))
            return batch.mean((cosines - F.one_hot(batch.y, task.classes)).square().sum(1))

        return Up(descend(loss, down.body, data.epochs(self.budget.epochs), self.budget), {}), ()

    def merge(self, server: Server, ups: Uploads[Up]) -> Server:
        answers = ups.trees
        if answers[0].body:  # a classifier calibrated for another body is forgotten
            return Server(mean([up.body for up in answers], ups.sizes), {}, server.round + 1)
        total = combine([1.0] * len(answers), [up.statistics for up in answers])
        gram, cross = total["gram"].double(), total["cross"].double()
        best = torch.linalg.solve(gram + self.ridge * torch.eye(len(gram), dtype=gram.dtype), cross)
        return Server(server.body, {"sphere.weight": best.T.float().contiguous()}, server.round + 1)

    def predict(self, task: Task, down: Down, mine: tuple[()], x: Tensor) -> Tensor:
        sphere = _sphere(task)
        return sphere(down.head or sphere.start, F.normalize(task.features(down.body, x)))

    def after(self, down: Down, up: Up) -> Down:
        return Down(up.body or down.body, down.head, down.survey)


def _sphere(task: Task) -> Part:
    """Return the fixed classifier: C orthonormal directions, drawn from the task's seed alike everywhere."""

    def build() -> nn.Module:
        directions = nn.Linear(task.width, task.classes, bias=False)
        nn.init.orthogonal_(directions.weight)
        return directions

    return task.part("sphere", build)


def _statistics(task: Task, body: Params, data: Shard) -> Params:
    gram = torch.zeros(task.width, task.width, device=task.device)
    cross = torch.zeros(task.width, task.classes, device=task.device)
    for batch in data.passes():
        with torch.no_grad():
            h = F.normalize(task.served.features(body, batch.x))
        seen = h if batch.mask is None else h * batch.mask[:, None]
        gram, cross = gram + seen.T @ h, cross + seen.T @ F.one_hot(batch.y, task.classes).float()
    return {"gram": gram, "cross": cross}
