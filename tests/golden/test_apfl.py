"""APFL: w as in FedAvg; v by the slope of the blend α v + (1 − α) w; α by its own slope, once a round."""

import byhand
import numpy as np
import pytest
import torch

from perfed import testing, trees
from perfed.errors import MethodError
from perfed.local import Budget
from perfed.methods.apfl import APFL, blend
from perfed.methods.fedavg import FedAvg
from perfed.methods.local import Local

Arrays = dict[str, np.ndarray]


def blended(v: Arrays, w: Arrays, share: float) -> Arrays:
    return {k: share * v[k] + (1 - share) * w[k] for k in v}


@pytest.mark.parametrize("adaptive", [False, True])
def test_three_rounds_by_hand(adaptive: bool) -> None:
    """v moves by α times the slope at the blend; the blend is taken before either model steps."""
    play = byhand.Play(APFL(share=0.25, adaptive=adaptive, budget=byhand.BUDGET))
    w, v, share = byhand.START, [byhand.START, byhand.START], [0.25, 0.25]
    for _ in range(3):
        ends = []
        for i, (x, y) in enumerate(zip(byhand.X, byhand.Y, strict=True)):
            if adaptive:
                g = byhand.slopes(blended(v[i], w, share[i]), x, y)
                share[i] -= byhand.LR * sum(float((g[k] * (v[i][k] - w[k])).sum()) for k in g)
            g = byhand.slopes(blended(v[i], w, share[i]), x, y)
            v[i] = byhand.step(v[i], {k: share[i] * g[k] for k in g})
            ends.append(byhand.step(w, byhand.slopes(w, x, y)))
        w = byhand.mean(*ends)
        play.round()
        byhand.close(play.server, w)
        for i in (0, 1):
            byhand.close(play.mine(i).own, v[i])
            assert abs(float(play.mine(i).share) - share[i]) < 1e-6
    assert (share[0] != 0.25) is adaptive
    served = byhand.logits(blended(v[1], w, share[1]), byhand.X[1])
    np.testing.assert_allclose(play.logits(1, byhand.X[1]), served, atol=1e-5)


def test_the_share_never_leaves_zero_to_one() -> None:
    play = byhand.Play(APFL(share=0.5, budget=Budget(lr=30.0, batch_size=8)))
    shares = [float(play.round().mine(i).share) for _ in range(4) for i in (0, 1)]
    assert min(shares) >= 0 and max(shares) <= 1 and {0.0, 1.0} & set(shares)


def test_the_blend_has_the_statistics_of_the_clients_own_model() -> None:
    own, common = {"w": torch.ones(1), "~s": torch.full((1,), 7.0)}, {"w": torch.zeros(1), "~s": torch.zeros(1)}
    mixed = blend(common, own, torch.tensor(0.25))
    assert float(mixed["w"]) == 0.25 and mixed["~s"] is own["~s"]


@pytest.mark.parametrize("norm", [False, True])
def test_its_common_model_is_fedavgs_to_the_last_bit(norm: bool) -> None:
    budget = Budget(lr=0.1, batch_size=8)
    reference = FedAvg(norm="local_stats", budget=budget)
    testing.check_reduces(APFL(budget=budget), reference, lambda p: p.server, lambda p: p.server, norm=norm)


@pytest.mark.parametrize("norm", [False, True])
def test_with_all_weight_on_its_own_model_it_is_local_to_the_last_bit(norm: bool) -> None:
    budget = Budget(lr=0.1, batch_size=8)
    alone = byhand.forced(APFL(adaptive=False, budget=budget), share=1.0)
    testing.check_reduces(alone, Local(budget=budget), _own, lambda p: tuple(q.mine for q in p.privates), norm=norm)


def _own(played: testing.Played) -> trees.Tree:
    return tuple(p.mine.own for p in played.privates)


def test_with_no_weight_on_its_own_model_it_serves_fedavgs() -> None:
    budget = Budget(lr=0.1, batch_size=8)
    none = byhand.Play(byhand.forced(APFL(adaptive=False, budget=budget), share=0.0)).round().round()
    reference = byhand.Play(FedAvg(budget=budget)).round().round()
    np.testing.assert_array_equal(none.logits(0, byhand.X[0]), reference.logits(0, byhand.X[0]))


def test_shares_that_make_it_fedavg_or_local_are_refused() -> None:
    for share in (0.0, 1.0):
        with pytest.raises(MethodError, match="0 is FedAvg, 1 is Local"):
            APFL(share=share)
