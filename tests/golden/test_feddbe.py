"""FedDBE: a personal mean is added to the features before the head; their own running mean is held near everyone's."""

from dataclasses import replace

import byhand
import numpy as np
import pytest
import torch

from perfed import testing, trees
from perfed.errors import MethodError
from perfed.local import Budget
from perfed.methods.fedavg import FedAvg
from perfed.methods.feddbe import FedDBE

Arrays = dict[str, np.ndarray]
METHOD = FedDBE(pull=1.5, momentum=0.3, budget=replace(byhand.BUDGET, epochs=2))  # two steps a round, on all samples each
CENTRE = sum(byhand.features(byhand.START, x).sum(0) for x in byhand.X) / 5  # of all five samples, under the common start


def trained(w: Arrays, memory: np.ndarray, client: int, centre: np.ndarray | None) -> tuple[Arrays, np.ndarray]:
    """Two steps by hand; the running mean begins with the first batch, and only the batch in it has a slope."""
    x, y = byhand.X[client], byhand.Y[client]
    running, weight = np.zeros(3), 1.0
    for _ in range(2):
        z = byhand.features(w, x)
        error = byhand.softmax((z + memory) @ w["head.weight"].T + w["head.bias"]) - np.eye(2)[y]
        error = error / len(y)
        running = (1 - weight) * running + weight * z.mean(0)
        pull = 0.0 if centre is None else 1.5 * 2 / 3 * (running - centre) * weight / len(y)
        g = byhand.chain(w, x, z, error, np.broadcast_to(pull, z.shape))
        g["head.weight"] = error.T @ (z + memory)  # the head sees the shifted features
        memory = memory - byhand.LR * (error @ w["head.weight"]).sum(0)
        w, weight = byhand.step(w, g), 0.3
    return w, memory


def test_three_rounds_by_hand() -> None:
    """A memory that is averaged or begun anew, a centre that moves, or a slope through the old mean gives other numbers."""
    play = byhand.Play(METHOD)
    w, memory, centre = byhand.START, [np.zeros(3), np.zeros(3)], None
    for _ in range(3):
        ends = [trained(w, memory[i], i, centre) for i in (0, 1)]
        w, memory, centre = byhand.mean(ends[0][0], ends[1][0]), [end[1] for end in ends], CENTRE
        play.round()
        for i in (0, 1):
            byhand.close(play.ups[i].model, ends[i][0], atol=1e-5)
            np.testing.assert_allclose(play.mine(i)["memory"], memory[i], atol=1e-5)
        byhand.close(play.server.model, w, atol=1e-5)
        np.testing.assert_allclose(play.server.centre["mean"], CENTRE, atol=1e-6)
    shifted = byhand.features(w, byhand.X[0]) + memory[0]
    np.testing.assert_allclose(play.logits(0, byhand.X[0]), shifted @ w["head.weight"].T + w["head.bias"], atol=1e-5)


def test_only_the_first_answers_tell_a_mean_feature_and_the_memory_never_leaves() -> None:
    play = byhand.Play(METHOD).round()
    assert all(list(up.survey) == ["mean"] for up in play.ups) and bool(play.server.known)
    play.round()
    assert all(up.survey == {} for up in play.ups)
    assert not any("memory" in path for path, _ in trees.named((play.ups[0], play.server)))


def test_the_first_mean_is_of_those_who_answered_and_stays() -> None:
    play = byhand.Play(METHOD).round((1,))
    own = byhand.features(byhand.START, byhand.X[1]).mean(0)
    np.testing.assert_allclose(play.server.centre["mean"], own, atol=1e-6)
    np.testing.assert_allclose(play.round().server.centre["mean"], own, atol=1e-6)


def test_padding_does_not_count_in_any_mean() -> None:
    budget = Budget(lr=0.05, batch_size=8)
    data = testing.federation(sizes=[24, 5, 30])
    one, two = (testing.play(FedDBE(budget=budget), data, make=make) for make in (testing.Serial, testing.Stacked))
    assert testing.gap(one.states(), two.states()) < 1e-5


@pytest.mark.parametrize("norm", [False, True])
def test_without_memory_and_pull_it_is_fedavg_to_the_last_bit(norm: bool) -> None:
    budget = Budget(lr=0.1, batch_size=8)
    bare = byhand.forced(FedDBE(budget=budget), memory=False, pull=0.0)
    reference = FedAvg(norm="local_stats", budget=budget)
    testing.check_reduces(bare, reference, lambda p: p.server.model, lambda p: p.server, norm=norm)


def test_each_half_alone_does_something() -> None:
    budget = Budget(lr=0.1, batch_size=8)
    ends = [
        testing.play(method, testing.federation(3)).server.model
        for method in (FedDBE(budget=budget), FedDBE(memory=False, budget=budget), FedDBE(pull=0.0, budget=budget))
    ]
    assert all(not trees.equal(ends[i], ends[j]) for i in range(3) for j in range(i))


def test_impossible_settings_are_refused() -> None:
    for wrong in ({"pull": -1.0}, {"momentum": 0.0}, {"momentum": 1.5}):
        with pytest.raises(MethodError, match="FedDBE needs pull"):
            FedDBE(**wrong)  # type: ignore[arg-type]
    with pytest.raises(MethodError, match="is FedAvg"):
        FedDBE(memory=False, pull=0.0)
    assert torch.equal(FedDBE().init(testing.task(), 2)[1]["memory"], torch.zeros(8))
