"""FedPer: bodies are averaged, heads never leave, both are trained together."""

import byhand
import numpy as np
import torch

from perfed import testing, trees
from perfed.local import Budget
from perfed.methods.fedper import FedPer
from perfed.methods.local import Local
from perfed.sampling import Sampling


def test_two_rounds_by_hand() -> None:
    play = byhand.Play(FedPer(budget=byhand.BUDGET))
    starts = [byhand.START, byhand.START]
    for _ in (1, 2):
        ends = [byhand.step(p, byhand.slopes(p, x, y)) for p, x, y in zip(starts, byhand.X, byhand.Y, strict=True)]
        common = byhand.mean(*ends)
        play.round()
        byhand.close(play.server, common, "body")
        for i in (0, 1):
            byhand.close(play.ups[i], ends[i], "body")
            byhand.close(play.mine(i), ends[i], "head")
            starts[i] = {k: (common if k.startswith("body") else ends[i])[k] for k in common}
            np.testing.assert_allclose(play.logits(i, byhand.X[0]), byhand.logits(starts[i], byhand.X[0]), atol=1e-5)


def test_only_the_body_crosses() -> None:
    play = byhand.Play(FedPer(budget=byhand.BUDGET)).round()
    up, down = play.transport.ledger.close()
    assert up == down == {"body": 2 * 9 * 4}  # two clients, 3 × 2 weights and 3 biases of four bytes


def test_a_client_that_was_never_there_serves_the_shared_body_with_the_head_it_started_with() -> None:
    play = byhand.Play(FedPer(budget=byhand.BUDGET)).round((0,))
    trained = byhand.step(byhand.START, byhand.slopes(byhand.START, byhand.X[0], byhand.Y[0]))
    served = {k: (trained if k.startswith("body") else byhand.START)[k] for k in trained}
    np.testing.assert_allclose(play.logits(1, byhand.X[1]), byhand.logits(served, byhand.X[1]), atol=1e-5)


def test_the_shared_body_says_who_owns_its_statistics() -> None:
    data = testing.federation(3)
    mean, weight = "~body.1.running_mean", "body.1.weight"
    own = testing.play(FedPer(), data, norm=True)  # local_stats: statistics stay, the affine part is averaged
    assert torch.equal(own.server[mean], torch.zeros(16)) and not torch.equal(own.server[weight], torch.ones(16))
    assert not torch.equal(own.privates[0].kept[mean], own.privates[1].kept[mean])
    shared = testing.play(FedPer(norm="all"), data, norm=True)
    assert not torch.equal(shared.server[mean], torch.zeros(16)) and not shared.privates[0].kept
    kept = testing.play(FedPer(norm="local_all"), data, norm=True)
    assert torch.equal(kept.server[weight], torch.ones(16)) and set(own.privates[0].kept) < set(kept.privates[0].kept)


def test_alone_it_is_local_training() -> None:
    data, budget = testing.federation(1), Budget(lr=0.1, batch_size=8)
    for norm in (False, True):
        one, two = (testing.play(m(budget=budget), data, norm=norm) for m in (FedPer, Local))
        served = one.site.withheld.overlay(one.server, one.privates[0].kept) | one.privates[0].mine
        assert trees.equal(served, {k: two.privates[0].mine[k] for k in served})


def test_absent_clients_keep_their_heads() -> None:
    data = testing.federation()
    half = testing.play(FedPer(budget=Budget(lr=0.1)), data, sampling=Sampling(ratio=0.4), count=1)
    present = half.history[-1].participants
    start = testing.task().split(testing.task().params())[1]
    for i in range(len(data)):
        assert trees.equal(half.store[i].mine, start) == (i not in present)
