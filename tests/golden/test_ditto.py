"""Ditto: w as in FedAvg, and v with the slope of the loss plus λ (v − w_received)."""

from dataclasses import dataclass, replace

import byhand
import pytest

from perfed import testing, trees
from perfed.errors import MethodError
from perfed.local import Budget, Shard, descend
from perfed.methods.ditto import Ditto
from perfed.methods.fedavg import FedAvg
from perfed.methods.local import Local
from perfed.task import Task
from perfed.trees import Params

Arrays = dict[str, byhand.np.ndarray]


def test_three_rounds_by_hand() -> None:
    """From the second round on, anchors other than the received model give other numbers, and so do averaged v."""
    play = byhand.Play(Ditto(spring=0.6, budget=byhand.BUDGET))
    w, v = byhand.START, [byhand.START, byhand.START]
    for _ in range(3):
        ends = []
        for i, (x, y) in enumerate(zip(byhand.X, byhand.Y, strict=True)):
            g = byhand.slopes(v[i], x, y)
            v[i] = byhand.step(v[i], {k: g[k] + 0.6 * (v[i][k] - w[k]) for k in g})
            ends.append(byhand.step(w, byhand.slopes(w, x, y)))
        w = byhand.mean(*ends)
        play.round()
        byhand.close(play.server, w)
        byhand.close(play.mine(0), v[0])
        byhand.close(play.mine(1), v[1])
    byhand.np.testing.assert_allclose(play.logits(0, byhand.X[0]), byhand.logits(v[0], byhand.X[0]), atol=1e-5)


def test_the_two_models_do_not_share_momentum() -> None:
    """Two passes each with momentum 0.9: the second velocity of either is 0.9 of its own first plus its own slope."""
    budget = Budget(lr=0.1, batch_size=8, epochs=2, momentum=0.9)
    play = byhand.Play(Ditto(spring=0.6, personal_epochs=2, budget=budget)).round()
    for i, (x, y) in enumerate(zip(byhand.X, byhand.Y, strict=True)):
        for spring, found in ((0.6, play.mine(i)), (0.0, play.ups[i])):
            p, speed = byhand.START, {k: 0.0 * a for k, a in byhand.START.items()}
            for _ in range(2):
                g = byhand.slopes(p, x, y)
                speed = {k: 0.9 * speed[k] + g[k] + spring * (p[k] - byhand.START[k]) for k in p}
                p = byhand.step(p, speed, 0.1)
            byhand.close(found, p)


@pytest.mark.parametrize("norm", [False, True])
def test_its_common_model_is_fedavgs_to_the_last_bit(norm: bool) -> None:
    budget = Budget(lr=0.1, batch_size=8)
    reference = FedAvg(norm="local_stats", budget=budget)
    testing.check_reduces(Ditto(budget=budget), reference, lambda p: p.server, lambda p: p.server, norm=norm)


@dataclass(frozen=True, kw_only=True)
class SameVisits(Local):
    """Local, visiting its samples in the order in which Ditto's personal model does."""

    def local(self, task: Task, down: tuple[()], mine: Params, data: Shard) -> tuple[tuple[()], Params]:
        return (), descend(task.loss, mine, data.epochs(self.budget.epochs, "personal"), self.budget)


@pytest.mark.parametrize("norm", [False, True])
def test_without_a_spring_the_personal_model_is_locals_to_the_last_bit(norm: bool) -> None:
    budget = Budget(lr=0.1, batch_size=8)
    loose = byhand.forced(Ditto(budget=budget), spring=0.0)
    testing.check_reduces(loose, SameVisits(budget=budget), _personal, _personal, norm=norm)


def _personal(played: testing.Played) -> trees.Tree:
    return tuple(p.mine for p in played.privates)


def test_the_personal_model_has_the_budgets_passes_unless_it_is_given_its_own() -> None:
    """At five epochs a personal model of one would be compared with common models that trained five times as long."""
    budget = Budget(lr=0.1, batch_size=8, epochs=3)
    three = byhand.Play(Ditto(spring=0.6, budget=budget)).round()
    assert trees.equal(three.mine(0), byhand.Play(Ditto(spring=0.6, personal_epochs=3, budget=budget)).round().mine(0))
    one = byhand.Play(Ditto(spring=0.6, personal_epochs=1, budget=budget)).round()
    g = byhand.slopes(byhand.START, byhand.X[0], byhand.Y[0])
    byhand.close(one.mine(0), byhand.step(byhand.START, g, 0.1))  # at the start the spring is slack
    assert not trees.equal(one.mine(0), three.mine(0))


def test_settings_that_make_it_local_are_refused() -> None:
    with pytest.raises(MethodError, match="Local"):
        Ditto(spring=0.0)
    with pytest.raises(MethodError, match="never be trained"):
        replace(Ditto(), personal_epochs=0)
