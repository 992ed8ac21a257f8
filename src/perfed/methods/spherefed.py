"""SphereFed (Dong et al., ECCV 2022): features on a sphere, learned against class directions that never move."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import MethodError
from ..local import Batch, Shard, descend
from ..method import Method, positive
from ..method.search import among
from ..server import Uploads, averaged, combine
from ..task import Norm, Part, Task
from ..trees import Params


class Server(NamedTuple):
    body: Params
    head: Params  # the fixed classifier, or the calibrated one
    calibrated: Tensor
    round: Tensor


class Down(NamedTuple):
    body: Params
    head: Params  # empty until it is calibrated: everyone can draw the fixed one
    survey: Params  # not empty in the round that calibrates


class Up(NamedTuple):
    body: Params  # empty in the round that calibrates
    statistics: Params  # Σ h h' and Σ h y' of that round


@dataclass(frozen=True, kw_only=True)
class SphereFed(Method[Server, Down, Up, tuple[()]]):
    """Fit cosines with fixed orthonormal class vectors to one-hot labels; average the body alone."""

    calibrate: bool = False  # whether the last round solves for the best classifier instead of training
    projection: bool = False  # whether a trained linear layer follows the body: after a ReLU half the sphere is out of reach
    ridge: float = 1.0  # r, of the least squares of the calibration
    rounds: int = 300  # T, the round that calibrates
    rule: str = "mean"  # how answers are averaged: by samples; uniform, median, trimmed:0.1
    norm: Norm = "all"

    crosses = "body | body | "  # fields that go down, go up and stay
    guarded = (
        "yes: the body is all that leaves, and it is clipped and noised as one | yes: every step that leads to the body "
        "is clipped and noised, against directions that never saw data"
    )
    search = {"projection": among(False, True)}  # worth tuning, and in which range
    newcomer = (
        "the common body, and the classifier where it was calibrated | serves it as it is, as everyone does | "
        "the paper's: there is nothing personal to fit"
    )
    names_classes = "its head is an orthogonal vector for every class"

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("SphereFed", "ridge (r)", self.ridge, "features that never vary would make the least squares singular")
        if self.rounds < 1 + self.calibrate:
            raise MethodError(
                f"SphereFed needs rounds ≥ {1 + self.calibrate}, got {self.rounds}: the round that calibrates does not train"
            )

    def check(self, task: Task, sizes: list[int], participants: int) -> None:
        if task.classes > task.width:
            raise MethodError(
                f"SphereFed needs {task.classes} orthogonal class vectors in {task.width} features: the network needs wider ones"
            )

    def init(self, task: Task, clients: int) -> tuple[Server, tuple[()]]:
        body, head = task.split(task.params())[0], _sphere(task).params()
        body |= _projection(task).params() if self.projection else {}
        return Server(body, head, torch.zeros((), dtype=torch.bool), torch.zeros((), dtype=torch.int64)), ()

    def send(self, server: Server, client: int) -> Down:
        last = self.calibrate and int(server.round) + 1 == self.rounds
        head = server.head if bool(server.calibrated) else {}
        return Down(server.body, head, {"last": torch.ones((), dtype=torch.bool)} if last else {})

    def admit(self, server: Server) -> Server:
        return server

    def forms(self, server: Server) -> list[Down]:
        last = server._replace(round=torch.full_like(server.round, self.rounds - 1))
        return [self.send(at, 0) for at in (server, last, server._replace(calibrated=torch.ones_like(server.calibrated)))]

    def _on_sphere(self, task: Task, body: Params, x: Tensor) -> Tensor:
        z = task.features(body, x)
        return F.normalize(_projection(task)(body, z) if self.projection else z)

    def local(self, task: Task, down: Down, mine: tuple[()], data: Shard) -> tuple[Up, tuple[()]]:
        if down.survey:
            return Up({}, self._statistics(task, down.body, data)), ()
        sphere, wanted = _sphere(task), torch.eye(task.classes, dtype=task.dtype, device=task.device)

        def loss(body: Params, batch: Batch) -> Tensor:
            cosines = sphere(sphere.start, self._on_sphere(task, body, batch.x))
            return batch.mean((cosines - wanted[batch.y]).square().sum(1))

        return Up(descend(loss, down.body, data.epochs(self.budget.epochs), self.budget), {}), ()

    def unmoved(self, task: Task, down: Down) -> Up:
        return Up(down.body, {})

    def guards(self, level: str) -> tuple[bool, str]:
        if self.calibrate:
            return False, "the round that calibrates uploads sums over features without noise; method.calibrate=false has none"
        return super().guards(level)

    def _statistics(self, task: Task, body: Params, data: Shard) -> Params:
        wanted = torch.eye(task.classes, dtype=task.dtype, device=task.device)
        gram = torch.zeros(task.width, task.width, dtype=task.dtype, device=task.device)
        cross = torch.zeros(task.width, task.classes, dtype=task.dtype, device=task.device)
        for batch in data.passes():
            with torch.no_grad():
                h = self._on_sphere(task.served, body, batch.x)
            seen = h if batch.mask is None else h * batch.mask[:, None]
            gram, cross = gram + seen.T @ h, cross + seen.T @ wanted[batch.y]
        return {"gram": gram, "cross": cross}

    def merge(self, server: Server, ups: Uploads[Up]) -> Server:
        answers = ups.trees
        if answers[0].body:  # a classifier calibrated for another body is forgotten
            body = averaged(self.rule, ups.each(lambda up: up.body))
            return Server(body, server.head, torch.zeros_like(server.calibrated), server.round + 1)
        total = combine([1.0] * len(answers), [up.statistics for up in answers])
        gram, cross = total["gram"].double(), total["cross"].double()
        best = torch.linalg.solve(gram + self.ridge * torch.eye(len(gram), dtype=gram.dtype), cross)
        head = {"sphere.weight": best.T.to(total["gram"].dtype).contiguous()}
        return Server(server.body, head, torch.ones_like(server.calibrated), server.round + 1)

    def predict(self, task: Task, down: Down, mine: tuple[()], x: Tensor) -> Tensor:
        sphere = _sphere(task)
        return sphere(down.head or sphere.start, self._on_sphere(task, down.body, x))

    def after(self, down: Down, up: Up) -> Down:
        return Down(up.body or down.body, down.head, down.survey)


def _sphere(task: Task) -> Part:
    """Return the fixed classifier: C orthonormal directions, drawn from the task's seed alike everywhere."""

    def build() -> nn.Module:
        directions = nn.Linear(task.width, task.classes, bias=False)
        nn.init.orthogonal_(directions.weight)
        return directions

    return task.part("sphere", build)


def _projection(task: Task) -> Part:
    return task.part("projection", lambda: nn.Linear(task.width, task.width))
