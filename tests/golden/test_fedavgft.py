"""FedAvg with fine-tuning: the common model is FedAvg's; a client serves it after more steps on its own data."""

import byhand
import numpy as np
import pytest

from perfed import testing, trees
from perfed.errors import MethodError
from perfed.local import Budget
from perfed.methods.fedavg import FedAvg
from perfed.methods.fedavgft import FedAvgFT

ENDS = [byhand.step(byhand.START, byhand.slopes(byhand.START, x, y)) for x, y in zip(byhand.X, byhand.Y, strict=True)]


def test_a_client_serves_the_common_model_after_two_steps_on_its_own_data() -> None:
    play = byhand.Play(FedAvgFT(tune_epochs=2, budget=byhand.BUDGET)).round()
    byhand.close(play.server, byhand.mean(*ENDS))
    for i, (x, y) in enumerate(zip(byhand.X, byhand.Y, strict=True)):
        p = byhand.mean(*ENDS)
        for _ in range(2):
            p = byhand.step(p, byhand.slopes(p, x, y))
        tuned, _ = play.method.adapt(play.site.task, play.server, (), play.shard(i))
        byhand.close(tuned, p)
        score = play.transport.score(play.server, [i], 1, ("test",))[0][0]
        assert abs(score["loss"] - byhand.loss(p, x, y)) < 1e-6
        assert round(score["accuracy"] * score.count) == int((byhand.logits(p, x).argmax(1) == y).sum())


def test_a_test_leaves_nothing_behind() -> None:
    play = byhand.Play(FedAvgFT(budget=byhand.BUDGET)).round()
    before = trees.clone((play.server, play.store[0], play.store[1]))
    play.transport.score(play.server, [0, 1], 1, ("test",))
    assert trees.equal(before, (play.server, play.store[0], play.store[1]))


@pytest.mark.parametrize("norm", [False, True])
def test_its_common_model_is_fedavgs_to_the_last_bit(norm: bool) -> None:
    budget = Budget(lr=0.1, batch_size=8)
    testing.check_reduces(FedAvgFT(budget=budget), FedAvg(budget=budget), lambda p: p.server, lambda p: p.server, norm=norm)


def test_without_tuning_it_scores_as_fedavg_does() -> None:
    budget, data = Budget(lr=0.1, batch_size=8), testing.federation()
    plain = testing.play(FedAvg(budget=budget), data)
    bare = testing.play(byhand.forced(FedAvgFT(budget=budget), tune_epochs=0), data)
    assert [r.scores for r in plain.history] == [r.scores for r in bare.history]
    tuned = testing.play(FedAvgFT(budget=budget), data)
    assert not np.array_equal([r.scores for r in plain.history][1:], [r.scores for r in tuned.history][1:])


def test_no_tuning_is_refused() -> None:
    with pytest.raises(MethodError, match="it is FedAvg"):
        FedAvgFT(tune_epochs=0)
