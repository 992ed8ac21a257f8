"""APPLE: a client trains its core and its relation vector through the mixture of all cores."""

from typing import Any

import byhand
import numpy as np
import pytest
import torch

from perfed import testing, trees
from perfed.errors import MethodError
from perfed.local import Budget
from perfed.methods.apple import Apple
from perfed.methods.local import Local
from perfed.transport import Private, Serial, Site, Store

Arrays = dict[str, np.ndarray]
SIZES = np.array([3, 2])


def mixed(cores: list[Arrays], p: np.ndarray, client: int) -> Arrays:
    """Σ_j p_j c_j; a client's vector begins with itself."""
    order = [cores[client], cores[1 - client]]
    return {k: sum(w * c[k] for w, c in zip(p, order, strict=True)) for k in cores[0]}


def visit(cores: list[Arrays], p: np.ndarray, client: int, number: int, method: Apple) -> tuple[Arrays, np.ndarray]:
    """One batch: the gradient at the mixture moves the client's core and its relation vector."""
    g = byhand.slopes(mixed(cores, p, client), byhand.X[client], byhand.Y[client])
    average = np.sum if method.products == "summed" else np.mean
    tensors = 1 if method.products == "summed" else len(g)
    products = np.array([sum(average(g[k] * c[k]) for k in g) / tensors for c in (cores[client], cores[1 - client])])
    first = np.array([0.5, 0.5]) if number == 0 else SIZES[[client, 1 - client]] / 5  # sizes are known once all have answered
    last = method.fading * method.rounds
    fade = (np.cos(np.pi * number / last) + 1) / 2 if number < last else 0.0
    share = p[0] if method.core_step == "share" else 1.0
    core = byhand.step(cores[client], {k: share * v for k, v in g.items()})
    return core, p - method.relation_lr * (products + method.pull * fade * (p - first))


@pytest.mark.parametrize("options", [
    {}, {"relation_lr": 0.1, "pull": 2.0}, {"core_step": "share"}, {"products": "averaged", "relation_lr": 1.0, "pull": 0.0},
])  # fmt: skip
def test_four_rounds_by_hand(options: dict[str, Any]) -> None:
    method = Apple(rounds=10, fading=0.3, budget=byhand.BUDGET, **options)  # the pull is gone from round 3 on
    play = byhand.Play(method)
    cores, relations = [byhand.START, byhand.START], [np.array([0.5, 0.5])] * 2
    for number in range(4):
        ends = [visit(cores, relations[i], i, number, method) for i in (0, 1)]
        play.round()
        cores, relations = [c for c, _ in ends], [p for _, p in ends]
        for i in (0, 1):
            byhand.close(play.ups[i], cores[i], atol=1e-5)  # the core is uploaded, not the mixture
            byhand.close(play.server.cores[i], cores[i], atol=1e-5)
            np.testing.assert_allclose(play.mine(i).numpy(), relations[i], atol=1e-5)
            expected = byhand.logits(mixed(cores, relations[i], i), byhand.X[0])
            np.testing.assert_allclose(play.logits(i, byhand.X[0]), expected, atol=1e-4)


def test_the_relation_vector_never_crosses_and_every_core_does() -> None:
    play = byhand.Play(Apple(budget=byhand.BUDGET)).round()
    up, down = play.transport.ledger.close()
    core = {"body": 9 * 4, "head": 8 * 4}
    assert up == {k: 2 * v for k, v in core.items()}
    assert down["own"] == down["others"] == 2 * sum(core.values())


def test_nobody_changes_anothers_core() -> None:
    play = byhand.Play(Apple(budget=byhand.BUDGET)).round()
    before, relation = trees.clone(play.server.cores[1]), play.mine(1).clone()
    play.round((0,))
    assert trees.equal(play.server.cores[1], before) and torch.equal(play.mine(1), relation)
    assert float(play.server.sizes[1]) == 2


def test_a_client_that_has_not_answered_counts_as_typical() -> None:
    play = byhand.Play(Apple(budget=byhand.BUDGET)).round((0,))
    np.testing.assert_allclose(play.method.send(play.server, 1).shares.numpy(), [0.5, 0.5])
    play.round((1,))
    np.testing.assert_allclose(play.method.send(play.server, 1).shares.numpy(), [0.4, 0.6])  # oneself first


def test_averaged_products_stay_small_where_summed_ones_explode() -> None:
    """At a step size that suits averages, full inner products throw the relation vector about."""
    found = {}
    for products in ("averaged", "summed"):
        play = byhand.Play(Apple(relation_lr=2.0, products=products, budget=byhand.BUDGET)).round()
        found[products] = float((play.mine(0) - 0.5).abs().max())
    assert found["averaged"] < 0.1 < 0.5 < found["summed"]


@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("core_step", ["full", "share"])
def test_taking_only_ones_own_core_it_is_local_training(core_step: str, norm: bool) -> None:
    """Validation refuses η_p = 0, so the test sets it behind its back, with all relations on oneself."""
    data, budget = testing.federation(3), Budget(lr=0.1, batch_size=8)
    method = Apple(core_step=core_step, budget=budget)
    object.__setattr__(method, "relation_lr", 0.0)
    site, server, first = Site.of(method, testing.task(norm), data)
    store = Store(Private(torch.tensor([1.0, 0.0, 0.0]), first.kept), 3)
    transport = Serial(site, store)
    for number in (1, 2, 3):
        server = method.merge(server, transport.train(server, [0, 1, 2], number, set(), False))
    alone = testing.play(Local(budget=budget), data, norm=norm)
    for i in range(3):
        own = site.withheld.overlay(server.cores[i], store[i].kept)
        assert trees.equal(own, alone.privates[i].mine)


def test_running_statistics_are_ones_own_not_mixed() -> None:
    data = testing.federation(2, sizes=[24, 24])
    played = testing.play(Apple(norm="all", budget=Budget(lr=0.1, batch_size=8)), data, norm=True, count=2)
    name = "~body.1.num_batches_tracked"
    assert [int(c[name]) for c in played.server.cores] == [6, 6]


def test_weight_decay_spares_the_relation_vector() -> None:
    plain, decayed = (byhand.Play(Apple(budget=Budget(lr=0.5, batch_size=8, weight_decay=d))).round() for d in (0.0, 0.1))
    assert torch.equal(plain.mine(0), decayed.mine(0))
    assert not torch.equal(plain.ups[0]["head.weight"], decayed.ups[0]["head.weight"])


def test_what_it_cannot_do_is_refused() -> None:
    with pytest.raises(MethodError, match="mean of all cores"):
        Apple(relation_lr=0.0)
    with pytest.raises(MethodError, match="budget.optimizer=sgd"):
        Apple(budget=Budget(optimizer="adam"))
    with pytest.raises(MethodError, match="only 1"):
        Apple().check(byhand.task(), [5], 1)
