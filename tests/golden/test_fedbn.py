"""FedBN: everything is averaged but BatchNorm, of which nothing leaves."""

import byhand
import nudge
import numpy as np
import pytest
import torch
from torch import Tensor, nn

from perfed import testing
from perfed.errors import MethodError
from perfed.local import Budget
from perfed.methods.fedavg import FedAvg
from perfed.methods.fedbn import FedBN
from perfed.task import Task

Arrays = dict[str, np.ndarray]
GAMMA, BETA = np.array([1.5, 0.5, 1.0]), np.array([0.1, 0.2, -0.1])
START = byhand.START | {"body.1.weight": GAMMA, "body.1.bias": BETA}
NORM = ("body.1.weight", "body.1.bias")


def task() -> Task:
    net = byhand.net()
    net.body = nn.Sequential(net.body[0], nn.BatchNorm1d(3), nn.ReLU())
    norm = net.body[1]
    with torch.no_grad():
        norm.weight.copy_(torch.tensor(GAMMA))
        norm.bias.copy_(torch.tensor(BETA))
    return Task.of(net, (2,), 2)


def before(p: Arrays, x: np.ndarray) -> np.ndarray:
    return x @ p["body.0.weight"].T + p["body.0.bias"]


def trained(p: Arrays, x: np.ndarray, y: np.ndarray) -> Arrays:
    def loss(q: Arrays) -> float:
        return nudge.cross_entropy(nudge.linear(q, "head", nudge.relu(nudge.batch_norm(q, "body.1", before(q, x)))), y)

    return nudge.stepped(loss, p, byhand.LR)


def served(p: Arrays, mean: np.ndarray, variance: np.ndarray, x: np.ndarray) -> np.ndarray:
    h = (before(p, x) - mean) / np.sqrt(variance + 1e-5) * p["body.1.weight"] + p["body.1.bias"]
    return nudge.linear(p, "head", nudge.relu(h))


@pytest.mark.parametrize(("rule", "share"), [("uniform", 1 / 2), ("weighted", 3 / 5)])
def test_two_rounds_by_hand(rule: str, share: float) -> None:
    play = byhand.Play(FedBN(rule=rule, budget=byhand.BUDGET), task())
    starts = [START, START]
    means, variances = [np.zeros(3)] * 2, [np.ones(3)] * 2
    for _ in (1, 2):
        ends = [trained(p, x, y) for p, x, y in zip(starts, byhand.X, byhand.Y, strict=True)]
        common = byhand.mean(*ends, share)
        play.round()
        for i, x in enumerate(byhand.X):
            h = before(starts[i], x)  # the statistics of the one batch, as the client was before its step
            means[i] = 0.9 * means[i] + 0.1 * h.mean(0)
            variances[i] = 0.9 * variances[i] + 0.1 * h.var(0, ddof=1)
            kept = play.store[i].kept
            byhand.close(kept, ends[i] | {"~body.1.running_mean": means[i], "~body.1.running_var": variances[i]}, "~", 1e-5)
            byhand.close(kept, ends[i], "body.1", 1e-5)
            starts[i] = common | {k: ends[i][k] for k in NORM}
            expected = served(starts[i], means[i], variances[i], byhand.X[0])
            np.testing.assert_allclose(play.logits(i, byhand.X[0]), expected, atol=2e-4)
        byhand.close(play.server, {k: v for k, v in common.items() if k not in NORM}, atol=1e-5)
    gamma = torch.tensor(GAMMA, dtype=torch.float32)
    assert torch.equal(play.server["body.1.weight"], gamma)  # the server only ever had the start


def test_nothing_of_batchnorm_crosses() -> None:
    play = byhand.Play(FedBN(budget=byhand.BUDGET), task()).round()
    up, down = play.transport.ledger.close()
    assert up == down == {"body": 2 * 9 * 4, "head": 2 * 8 * 4}


class Block(nn.Module):
    """A residual block as torchvision numbers it, beside layers whose names mislead."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(2, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
        self.downsample = nn.Sequential(nn.Conv2d(2, 4, 1, bias=False), nn.BatchNorm2d(4))
        self.bn_gate, self.norm = nn.Conv2d(4, 4, 1), nn.GroupNorm(2, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.bn_gate(self.bn1(self.conv1(x)) + self.downsample(x)))
        return y.mean((2, 3))


def test_batchnorm_is_told_by_type_not_by_name() -> None:
    net = nn.Module()
    net.body, net.head = Block(), nn.Linear(4, 3)
    withheld = Task.of(net, (2, 5, 5), 3).withheld("local_all")
    layers = {name.removeprefix("~").rpartition(".")[0] for name in withheld}
    assert layers == {"body.bn1", "body.downsample.1"}  # not the gate called bn, not group normalisation
    leaves = {"weight", "bias", "running_mean", "running_var", "num_batches_tracked"}
    assert {name.rpartition(".")[2] for name in withheld if "downsample" in name} == leaves


def test_with_sample_weights_it_is_fedavg_that_keeps_batchnorm() -> None:
    budget = Budget(lr=0.1, batch_size=8)
    one, two = FedBN(rule="weighted", budget=budget), FedAvg(norm="local_all", budget=budget)
    testing.check_reduces(one, two, lambda p: p.states(), lambda p: p.states(), norm=True)


def test_without_batchnorm_it_would_be_fedavg_and_is_refused() -> None:
    with pytest.raises(MethodError, match="needs a network with BatchNorm"):
        FedBN().check(byhand.task(), [3, 2], 2)
    with pytest.raises(MethodError, match="norm must be local_all"):
        FedBN(norm="all")
