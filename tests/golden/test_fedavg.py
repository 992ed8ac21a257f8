"""FedAvg: one step at each client, then the mean weighted by samples."""

import byhand
import numpy as np
import torch

from perfed import testing, trees
from perfed.local import Budget
from perfed.methods.fedavg import FedAvg

ENDS = [byhand.step(byhand.START, byhand.slopes(byhand.START, x, y)) for x, y in zip(byhand.X, byhand.Y, strict=True)]


def test_one_round_is_the_weighted_mean_of_one_step_each() -> None:
    play = byhand.Play(FedAvg(budget=byhand.BUDGET)).round()
    byhand.close(play.ups[0], ENDS[0])
    byhand.close(play.ups[1], ENDS[1])
    byhand.close(play.server, byhand.mean(*ENDS))


def test_everyone_serves_the_common_model_and_not_the_one_it_trained() -> None:
    play = byhand.Play(FedAvg(budget=byhand.BUDGET)).round()
    assert (play.logits(0, byhand.X[0]) == play.logits(1, byhand.X[0])).all()
    np.testing.assert_allclose(play.logits(0, byhand.X[0]), byhand.logits(byhand.mean(*ENDS), byhand.X[0]), atol=1e-6)


def test_answers_weigh_by_samples_and_not_by_batches() -> None:
    """In batches of two, client 0 makes two steps and client 1 one, but they own three samples and two."""
    play = byhand.Play(FedAvg(budget=Budget(lr=0.5, batch_size=2))).round()
    expected = {k: 0.6 * play.ups[0][k].numpy() + 0.4 * play.ups[1][k].numpy() for k in play.server}
    byhand.close(play.server, expected)


def test_training_shares_no_memory_with_the_server() -> None:
    play = byhand.Play(FedAvg(budget=byhand.BUDGET))
    first, before = play.server, trees.clone(play.server)
    play.round()
    assert trees.equal(first, before)
    assert not {x.data_ptr() for x in trees.leaves(first)} & {x.data_ptr() for up in play.ups for x in trees.leaves(up)}


def test_the_statistics_of_batchnorm_are_averaged_and_their_count_stays_a_whole_number() -> None:
    play = byhand.Play(FedAvg(budget=Budget(lr=0.1, batch_size=8)), testing.task(True), testing.federation(2)).round()
    sizes = testing.federation(2).sizes
    for k, found in trees.state(play.server).items():
        mean = sum(n * up[k].double() for n, up in zip(sizes, play.ups, strict=True)) / sum(sizes)
        assert found.dtype == play.ups[0][k].dtype
        assert torch.allclose(found.double(), mean if found.is_floating_point() else mean.round(), atol=1e-6), k
    assert play.server["~body.1.num_batches_tracked"].dtype is torch.int64
