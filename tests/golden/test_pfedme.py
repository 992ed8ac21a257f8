"""pFedMe: K steps of a personal model on a spring, then w is drawn towards it, batch by batch."""

from dataclasses import replace

import byhand
import numpy as np
import pytest

from perfed import testing, trees
from perfed.errors import MethodError
from perfed.local import Budget
from perfed.methods.fedavg import FedAvg
from perfed.methods.pfedme import PFedMe

METHOD = PFedMe(spring=0.8, steps=2, personal_lr=0.3, decay=0.01, budget=Budget(lr=0.5, batch_size=2))


def by_hand(play: byhand.Play, client: int, received: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], ...]:
    """w and θ after one pass in batches of two; θ starts at the received model and goes on from batch to batch."""
    w = theta = received
    for b in play.shard(client).epochs(1):
        for _ in range(2):
            g = byhand.slopes(theta, b.x.numpy().astype(float), b.y.numpy())
            theta = {k: theta[k] - 0.3 * (g[k] + 0.8 * (theta[k] - w[k]) + 0.01 * theta[k]) for k in g}
        w = {k: w[k] - 0.5 * 0.8 * (w[k] - theta[k]) for k in w}
    return w, theta


def test_two_rounds_by_hand() -> None:
    play, received = byhand.Play(METHOD), byhand.START
    for _ in range(2):
        play.round()
        ends = [by_hand(play, i, received) for i in (0, 1)]
        received = byhand.mean(ends[0][0], ends[1][0])
        for i in (0, 1):
            byhand.close(play.ups[i], ends[i][0])
            byhand.close(play.mine(i), ends[i][1])
        byhand.close(play.server, received)


def test_what_is_kept_and_served_is_the_personal_model_and_not_w() -> None:
    """An alias of the live model would hold w after the last pull, or what was downloaded next."""
    play = byhand.Play(METHOD).round()
    theta = by_hand(play, 0, byhand.START)[1]
    for other in (play.ups[0], play.server):
        assert not np.allclose(play.mine(0)["head.weight"], other["head.weight"], atol=1e-3)
    np.testing.assert_allclose(play.logits(0, byhand.X[0]), byhand.logits(theta, byhand.X[0]), atol=1e-5)
    kept = trees.clone(play.mine(1))
    play.round((0,))
    assert trees.equal(kept, play.mine(1))  # an absent client serves its last one


def test_steps_of_the_personal_model_inherit_no_momentum() -> None:
    """The budget's momentum would carry a step into the next on the same batch; the paper's K steps are plain."""
    pushed = replace(METHOD, budget=Budget(lr=0.5, batch_size=2, momentum=0.9))
    plain, other = byhand.Play(METHOD).round(), byhand.Play(pushed).round()
    assert trees.equal((plain.ups[0], plain.mine(0)), (other.ups[0], other.mine(0)))


def test_the_server_goes_only_part_of_the_way_or_beyond() -> None:
    for stride in (0.5, 3.0):
        play = byhand.Play(replace(METHOD, stride=stride)).round()
        middle = byhand.mean(by_hand(play, 0, byhand.START)[0], by_hand(play, 1, byhand.START)[0])
        byhand.close(play.server, {k: (1 - stride) * byhand.START[k] + stride * middle[k] for k in middle}, atol=1e-5)


@pytest.mark.parametrize("norm", [False, True])
def test_one_free_step_that_w_follows_fully_is_fedavg_to_the_last_bit(norm: bool) -> None:
    """With ηλ = 1, K = 1 and no decay, w is where a plain step of size η_p leads."""
    limit = byhand.forced(
        PFedMe(steps=1, personal_lr=0.1, decay=0.0, budget=Budget(lr=0.05, batch_size=8)),
        spring=4.0,
        budget=Budget(lr=0.25, batch_size=8),
    )
    reference = FedAvg(norm="local_stats", budget=Budget(lr=0.1, batch_size=8))
    testing.check_reduces(limit, reference, lambda p: p.server, lambda p: p.server, norm=norm)


def test_a_pull_that_overshoots_and_one_that_pulls_nothing_are_refused() -> None:
    with pytest.raises(MethodError, match="a spring below 10"):
        PFedMe(budget=Budget(lr=0.1))
    with pytest.raises(MethodError, match="never moves"):
        PFedMe(spring=0.0)
