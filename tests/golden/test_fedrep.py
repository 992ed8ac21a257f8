"""FedRep: the head is fitted to the received body, then the body moves towards that head."""

import byhand
import nudge
import numpy as np
import pytest
import torch
from torch import nn

from perfed import testing, trees
from perfed.errors import MethodError
from perfed.local import Budget
from perfed.methods.fedbabu import FedBABU
from perfed.methods.fedper import FedPer
from perfed.methods.fedrep import FedRep
from perfed.task import Task

Arrays = dict[str, np.ndarray]


def part(g: Arrays, name: str) -> Arrays:
    return {k: v for k, v in g.items() if k.startswith(name)}


def visit(p: Arrays, x: np.ndarray, y: np.ndarray, head_epochs: int = 1) -> Arrays:
    """A client's round: steps of the head alone, then one of the body alone."""
    for _ in range(head_epochs):
        p = byhand.step(p, part(byhand.slopes(p, x, y), "head"))
    return byhand.step(p, part(byhand.slopes(p, x, y), "body"))


@pytest.mark.parametrize("head_epochs", [1, 3])
def test_two_rounds_by_hand(head_epochs: int) -> None:
    play = byhand.Play(FedRep(head_epochs=head_epochs, budget=byhand.BUDGET))
    starts = [byhand.START, byhand.START]
    for _ in (1, 2):
        ends = [visit(p, x, y, head_epochs) for p, x, y in zip(starts, byhand.X, byhand.Y, strict=True)]
        common = byhand.mean(*ends)
        play.round()
        byhand.close(play.server, common, "body")
        for i in (0, 1):
            byhand.close(play.mine(i), ends[i], "head")
            starts[i] = part(common, "body") | part(ends[i], "head")
            np.testing.assert_allclose(play.logits(i, byhand.X[0]), byhand.logits(starts[i], byhand.X[0]), atol=1e-5)


def test_training_in_turn_is_not_training_together() -> None:
    turn, together = (byhand.Play(m(budget=byhand.BUDGET)).round() for m in (FedRep, FedPer))
    byhand.close(turn.mine(0), {k: v.numpy() for k, v in together.mine(0).items()})  # the first step of the head is the same
    assert not torch.allclose(turn.server["body.0.weight"], together.server["body.0.weight"], atol=1e-3)


def test_the_head_stands_still_while_the_body_moves_even_under_momentum_and_decay() -> None:
    budget = Budget(lr=0.5, batch_size=8, epochs=3, momentum=0.9, weight_decay=0.1)
    play = byhand.Play(FedRep(budget=budget)).round((0,))
    g = part(byhand.slopes(byhand.START, byhand.X[0], byhand.Y[0]), "head")
    decayed = {k: g[k] + 0.1 * byhand.START[k] for k in g}
    byhand.close(play.mine(0), byhand.step(byhand.START, decayed), "head")


def normed() -> Task:
    net = byhand.net()
    net.body = nn.Sequential(net.body[0], nn.BatchNorm1d(3), nn.ReLU())
    return Task.of(net, (2,), 2)


def test_a_frozen_body_is_served_and_its_statistics_do_not_move() -> None:
    play = byhand.Play(FedRep(head_epochs=4, budget=byhand.BUDGET), normed()).round((0,))
    kept = play.store[0].kept
    assert int(kept["~body.1.num_batches_tracked"]) == 1  # one batch of the body's epoch, none of the head's four
    x, y, p = byhand.X[0], byhand.Y[0], byhand.START
    h = x @ p["body.0.weight"].T + p["body.0.bias"]
    np.testing.assert_allclose(kept["~body.1.running_mean"].numpy(), 0.1 * h.mean(0), atol=1e-6)
    np.testing.assert_allclose(kept["~body.1.running_var"].numpy(), 0.9 + 0.1 * h.var(0, ddof=1), atol=1e-6)
    z = np.maximum(h / np.sqrt(1 + 1e-5), 0)  # the head saw the running statistics: mean 0, variance 1

    def fit(q: Arrays) -> float:
        return nudge.cross_entropy(nudge.linear(q, "head", z), y)

    for _ in range(4):
        p = nudge.stepped(fit, p, byhand.LR, ("head",))
    byhand.close(play.mine(0), p, "head", atol=1e-5)


def test_without_fitting_the_head_it_is_fedbabu() -> None:
    """Validation refuses head_epochs = 0, so the test sets it behind its back."""
    method = FedRep(budget=Budget(lr=0.1, batch_size=8))
    object.__setattr__(method, "head_epochs", 0)
    other = FedBABU(budget=method.budget, norm="local_stats")
    for norm in (False, True):
        testing.check_reduces(method, other, lambda p: p.states(), lambda p: p.states(), norm=norm)


def test_no_head_epochs_are_refused() -> None:
    with pytest.raises(MethodError, match="head_epochs ≥ 1"):
        FedRep(head_epochs=0)


def test_only_the_body_crosses() -> None:
    play = byhand.Play(FedRep(budget=byhand.BUDGET)).round()
    assert play.transport.ledger.close()[0] == {"body": 2 * 9 * 4}
    assert not trees.equal(play.mine(0), play.mine(1))
