"""Per-FedAvg: the slope is taken after a trial step and applied before it."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import byhand
import numpy as np
import pytest

from perfed import testing, trees
from perfed.errors import MethodError
from perfed.local import Batch, Budget, Shard, descend
from perfed.methods.fedavg import FedAvg
from perfed.methods.perfedavg import PerFedAvg
from perfed.task import Task
from perfed.trees import Params

SINGLE = Budget(lr=0.5, batch_size=1)


def visits(shard: Shard, stream: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """A client's samples in the order of one pass."""
    return [(b.x.numpy().astype(float), b.y.numpy()) for b in replace(shard, batch_size=1).epochs(1, stream)]


def test_one_round_by_hand_in_batches_of_one() -> None:
    """Client 0 pairs two of its three samples and leaves the third out; client 1 pairs its two."""
    play = byhand.Play(PerFedAvg(step=0.25, budget=SINGLE)).round()
    ends = []
    for i in (0, 1):
        first, second = visits(play.shard(i), "fit")[:2]
        tried = byhand.step(byhand.START, byhand.slopes(byhand.START, *first), 0.25)
        slope = byhand.slopes(tried, *second)
        ends.append(byhand.step(byhand.START, slope))
        byhand.close(play.ups[i], ends[i])
        with pytest.raises(AssertionError):  # the outer step starts at w, not where the trial step ended
            byhand.close(play.ups[i], byhand.step(tried, slope))
    byhand.close(play.server, byhand.mean(*ends))


def test_a_client_is_tested_after_one_step_on_one_batch_of_its_training_data() -> None:
    play = byhand.Play(PerFedAvg(step=0.25, budget=SINGLE)).round()
    for i in (0, 1):
        start = {k: v.double().numpy() for k, v in play.server.items()}
        expected = byhand.step(start, byhand.slopes(start, *visits(play.shard(i), "adapt")[0]), 0.25)
        adapted, _ = play.method.adapt(play.site.task, play.server, (), play.shard(i))
        byhand.close(adapted, expected)
        score = play.transport.score(play.server, [i], 1, ("test",))[0][0]
        assert abs(score["loss"] - byhand.loss(expected, byhand.X[i], byhand.Y[i])) < 1e-5


def test_a_test_adapts_to_training_data_only_and_leaves_nothing_behind() -> None:
    play = byhand.Play(PerFedAvg(budget=SINGLE)).round()
    before = trees.clone((play.server, play.store[0]))
    play.transport.score(play.server, [0], 1, ("test",))
    assert trees.equal(before, (play.server, play.store[0]))
    other = replace(play.site.federation, test=(play.site.federation.test[1],) * 2)
    swapped = byhand.Play(play.method, data=other).round()
    adapted = [p.method.adapt(p.site.task, p.server, (), p.shard(0))[0] for p in (play, swapped)]
    assert trees.equal(*adapted)


def test_trial_steps_leave_the_statistics_of_batchnorm_alone() -> None:
    data = testing.federation(2, sizes=[32, 32])
    play = byhand.Play(PerFedAvg(norm="all", budget=Budget(lr=0.1, batch_size=8)), testing.task(True), data).round()
    assert int(play.ups[0]["~body.1.num_batches_tracked"]) == 2  # two pairs; counting trial steps would give four
    adapted, _ = play.method.adapt(play.site.task, play.server, (), play.shard(0))
    assert trees.equal(trees.state(adapted), trees.state(play.server))
    assert not trees.equal(trees.weights(adapted), trees.weights(play.server))


def test_a_step_not_given_is_the_budgets_learning_rate() -> None:
    one, two = (byhand.Play(PerFedAvg(step=s, budget=SINGLE)).round().server for s in (None, 0.5))
    assert trees.equal(one, two)


@dataclass(frozen=True, kw_only=True)
class EverySecond(FedAvg):
    """FedAvg that trains on the second batch of every pair."""

    def local(self, task: Task, down: Params, mine: tuple[()], data: Shard) -> tuple[Params, tuple[()]]:
        def second() -> Iterator[Batch]:
            for b in replace(data, batch_size=16).epochs(self.budget.epochs):
                if len(b.y) > (9 if data.even else 8):
                    yield Batch(b.x[8:], b.y[8:], None, b.key)

        return descend(task.loss, down, second(), self.budget), ()


@pytest.mark.parametrize("norm", [False, True])
def test_without_a_trial_step_it_is_fedavg_on_every_second_batch_to_the_last_bit(norm: bool) -> None:
    budget = Budget(lr=0.1, batch_size=8, epochs=2)
    timid = byhand.forced(PerFedAvg(norm="all", budget=budget), step=0.0)
    testing.check_reduces(timid, EverySecond(budget=budget), lambda p: p.server, lambda p: p.server, norm=norm)


def test_a_client_without_two_batches_is_refused_by_name() -> None:
    with pytest.raises(MethodError, match="client 1 has 19"):
        PerFedAvg().check(byhand.task(), [40, 19, 30], 3)
    PerFedAvg().check(byhand.task(), [40, 20, 30], 3)
    with pytest.raises(MethodError, match="step"):
        PerFedAvg(step=0.0)
