"""FedAMP: u_i mixes the models by attention on their distance; w_i goes on from itself, pulled towards u_i."""

from dataclasses import replace

import byhand
import numpy as np
import pytest
import torch

from perfed import testing, trees
from perfed.errors import MethodError
from perfed.local import Budget
from perfed.methods.fedamp import FedAMP, square_distances
from perfed.methods.local import Local

METHOD = FedAMP(spring=0.4, attention=0.5, width=2.0, distance="absolute", budget=byhand.BUDGET)  # λ/α = 0.8


def cloud(w: list[dict[str, np.ndarray]], i: int) -> dict[str, np.ndarray]:
    other = w[1 - i]
    square = sum(float(((w[i][k] - other[k]) ** 2).sum()) for k in other)
    xi = 0.5 * np.exp(-square / 2.0) / 2.0
    return {k: (1 - xi) * w[i][k] + xi * other[k] for k in other}


def test_three_rounds_by_hand() -> None:
    """A pull without gradient, a model overwritten by u_i, or the old u_i mixed in, gives other numbers."""
    play = byhand.Play(METHOD)
    w, u = [byhand.START, byhand.START], [byhand.START, byhand.START]
    for _ in range(3):
        for i, (x, y) in enumerate(zip(byhand.X, byhand.Y, strict=True)):
            g = byhand.slopes(w[i], x, y)
            w[i] = byhand.step(w[i], {k: g[k] + 0.8 * (w[i][k] - u[i][k]) for k in g})
        u = [cloud(w, i) for i in (0, 1)]
        play.round()
        for i in (0, 1):
            byhand.close(play.ups[i], w[i])
            byhand.close(play.mine(i), w[i])
            byhand.close(play.server[i], u[i])
    np.testing.assert_allclose(play.logits(1, byhand.X[1]), byhand.logits(w[1], byhand.X[1]), atol=1e-5)


def test_on_request_training_starts_from_the_mixture() -> None:
    play = byhand.Play(replace(METHOD, start="cloud")).round()
    u = {k: v.double().numpy() for k, v in play.server[0].items()}
    play.round()
    byhand.close(play.ups[0], byhand.step(u, byhand.slopes(u, byhand.X[0], byhand.Y[0])))


def test_others_who_would_weigh_more_than_one_are_scaled_back() -> None:
    """Three equal models at α/σ = 10000: without the cap the own weight would be −19999."""
    shares = FedAMP(attention=1000.0, width=0.1).shares(torch.zeros(3, 3, dtype=torch.float64))
    assert torch.equal(shares, torch.tensor([[0, 0.5, 0.5], [0.5, 0, 0.5], [0.5, 0.5, 0]], dtype=torch.float64))


def test_below_one_the_rest_is_the_clients_own() -> None:
    method = FedAMP(attention=1.0, width=4.0, distance="absolute")
    shares = method.shares(torch.tensor([[0.0, 8.0], [8.0, 0.0]], dtype=torch.float64))
    other = np.exp(-2) / 4
    np.testing.assert_allclose(shares, [[1 - other, other], [other, 1 - other]], rtol=1e-12)


def test_relative_distances_by_hand_and_at_any_scale() -> None:
    """Squared distances 1, 2 and 6 have the mean 3; with σ = 1/2 attention is (α/σ) exp(−2 d/3)."""
    square = torch.tensor([[0.0, 1.0, 2.0], [1.0, 0.0, 6.0], [2.0, 6.0, 0.0]], dtype=torch.float64)
    shares = FedAMP(attention=0.1, width=0.5).shares(square)
    a, b, c = (0.2 * np.exp(-2 * d / 3) for d in (1.0, 2.0, 6.0))
    np.testing.assert_allclose(shares, [[1 - a - b, a, b], [a, 1 - a - c, c], [b, c, 1 - b - c]], rtol=1e-12)
    np.testing.assert_allclose(FedAMP(attention=0.1, width=0.5).shares(1e4 * square), shares, rtol=1e-12)
    assert torch.equal(FedAMP().shares(torch.zeros(1, 1, dtype=torch.float64)), torch.ones(1, 1, dtype=torch.float64))


def test_the_defaults_of_a_popular_script_are_local_in_disguise_and_the_contract_says_so() -> None:
    script = FedAMP(spring=1.0, attention=1000.0, width=0.1, distance="absolute", budget=Budget(lr=0.1, batch_size=8))
    with pytest.raises(AssertionError, match="it is Local but for 0.2 % of what Local learned"):
        testing.check_is_itself(script)


def test_distances_leave_statistics_out() -> None:
    models = [{"w": torch.tensor([1.0, 2.0]), "~s": torch.zeros(1)}, {"w": torch.tensor([4.0, 6.0]), "~s": torch.ones(1)}]
    np.testing.assert_allclose(square_distances(models), [[0, 25], [25, 0]])


def test_an_absent_client_keeps_its_mixture() -> None:
    play = byhand.Play(METHOD).round()
    before = trees.clone(play.server[1])
    play.round((0,))
    assert trees.equal(before, play.server[1])
    assert trees.equal(play.server[0], play.ups[0])  # nobody to listen to: all weight on itself


@pytest.mark.parametrize("norm", [False, True])
def test_without_a_spring_it_is_local_to_the_last_bit(norm: bool) -> None:
    budget = Budget(lr=0.1, batch_size=8)
    loose = byhand.forced(FedAMP(budget=budget), spring=0.0)

    def own(played: testing.Played) -> trees.Tree:
        return tuple(p.mine for p in played.privates)

    testing.check_reduces(loose, Local(budget=budget), own, own, norm=norm)
    held = testing.play(FedAMP(spring=1000.0, budget=budget), testing.federation())
    assert not trees.equal(own(held), own(testing.play(Local(budget=budget), testing.federation())))


def test_a_spring_of_zero_is_refused() -> None:
    with pytest.raises(MethodError, match="Local"):
        FedAMP(spring=0.0)
