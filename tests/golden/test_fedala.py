"""FedALA: lower layers as received; the upper ones blended by weights learned on the client's own data."""

from dataclasses import replace

import byhand
import numpy as np
import pytest
import torch
from torch import Tensor, nn

from perfed import keys, testing, trees
from perfed.errors import MethodError
from perfed.local import Budget
from perfed.methods.fedala import FedALA
from perfed.methods.fedavg import FedAvg
from perfed.task import Task

Arrays = dict[str, np.ndarray]
METHOD = FedALA(mixing_lr=4.0, sample=1.0, most_epochs=3, budget=byhand.BUDGET)
TOP = ("head.weight", "head.bias")


def blended(received: Arrays, old: Arrays, mixing: Arrays) -> Arrays:
    return received | {k: old[k] + mixing[k] * (received[k] - old[k]) for k in old}


def learned(received: Arrays, old: Arrays, mixing: Arrays, client: int, passes: int) -> Arrays:
    for _ in range(passes):
        g = byhand.slopes(blended(received, old, mixing), byhand.X[client], byhand.Y[client])
        mixing = {k: np.clip(mixing[k] - 4.0 * g[k] * (received[k] - old[k]), 0, 1) for k in mixing}
    return mixing


def test_three_rounds_by_hand() -> None:
    """Round 1 has nothing to blend, round 2 learns for three passes (the cap), round 3 goes on from there for one."""
    play = byhand.Play(METHOD)
    received, mixing = byhand.START, [{k: np.ones_like(byhand.START[k]) for k in TOP}] * 2
    old = [{k: byhand.START[k] for k in TOP}] * 2
    for number in (1, 2, 3):
        ends = []
        for i, (x, y) in enumerate(zip(byhand.X, byhand.Y, strict=True)):
            if number > 1:
                mixing[i] = learned(received, old[i], mixing[i], i, 3 if number == 2 else 1)
            start = blended(received, old[i], mixing[i])
            ends.append(byhand.step(start, byhand.slopes(start, x, y)))
        old, received = [{k: e[k] for k in TOP} for e in ends], byhand.mean(*ends)
        play.round()
        for i in (0, 1):
            byhand.close(play.ups[i], ends[i], atol=1e-5)
            byhand.close(play.mine(i).mixing, mixing[i], atol=1e-5)
            assert bool(play.mine(i).settled) is (number > 1)
        byhand.close(play.server, received, atol=1e-5)
    assert any((m < 1).any() for m in mixing[0].values())  # something was learned, and it was not forgotten in round 3


def test_a_client_is_tested_after_the_blending_and_before_training() -> None:
    play = byhand.Play(METHOD).round()
    received, old = ({k: v.double().numpy() for k, v in tree.items()} for tree in (play.server, play.mine(0).top))
    mixing = learned(received, old, {k: np.ones_like(v) for k, v in old.items()}, 0, 3)
    score = play.transport.score(play.server, [0], 1, ("test",))[0][0]
    assert abs(score["loss"] - byhand.loss(blended(received, old, mixing), byhand.X[0], byhand.Y[0])) < 1e-5
    assert (play.mine(0).mixing["head.weight"] == 1).all()  # a test leaves nothing behind


def deep(bias: bool) -> Task:
    net = nn.Module()
    net.body = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 4), nn.ReLU())
    net.head = nn.Linear(4, 2, bias=bias)
    return Task.of(net, (2,), 2)


def test_layers_are_counted_and_not_tensors() -> None:
    for bias in (True, False):
        head = {"head.weight", "head.bias"} if bias else {"head.weight"}
        one, two, three = (set(FedALA(layers=p).init(deep(bias), 2)[1].top) for p in (1, 2, 3))
        assert one == head and two == head | {"body.2.weight", "body.2.bias"}
        assert three == two | {"body.0.weight", "body.0.bias"}


def test_no_layers_and_more_layers_than_there_are_are_refused() -> None:
    with pytest.raises(MethodError, match="FedAvg"):
        FedALA(layers=0)
    with pytest.raises(MethodError, match="4 layers .* with 3"):
        FedALA(layers=4).check(deep(True), [10], 1)


def passes(method: FedALA) -> int:
    """How often a client reads its samples in its first round with something to blend, training left out."""
    count = 0

    def inputs(x: Tensor, key: Tensor | None) -> Tensor:
        nonlocal count
        count += 1
        return x

    play = byhand.Play(method, data=replace(byhand.federation(), inputs=inputs)).round()
    count = 0
    play.round((0,))
    return count - 1


def test_the_first_time_lasts_until_the_loss_is_calm_and_no_longer_than_the_cap() -> None:
    """Weights that hardly move make equal losses: settled as soon as there are more than ten of them."""
    assert passes(replace(METHOD, mixing_lr=1e-6, most_epochs=50)) == 11
    assert passes(replace(METHOD, mixing_lr=1e-6, most_epochs=5)) == 5


def test_weights_are_learned_on_a_share_of_the_samples_drawn_anew_each_round() -> None:
    data = testing.federation(2, sizes=[50, 50])
    play = byhand.Play(FedALA(budget=Budget(lr=0.1, batch_size=8)), testing.task(), data).round()
    drawn = [play.site.federation.shard(0, n, 8, False) for n in (2, 3)]
    rows = [set(s.hold_out(0.8, keys.fold(s.key, "blend"))[1].rows.tolist()) for s in drawn]
    assert [len(r) for r in rows] == [40, 40] and rows[0] != rows[1]


@pytest.mark.parametrize("norm", [False, True])
def test_weights_that_stay_at_one_make_it_fedavg_to_the_last_bit(norm: bool) -> None:
    budget = Budget(lr=0.1, batch_size=8)
    fixed = byhand.forced(FedALA(budget=budget), mixing_lr=0.0)
    reference = FedAvg(norm="local_stats", budget=budget)
    testing.check_reduces(fixed, reference, lambda p: p.server, lambda p: p.server, norm=norm)


def test_a_weight_of_zero_keeps_ones_own_to_the_last_bit() -> None:
    top, new = {"w": torch.linspace(-1, 1, 9) / 3}, {"w": torch.linspace(2, 5, 9) / 7}
    assert trees.equal(trees.map(torch.lerp, top, new, {"w": torch.zeros(9)}), top)
