"""SCAFFOLD: steps are corrected by c − c_i, and both are read off the distance that clients went."""

from dataclasses import replace

import byhand
import numpy as np
import pytest
import torch

from perfed import testing, trees
from perfed.errors import MethodError
from perfed.local import Budget
from perfed.methods.fedavg import FedAvg
from perfed.methods.scaffold import Scaffold
from perfed.rounds import Protocol, Span, rounds
from perfed.sampling import Sampling
from perfed.transport import Private, Serial, Site, Store

Arrays = dict[str, np.ndarray]
NOTHING = {k: np.zeros_like(v) for k, v in byhand.START.items()}


def visit(x: Arrays, c: Arrays, own: Arrays, client: int, steps: int) -> tuple[Arrays, Arrays]:
    """y_i and c_i⁺ by option II."""
    y = x
    for _ in range(steps):
        g = byhand.slopes(y, byhand.X[client], byhand.Y[client])
        y = byhand.step(y, {k: g[k] - own[k] + c[k] for k in g})
    return y, {k: own[k] - c[k] + (x[k] - y[k]) / (steps * byhand.LR) for k in x}


@pytest.mark.parametrize("steps", [1, 3])
def test_three_rounds_by_hand(steps: int) -> None:
    play = byhand.Play(Scaffold(budget=replace(byhand.BUDGET, epochs=steps)))
    x, c, own = byhand.START, NOTHING, [NOTHING, NOTHING]
    for _ in (1, 2, 3):
        ends = [visit(x, c, own[i], i, steps) for i in (0, 1)]
        play.round()
        c = {k: c[k] + sum(new[k] - old[k] for (_, new), old in zip(ends, own, strict=True)) / 2 for k in c}
        x, own = byhand.mean(ends[0][0], ends[1][0], 1 / 2), [new for _, new in ends]  # uniform over clients
        byhand.close(play.server.model, x, atol=5e-6)
        byhand.close(play.server.control, c, atol=5e-6)
        for i in (0, 1):
            byhand.close(play.mine(i), own[i], atol=5e-6)


def test_one_step_makes_the_control_variate_the_gradient() -> None:
    play = byhand.Play(Scaffold(budget=byhand.BUDGET)).round()
    byhand.close(play.mine(1), byhand.slopes(byhand.START, byhand.X[1], byhand.Y[1]))


def test_absent_clients_count_with_no_change_and_keep_theirs() -> None:
    play = byhand.Play(Scaffold(budget=byhand.BUDGET)).round((0,))
    g = byhand.slopes(byhand.START, byhand.X[0], byhand.Y[0])
    byhand.close(play.server.control, {k: v / 2 for k, v in g.items()})  # |S| / N = 1 / 2
    byhand.close(play.server.model, byhand.step(byhand.START, g))
    byhand.close(play.mine(1), NOTHING)
    kept = trees.clone(play.mine(0))
    assert trees.equal(play.round((1,)).mine(0), kept)


def test_the_server_goes_its_rate_towards_the_mean() -> None:
    play = byhand.Play(Scaffold(server_lr=0.5, rule="weighted", budget=byhand.BUDGET)).round()
    ends = [visit(byhand.START, NOTHING, NOTHING, i, 1)[0] for i in (0, 1)]
    half = {k: (byhand.START[k] + v) / 2 for k, v in byhand.mean(*ends, 3 / 5).items()}
    byhand.close(play.server.model, half)


def test_under_momentum_gradients_weigh_as_often_as_they_are_repeated() -> None:
    """Two steps at m = 0.5 go η (1.5 g₁ + g₂), so the mean gradient is that distance over 2.5 η."""
    play = byhand.Play(Scaffold(budget=replace(byhand.BUDGET, epochs=2, momentum=0.5))).round((0,))
    first = byhand.slopes(byhand.START, byhand.X[0], byhand.Y[0])
    second = byhand.slopes(byhand.step(byhand.START, first), byhand.X[0], byhand.Y[0])
    byhand.close(play.mine(0), {k: (1.5 * first[k] + second[k]) / 2.5 for k in first})


def test_while_control_variates_are_zero_it_is_fedavg() -> None:
    data, budget = testing.federation(), Budget(lr=0.1, batch_size=8)
    for norm in (False, True):
        method = Scaffold(rule="weighted", budget=budget)
        site, server, first = Site.of(method, testing.task(norm), data)
        for number in (1, 2, 3):  # control variates are put back to zero after every round
            transport = Serial(site, Store(first, len(data)))
            when = Span(0, 5, number, number - 1)
            *_, last = rounds(method, server, transport, Sampling(), Protocol(), when)
            server = server._replace(model=last.server.model)
        plain = testing.play(FedAvg(budget=budget), data, norm=norm)
        assert trees.equal(server.model, plain.server)
        assert isinstance(transport.store[0], Private) and not trees.equal(transport.store[0].mine, first.mine)


def test_what_stays_at_home_has_no_control_variate() -> None:
    server, mine = Scaffold(norm="local_all").init(testing.task(True), 2)
    assert "body.0.weight" in mine and not any(k.startswith(("body.1.", "~")) for k in mine)
    played = testing.play(Scaffold(norm="local_all"), testing.federation(2), norm=True)
    assert torch.equal(played.server.model["body.1.weight"], torch.ones(16))


def test_adam_is_refused() -> None:
    with pytest.raises(MethodError, match="budget.optimizer=sgd"):
        Scaffold(budget=Budget(optimizer="adam"))
