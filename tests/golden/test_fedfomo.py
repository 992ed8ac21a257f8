"""FedFomo: others' models are judged on held-out samples and mixed by gain over distance."""

from dataclasses import replace

import byhand
import numpy as np
import pytest
import torch

from perfed import testing, trees
from perfed.errors import MethodError
from perfed.local import Budget
from perfed.methods.fedfomo import Down, FedFomo, Kept
from perfed.methods.local import Local

Arrays = dict[str, np.ndarray]
METHOD = FedFomo(explore=0.0, budget=byhand.BUDGET)
X, Y = np.concatenate(byhand.X), np.concatenate(byhand.Y)


def parts(play: byhand.Play, client: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """A client's samples to train on and those held out."""
    return [(X[s.rows.numpy()], Y[s.rows.numpy()]) for s in play.shard(client).hold_out(0.2)]


def test_three_rounds_by_hand() -> None:
    """A baseline other than the client's last trained model, or gains that are not per distance, gives other numbers."""
    play = byhand.Play(METHOD)
    w, affinity, moved = [byhand.START, byhand.START], np.eye(2), []
    for number in (1, 2, 3):
        before, gains, shares = list(w), [0.0, 0.0], []
        for i in (0, 1):
            play.number = max(play.number, 1)
            (x, y), aside = parts(play, i)
            start, other = before[i], before[1 - i]
            if number > 1:
                far = np.sqrt(sum(((other[k] - start[k]) ** 2).sum() for k in start))
                gains[i] = (byhand.loss(start, *aside) - byhand.loss(other, *aside)) / (far + 1e-5)
            share = 1.0 if gains[i] > 0 else 0.0  # one other model: it takes all the weight, or none
            start = {k: start[k] + share * (other[k] - start[k]) for k in start}
            w[i] = byhand.step(start, byhand.slopes(start, x, y))
            affinity[i, 1 - i] += gains[i]
            shares.append(share)
        play.number = number - 1
        play.round()
        for i in (0, 1):
            byhand.close(play.ups[i].params, w[i], atol=1e-5)
            byhand.close(play.mine(i), w[i], atol=1e-5)
            np.testing.assert_allclose(play.ups[i].gains, [gains[i]], atol=1e-4)
        np.testing.assert_allclose(play.server.affinity, affinity, atol=1e-4)
        moved += shares
    assert {0.0, 1.0} <= set(moved)  # some round took the other's model, some kept one's own
    np.testing.assert_allclose(play.logits(0, byhand.X[0]), byhand.logits(w[0], byhand.X[0]), atol=1e-4)


def test_three_rounds_of_the_releases_rule_by_hand() -> None:
    """Gains count from the model before the last training, and one's own trained model is judged with the others."""
    play = byhand.Play(FedFomo(baseline="before", explore=0.0, budget=byhand.BUDGET))
    w, before, shares = [byhand.START, byhand.START], [byhand.START, byhand.START], []
    for number in (1, 2, 3):
        held, answered = [], []
        for i in (0, 1):
            play.number = max(play.number, 1)
            (x, y), aside = parts(play, i)
            base, gains = before[i], []
            for model in (w[1 - i], w[i]) if number > 1 else ():
                far = np.sqrt(sum(((model[k] - base[k]) ** 2).sum() for k in base))
                gains.append((byhand.loss(base, *aside) - byhand.loss(model, *aside)) / (far + 1e-5))
            useful = np.maximum(gains or [0.0, 0.0], 0)
            share = useful / useful.sum() if useful.sum() else np.array([0.0, 1.0])  # nobody gained: one's own goes on
            start = {k: base[k] + share[0] * (w[1 - i][k] - base[k]) + share[1] * (w[i][k] - base[k]) for k in base}
            held.append(start)
            answered.append(byhand.step(start, byhand.slopes(start, x, y)))
            shares.append(tuple(share))
        before, w = held, answered
        play.number = number - 1
        play.round()
        for i in (0, 1):
            byhand.close(play.mine(i).before, before[i], atol=1e-5)
            byhand.close(play.mine(i).trained, w[i], atol=1e-5)
            byhand.close(play.ups[i].params, w[i], atol=1e-5)
    assert {(1.0, 0.0), (0.0, 1.0)} <= set(shares)  # some round took the other's model, some kept one's own
    assert play.ups[0].gains.shape == (1,)  # what one's own model gained is nobody else's business
    np.testing.assert_allclose(play.logits(0, byhand.X[0]), byhand.logits(w[0], byhand.X[0]), atol=1e-4)


def test_by_the_releases_rule_ones_own_training_has_a_share_and_stays_where_nobody_gains() -> None:
    task, data = testing.task(), testing.federation(2, sizes=[40, 40])
    play = byhand.Play(FedFomo(baseline="before", budget=Budget(lr=0.1, batch_size=64)), task, data)
    play.number, base = 1, task.params()

    def taught(client: int, passes: int, start: trees.Params) -> trees.Params:
        return Local(budget=Budget(lr=0.3, batch_size=8, epochs=passes)).local(task, (), start, play.shard(client))[1]

    own, other, bad = taught(0, 1, base), taught(0, 3, base), taught(1, 40, base)
    _, mine = play.method.local(task, Down((other,), torch.ones(1)), Kept(own, base), play.shard(0))
    assert isinstance(mine, Kept)
    _, aside = play.shard(0).hold_out(0.2)
    gains = play.method._gains(task, (other, own), base, aside).double().numpy()
    share = gains / gains.sum()
    assert (share > 0.1).all()
    for k, v in base.items():
        mixed = v + share[0] * (other[k] - v) + share[1] * (own[k] - v)
        assert torch.allclose(mine.before[k], mixed.float(), atol=1e-5)
    _, alone = play.method.local(task, Down((bad,), torch.ones(1)), Kept(own, other), play.shard(0))  # ``other`` was best
    assert isinstance(alone, Kept) and all(torch.allclose(alone.before[k], v, atol=1e-6) for k, v in own.items())


def test_several_models_share_the_weight_in_proportion_to_their_clipped_gains() -> None:
    """Client 0 is shown two models that know its data better than its own and one that knows them the wrong way round."""
    task, data = testing.task(), testing.federation(4, sizes=[40] * 4)
    play = byhand.Play(FedFomo(models=3, budget=Budget(lr=0.1, batch_size=64)), task, data)
    play.number, mine = 1, task.params()

    def taught(client: int, passes: int) -> trees.Params:
        return Local(budget=Budget(lr=0.3, batch_size=8, epochs=passes)).local(task, (), mine, play.shard(client))[1]

    down = Down((taught(0, 2), taught(1, 40), taught(0, 6)), torch.ones(3))
    up, _ = play.method.local(task, down, mine, play.shard(0))
    gains = up.gains.double().numpy()
    share = np.maximum(gains, 0) / np.maximum(gains, 0).sum()
    assert (gains > 0).tolist() == [True, False, True] and abs(share[0] - share[2]) > 0.01
    start = {
        k: torch.tensor(v.numpy() + sum(s * (m[k].numpy() - v.numpy()) for s, m in zip(share, down.models, strict=True))).float()
        for k, v in mine.items()
    }
    rest, _ = play.shard(0).hold_out(0.2)
    alone = Local(budget=play.method.budget).local(task, (), start, rest)[1]  # the training that follows
    assert all(torch.allclose(alone[k], up.params[k], atol=1e-5) for k in alone)


def test_samples_held_out_are_never_trained_on() -> None:
    play = byhand.Play(METHOD).round()
    (_, aside) = play.shard(0).hold_out(0.2)
    other = play.site.federation.x.clone()
    other[aside.rows] = 77.0
    changed = byhand.Play(METHOD, data=replace(byhand.federation(), x=other)).round()
    assert trees.equal(play.mine(0), changed.mine(0))
    assert not trees.equal(play.round().ups[0], changed.round().ups[0])  # but they do judge


def test_models_that_helped_most_are_sent_and_ones_own_is_not() -> None:
    method = FedFomo(models=2)
    affinity = torch.eye(4).double() * 9
    affinity[0] = torch.tensor([9.0, 0.1, -0.5, 0.7])
    everyone, tickets = torch.ones(4, dtype=torch.bool), torch.arange(4) * 1001
    assert method._choose(affinity, everyone, tickets, 0.0)[0].tolist() == [3, 1]
    absent = torch.tensor([True, True, True, False])  # 3 was not there: what it sent earlier is not on offer
    assert method._choose(affinity, absent, tickets, 0.0)[0].tolist() == [1, 2]
    assert method._choose(affinity, torch.tensor([True, False, False, False]), tickets, 0.0)[0].tolist() == [-1, -1]


def test_exploration_sends_models_that_greed_would_never_try() -> None:
    method, everyone = FedFomo(models=1), torch.ones(6, dtype=torch.bool)
    affinity = torch.zeros(6, 6).double()
    affinity[:, 5] = 1.0
    draws = [torch.arange(6) * 7919 + 104729 * n for n in range(60)]
    assert {int(method._choose(affinity, everyone, t, 0.0)[0, 0]) for t in draws} == {5}
    assert {int(method._choose(affinity, everyone, t, 1.0)[0, 0]) for t in draws} == {1, 2, 3, 4, 5}
    often = sum(int(method._choose(affinity, everyone, t, 0.3)[i, 0]) != 5 for t in draws for i in range(5)) / 300
    assert 0.15 < often < 0.33  # 0.3 explore, and a fifth of them draw 5 all the same


def test_places_explore_one_by_one_where_asked() -> None:
    """Two places, one favourite: by client it is kept or lost with all the rest, by place the other may change alone."""
    everyone, affinity = torch.ones(6, dtype=torch.bool), torch.zeros(6, 6).double()
    affinity[:, 5], affinity[:, 4] = 2.0, 1.0
    draws = [torch.arange(6) * 7919 + 104729 * n for n in range(60)]
    by_place = FedFomo(models=2, explore_by="place")
    assert {tuple(by_place._choose(affinity, everyone, t, 0.0)[0].tolist()) for t in draws} == {(5, 4)}
    found = [by_place._choose(affinity, everyone, t, 0.3)[0].tolist() for t in draws]
    assert all(len(set(own)) == 2 and 0 not in own for own in found)
    alone = sum(own[0] == 5 and own[1] != 4 for own in found) / len(found)
    assert 0.1 < alone < 0.3  # 0.7 · 0.3 · 3/4 and a little more: the favourite stays and only the second is tried
    absent = torch.tensor([True, False, False, False, True, True])
    assert by_place._choose(affinity, absent, draws[0], 1.0)[0].sort().values.tolist() == [4, 5]


def test_exploration_cools_down_round_by_round() -> None:
    chances: list[float] = []

    class Watched(FedFomo):
        def _choose(self, affinity: torch.Tensor, fresh: torch.Tensor, tickets: torch.Tensor, chance: float) -> torch.Tensor:
            chances.append(chance)
            return super()._choose(affinity, fresh, tickets, chance)

    play = byhand.Play(Watched(budget=byhand.BUDGET))
    for _ in range(7):
        play.round()
    np.testing.assert_allclose(chances, [0.25, 0.2, 0.15, 0.1, 0.05, 0.0, 0.0], atol=1e-12)


def test_in_the_first_round_nothing_is_on_offer() -> None:
    play = byhand.Play(METHOD)
    assert play.method.send(play.server, 0).sent.tolist() == [0.0]
    assert play.round().method.send(play.server, 0).sent.tolist() == [1.0]


@pytest.mark.parametrize("norm", [False, True])
def test_a_client_without_others_is_local_on_what_it_does_not_hold_out_to_the_last_bit(norm: bool) -> None:
    data, budget = testing.federation(1), Budget(lr=0.1, batch_size=8)
    rest, _ = data.shard(0, 1, 8, norm).hold_out(0.2)
    alone = testing.play(FedFomo(budget=budget), data, norm=norm)
    local = testing.play(Local(budget=budget), replace(data, train=(rest.rows,)), norm=norm)
    assert trees.equal(alone.store[0].mine, local.store[0].mine)


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(MethodError, match="Local"):
        FedFomo(models=0)
    with pytest.raises(MethodError, match="held_out"):
        FedFomo(held_out=1.0)
    with pytest.raises(MethodError, match="client 1 has 2"):
        FedFomo().check(testing.task(True), [9, 2], 2)
