"""A two-client problem small enough to work by hand, and its gradients in plain numpy.

The network: body z = relu(x A' + a), head logits = z B' + b. One batch holds all of a client's samples, so that the order of
visits does not matter and an epoch is one step.
"""

import copy
from typing import Any

import numpy as np
import torch
from torch import nn

from perfed.federation import Federation
from perfed.local import Budget, Shard
from perfed.task import Task
from perfed.transport import Serial, Site, Store

LR = 0.5
BUDGET = Budget(lr=LR, batch_size=8)
START = {
    "body.0.weight": np.array([[0.5, -0.25], [0.125, 0.75], [-0.5, 0.25]]),
    "body.0.bias": np.array([0.1, 0.2, 0.3]),
    "head.weight": np.array([[0.25, -0.5, 0.75], [-0.125, 0.5, 0.25]]),
    "head.bias": np.array([0.05, -0.05]),
}
X = [np.array([[1.0, 2.0], [0.5, -1.0], [2.0, 0.25]]), np.array([[-1.0, 0.5], [1.5, 1.0]])]
Y = [np.array([0, 1, 1]), np.array([1, 0])]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
        self.head = nn.Linear(3, 2)


def net() -> nn.Module:
    """The network with the weights of START."""
    module = Net()
    module.load_state_dict({k: torch.tensor(v, dtype=torch.float32) for k, v in START.items()})
    return module


def task() -> Task:
    return Task.of(net(), (2,), 2)


def federation() -> Federation:
    """Client 0 owns the first three samples, client 1 the last two; each is tested on its own training samples."""
    x = torch.tensor(np.concatenate(X), dtype=torch.float32)
    rows = (torch.arange(3), torch.arange(3, 5))
    return Federation(x, torch.tensor(np.concatenate(Y)), rows, rows, rows, lambda x, key=None: x, 2, ("a", "b"))


class Play:
    """Rounds of a method on the two clients: ``server``, ``mine(i)``, ``logits(i)``."""

    def __init__(self, method: Any, the_task: Task | None = None, data: Federation | None = None) -> None:
        self.method, data = method, data or federation()
        self.site, self.server, private = Site.of(method, the_task or task(), data)
        self.store = Store(private, len(data))
        self.transport = Serial(self.site, self.store)
        self.ups: list[Any] = []
        self.number = 0

    def round(self, ids: tuple[int, ...] = (0, 1)) -> "Play":
        self.number += 1
        ups = self.transport.train(self.server, ids, self.number, set(), False)
        self.ups = ups.trees
        self.server = self.method.merge(self.server, ups)
        return self

    def shard(self, client: int) -> Shard:
        """A client's training data as it visited them in the last round."""
        return self.site.federation.shard(client, self.number, self.method.budget.batch_size, self.site.task.has_norm)

    def mine(self, client: int) -> Any:
        return self.store[client].mine

    def logits(self, client: int, x: np.ndarray) -> np.ndarray:
        down = self.site.withheld.overlay(self.method.send(self.server, client), self.store[client].kept)
        seen = torch.tensor(x, dtype=torch.float32)
        return self.method.predict(self.site.task.served, down, self.mine(client), seen).detach().numpy()


def forced(method: Any, **fields: Any) -> Any:
    """The method with settings that its own validation refuses: the limits at which it becomes another one."""
    limit = copy.copy(method)
    for name, value in fields.items():
        object.__setattr__(limit, name, value)
    return limit


def features(p: dict[str, np.ndarray], x: np.ndarray) -> np.ndarray:
    return np.maximum(x @ p["body.0.weight"].T + p["body.0.bias"], 0)


def logits(p: dict[str, np.ndarray], x: np.ndarray) -> np.ndarray:
    return features(p, x) @ p["head.weight"].T + p["head.bias"]


def softmax(s: np.ndarray) -> np.ndarray:
    e = np.exp(s - s.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def loss(p: dict[str, np.ndarray], x: np.ndarray, y: np.ndarray) -> float:
    return float(-np.log(softmax(logits(p, x))[np.arange(len(y)), y]).mean())


def slopes(p: dict[str, np.ndarray], x: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
    """The gradient of the mean cross-entropy, worked out by the chain rule."""
    z = features(p, x)
    error = softmax(logits(p, x))
    error[np.arange(len(y)), y] -= 1
    return chain(p, x, z, error / len(y))


def chain(
    p: dict[str, np.ndarray], x: np.ndarray, z: np.ndarray, error: np.ndarray, extra: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """Back-propagate ``error`` at the logits, and ``extra`` directly at the features."""
    back = error @ p["head.weight"] + (0 if extra is None else extra)
    back = back * (z > 0)
    return {"body.0.weight": back.T @ x, "body.0.bias": back.sum(0), "head.weight": error.T @ z, "head.bias": error.sum(0)}


def step(p: dict[str, np.ndarray], g: dict[str, np.ndarray], lr: float = LR) -> dict[str, np.ndarray]:
    return {k: p[k] - lr * g.get(k, 0) for k in p}


def mean(a: dict[str, np.ndarray], b: dict[str, np.ndarray], wa: float = 3 / 5) -> dict[str, np.ndarray]:
    return {k: wa * a[k] + (1 - wa) * b[k] for k in a}


def close(found: Any, expected: dict[str, np.ndarray], names: str = "", atol: float = 1e-6) -> None:
    """Assert that every leaf of ``expected`` whose name begins with ``names`` was found with that value."""
    wanted = {k: v for k, v in expected.items() if k.startswith(names)}
    assert wanted and set(wanted) <= set(found), (sorted(wanted), sorted(found))
    for k, v in wanted.items():
        np.testing.assert_allclose(found[k].detach().numpy(), v, rtol=0, atol=atol, err_msg=k)
