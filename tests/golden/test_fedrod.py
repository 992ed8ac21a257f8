"""FedRoD: a balanced loss for body and generic head, a personal head that corrects the scores and moves nothing else."""

from dataclasses import replace

import byhand
import numpy as np
import pytest
import torch

from perfed import testing, trees
from perfed.local import Budget
from perfed.methods.fedavg import FedAvg
from perfed.methods.fedrod import FedRoD

Arrays = dict[str, np.ndarray]


def by_hand(generic: Arrays, head: Arrays, client: int) -> tuple[Arrays, Arrays]:
    """One step: the generic error under scores shifted by log n_c, the personal one under the sum of both scores."""
    x, y = byhand.X[client], byhand.Y[client]
    z, one_hot = byhand.features(generic, x), np.eye(2)[y]
    scores = byhand.logits(generic, x)
    error = (byhand.softmax(scores + np.log(np.bincount(y, minlength=2))) - one_hot) / len(y)
    both = scores + z @ head["head.weight"].T + head["head.bias"]
    own = (byhand.softmax(both) - one_hot) / len(y)
    personal = byhand.step(head, {"head.weight": own.T @ z, "head.bias": own.sum(0)})
    return byhand.step(generic, byhand.chain(generic, x, z, error)), personal


def test_two_rounds_by_hand() -> None:
    """A personal gradient that leaked into the body would move it elsewhere; the personal head starts as a copy."""
    play = byhand.Play(FedRoD(budget=byhand.BUDGET))
    w, heads = byhand.START, [{k: v for k, v in byhand.START.items() if k.startswith("head")}] * 2
    for _ in range(2):
        both = [by_hand(w, heads[i], i) for i in (0, 1)]
        w, heads = byhand.mean(both[0][0], both[1][0]), [both[0][1], both[1][1]]
        play.round()
        for i in (0, 1):
            byhand.close(play.ups[i], both[i][0])
            byhand.close(play.mine(i), heads[i])
        byhand.close(play.server, w)
    z = byhand.features(w, byhand.X[1])
    served = byhand.logits(w, byhand.X[1]) + z @ heads[1]["head.weight"].T + heads[1]["head.bias"]
    np.testing.assert_allclose(play.logits(1, byhand.X[1]), served, atol=1e-5)  # not the generic branch alone


def test_the_personal_head_never_leaves() -> None:
    play = byhand.Play(FedRoD(budget=byhand.BUDGET)).round()
    assert set(play.ups[0]) == set(byhand.START)
    assert not torch.equal(play.ups[0]["head.weight"], play.mine(0)["head.weight"])


@pytest.mark.parametrize("batch_size", [1, 8])
def test_a_class_the_client_lacks_gives_no_log_of_zero(batch_size: int) -> None:
    """Client 1 owns class 1 only; in batches of one most batches lack a class that the client does have."""
    data = replace(byhand.federation(), y=torch.tensor([0, 1, 1, 1, 1]))
    play = byhand.Play(FedRoD(budget=Budget(lr=0.5, batch_size=batch_size)), data=data).round()
    assert trees.finite((play.server, play.mine(0), play.mine(1)))
    start = {k: torch.tensor(v, dtype=torch.float32) for k, v in byhand.START.items()}
    assert torch.equal(play.ups[1]["head.weight"], start["head.weight"])  # one class alone is always certain
    assert not torch.equal(play.ups[0]["head.weight"], start["head.weight"])


def test_classes_are_counted_over_all_samples_and_not_per_batch() -> None:
    play = byhand.Play(FedRoD(budget=Budget(lr=0.5, batch_size=2))).round()
    assert play.shard(0).counts.tolist() == [1.0, 2.0]
    p = byhand.START
    for b in play.shard(0).epochs(1):
        x, y = b.x.numpy().astype(float), b.y.numpy()
        error = (byhand.softmax(byhand.logits(p, x) + np.log([1, 2])) - np.eye(2)[y]) / len(y)
        p = byhand.step(p, byhand.chain(p, x, byhand.features(p, x), error))
    byhand.close(play.ups[0], p)


@pytest.mark.parametrize("norm", [False, True])
def test_with_one_sample_of_each_class_the_common_model_is_fedavgs_to_the_last_bit(norm: bool) -> None:
    """Balanced classes make the balanced loss the plain one; log 1 = 0 makes it so to the last bit."""
    base = testing.federation(4, sizes=[30] * 4)
    rows = tuple(torch.stack([own[base.y[own] == c][0] for c in range(3)]) for own in base.train)
    data, budget = replace(base, train=rows), Budget(lr=0.1, batch_size=4)
    one = testing.play(FedRoD(budget=budget), data, norm=norm)
    reference = testing.play(FedAvg(norm="local_stats", budget=budget), data, norm=norm)
    assert trees.equal(one.server, reference.server)
