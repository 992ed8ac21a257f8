"""FedPick: masks of 0 and 1 with a soft gradient, three classifiers, BatchNorm that never leaves."""

from dataclasses import replace
from typing import Any

import byhand
import nudge
import numpy as np
import pytest
import torch
from nudge import Arrays
from torch import nn

from perfed import keys, testing, trees
from perfed.errors import MethodError
from perfed.local import Batch, Budget
from perfed.methods.fedbn import FedBN
from perfed.methods.fedpick import FedPick, Model
from perfed.task import Task

LR = 0.1
ONE = replace(byhand.BUDGET, lr=LR)
BUDGET = Budget(lr=0.05, batch_size=8, momentum=0.5)
WEIGHTS = {"personal_loss": 0.7, "entropy": 0.3, "distil": 0.4, "temperature": 2.0}


def selector(p: Arrays, z: np.ndarray) -> np.ndarray:
    return nudge.linear(p, "selector.2", nudge.relu(nudge.linear(p, "selector.0", z)))


def noise(key: torch.Tensor, shape: tuple[int, ...]) -> np.ndarray:
    """The difference of two Gumbel numbers, drawn as the method says."""
    one, two = (keys.open_uniform(keys.fold(key, name), shape).numpy() for name in ("pick", "drop"))
    return -np.log(-np.log(one)) + np.log(-np.log(two))


def divergence(p: np.ndarray, q: np.ndarray) -> float:
    p, q = nudge.log_softmax(p), nudge.log_softmax(q)
    return float((np.exp(p) * (p - q)).sum(1).mean())


def by_hand(p: Arrays, batch: Batch, *, soft: bool = False, fixed: bool = True, scope: str = "all") -> Arrays:
    """One step of one client on Eq. (15) with the weights 0.7, 0.3, 0.4 and temperature 2.

    Straight through: the mask is the hard one at ``p``, plus what the soft one has moved by since.
    """
    x, y, start = batch.x.numpy().astype(np.float64), batch.y.numpy(), p
    shift = noise(batch.key, (len(y), 3))

    def soft_mask(p: Arrays, z: np.ndarray) -> np.ndarray:
        return nudge.sigmoid((selector(p, z) + shift) / 2.0)

    def mask(p: Arrays, z: np.ndarray) -> np.ndarray:
        at = soft_mask(start, byhand.features(start, x))
        return soft_mask(p, z) if soft else (at >= 0.5) + soft_mask(p, z) - at

    def loss(p: Arrays) -> float:
        z = byhand.features(p, x)
        common, own = nudge.linear(p, "head", z), nudge.linear(p, "chosen", z * mask(p, z))
        seen = z if scope == "all" else byhand.features(start, x)
        rest = nudge.log_softmax(nudge.linear(p, "rejected", seen * (1 - mask(p, seen))))
        if fixed:
            z0 = byhand.features(start, x)
            common0, own0 = nudge.linear(start, "head", z0), nudge.linear(start, "chosen", z0 * mask(start, z0))
            lesson = divergence(own0, common) + divergence(common0, own)
        else:
            lesson = divergence(own, common) + divergence(common, own)
        total = nudge.cross_entropy(common, y) + 0.7 * nudge.cross_entropy(own, y) + 0.4 * lesson
        return total + 0.3 * float((np.exp(rest) * rest).sum(1).mean())  # negative entropy: small where undecided

    return nudge.stepped(loss, p, LR)


def first_batch(play: byhand.Play, client: int) -> Batch:
    return next(play.site.federation.shard(client, play.number + 1, 8, False).epochs(1))


def states(play: byhand.Play, client: int) -> Arrays:
    return nudge.arrays(*trees.over(play.server, play.mine(client)))


def matches(play: byhand.Play, client: int, end: Arrays) -> None:
    whole = trees.over(play.ups[client], play.mine(client))
    for part, name in zip(whole, ("body", "head", "selector", "chosen", "rejected"), strict=True):
        byhand.close(part, end, name, atol=2e-6)


def test_two_rounds_by_hand() -> None:
    play = byhand.Play(FedPick(budget=ONE, **WEIGHTS))
    for _ in range(2):
        ends = [by_hand(states(play, i), first_batch(play, i)) for i in (0, 1)]
        play.round()
        for i in (0, 1):
            matches(play, i, ends[i])
            assert play.ups[i].selector == play.ups[i].chosen == play.ups[i].rejected == {}
        middle = byhand.mean(*ends)  # by samples: 3 and 2
        byhand.close(
            play.server.encoder | play.server.head, {k: v for k, v in middle.items() if k[:4] in ("body", "head")}, atol=2e-6
        )


@pytest.mark.parametrize(
    ("options", "reading"),
    [
        ({"selection": "soft"}, {"soft": True}),
        ({"teachers": "moving"}, {"fixed": False}),
        ({"entropy_scope": "selector"}, {"scope": "selector"}),
    ],
)
def test_other_readings_by_hand(options: dict[str, Any], reading: dict[str, Any]) -> None:
    play = byhand.Play(FedPick(budget=ONE, **WEIGHTS, **options))
    end, usual = (by_hand(states(play, 0), first_batch(play, 0), **kind) for kind in (reading, {}))
    assert max(abs(end[k] - usual[k]).max() for k in end) > 1e-4
    play.round()
    matches(play, 0, end)


def test_masks_are_exactly_binary_and_the_selector_has_a_gradient() -> None:
    """In the other order, hard + soft − soft, one selected entry in eight is off by a bit."""
    task = testing.task()
    method = FedPick(temperature=1.0)
    server, mine = method.init(task, 2)
    z = keys.normal(keys.key(1), (2000, 8)).abs()
    weights = {k: (v * 3).requires_grad_() for k, v in mine.selector.items()}
    mask = method.mask(task, weights, z, keys.key(2))
    assert set(mask.unique().tolist()) == {0.0, 1.0}
    assert bool((z * mask + z * (1 - mask) == z).all())
    slopes = torch.autograd.grad((mask * z).sum(), list(weights.values()))
    assert all(bool(g.abs().max() > 1e-3) for g in slopes)


def test_noise_is_finite_symmetric_and_for_training_only() -> None:
    task = testing.task()
    method = FedPick()
    _, mine = method.init(task, 2)
    zero = {k: torch.zeros_like(v) for k, v in mine.selector.items()}
    z = torch.ones(20_000, 8)
    assert method.mask(task, zero, z, keys.key(3)).mean() == pytest.approx(0.5, abs=0.01)  # logistic, around no logit
    assert not torch.equal(method.mask(task, zero, z, keys.key(3)), method.mask(task, zero, z, keys.key(4)))
    assert torch.equal(method.mask(task, zero, z), torch.ones_like(z))  # a logit of 0 is selected
    assert bool(torch.isfinite(keys.gumbel(keys.key(0), (1_000_000,))).all())


def test_a_small_negative_logit_is_rejected_though_its_sigmoid_rounds_to_one_half() -> None:
    task = testing.task()
    method = FedPick()
    _, mine = method.init(task, 2)
    tiny = {k: torch.zeros_like(v) for k, v in mine.selector.items()} | {"selector.2.bias": torch.full((8,), -1e-9)}
    assert float(torch.sigmoid(torch.tensor(-1e-9))) == 0.5
    assert torch.equal(method.mask(task, tiny, torch.ones(4, 8)), torch.zeros(4, 8))


def test_the_temperature_changes_gradients_but_no_hard_mask() -> None:
    task, z = testing.task(), keys.normal(keys.key(5), (50, 8)).abs()
    _, mine = FedPick().init(task, 2)
    masks = [FedPick(temperature=t).mask(task, mine.selector, z, keys.key(6)) for t in (0.1, 1.0, 10.0)]
    assert torch.equal(masks[0], masks[1]) and torch.equal(masks[1], masks[2])
    soft = [FedPick(temperature=t, selection="soft").mask(task, mine.selector, z, keys.key(6)) for t in (0.1, 10.0)]
    assert not torch.allclose(*soft)
    fewer = FedPick(threshold=0.8).mask(task, mine.selector, z, keys.key(6))
    assert bool((fewer <= masks[0]).all()) and fewer.sum() < masks[0].sum()
    assert torch.equal(fewer, (FedPick(selection="soft").mask(task, mine.selector, z, keys.key(6)) >= 0.8).float())


def test_both_classifiers_are_served_without_noise() -> None:
    play = byhand.Play(FedPick(budget=ONE, **WEIGHTS)).round()
    x = torch.tensor(byhand.X[0], dtype=torch.float32)
    p = states(play, 0)
    z = byhand.features(p, byhand.X[0])
    common, own = nudge.linear(p, "head", z), nudge.linear(p, "chosen", z * (selector(p, z) >= 0))
    served = play.site.task.served
    found = {
        e: FedPick(ensemble=e).predict(served, play.server, play.mine(0), x).numpy()
        for e in ("logits", "probabilities", "global")
    }
    np.testing.assert_allclose(found["logits"], common + own, atol=2e-6)
    np.testing.assert_allclose(np.exp(found["probabilities"]), (byhand.softmax(common) + byhand.softmax(own)) / 2, atol=2e-6)
    np.testing.assert_allclose(found["global"], common, atol=2e-6)
    assert (play.logits(0, byhand.X[0]) == play.logits(0, byhand.X[0])).all()


def test_entropy_lies_between_its_bounds() -> None:
    from perfed.local.losses import negative_entropy

    batch = Batch(torch.zeros(2, 1), torch.zeros(2, dtype=torch.int64), None, torch.tensor(0))
    assert float(negative_entropy(torch.zeros(2, 5), batch)) == pytest.approx(-np.log(5), rel=1e-6)
    assert float(negative_entropy(torch.tensor([[200.0, 0.0], [0.0, 200.0]]), batch)) == pytest.approx(0, abs=1e-6)


def test_losses_can_be_left_out_one_by_one() -> None:
    full = byhand.Play(FedPick(budget=ONE, **WEIGHTS))
    start = trees.over(full.server, full.mine(0))
    for without, still in (("personal_loss", ()), ("entropy", ("rejected",)), ("distil", ())):
        play = byhand.Play(FedPick(budget=ONE, **(WEIGHTS | {without: 0.0}))).round()
        end = trees.over(play.ups[0], play.mine(0))
        for part in Model._fields:
            assert trees.equal(getattr(start, part), getattr(end, part)) == (part in still), (without, part)


def test_the_three_classifiers_have_the_heads_architecture_and_weights_of_their_own() -> None:
    net = nn.Module()
    net.body = nn.Sequential(nn.Linear(6, 8), nn.ReLU())
    net.head = nn.Sequential(nn.Linear(8, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 3))
    task = Task.of(net, (6,), 3)
    server, mine = FedPick().init(task, 2)
    shapes = [[v.shape for v in part.values()] for part in (server.head, mine.chosen, mine.rejected)]
    assert shapes[0] == shapes[1] == shapes[2]
    assert (
        len(
            {
                float(part[k].flatten()[0])
                for part, k in (
                    (server.head, "head.0.weight"),
                    (mine.chosen, "chosen.0.weight"),
                    (mine.rejected, "rejected.0.weight"),
                )
            }
        )
        == 3
    )
    assert [v.shape for v in mine.selector.values()] == [(4, 8), (4,), (8, 4), (8,)]


def test_nothing_of_batchnorm_leaves_and_clients_differ_in_it() -> None:
    played = testing.play(FedPick(budget=BUDGET), testing.federation(3), norm=True, count=2)
    kept = [p.kept for p in played.privates]
    assert set(kept[0]) == {f"body.1.{k}" for k in ("weight", "bias")} | {
        f"~body.1.{k}" for k in ("running_mean", "running_var", "num_batches_tracked")
    }
    assert not torch.equal(kept[0]["body.1.weight"], kept[1]["body.1.weight"])
    shared = testing.play(FedPick(norm="all", budget=BUDGET), testing.federation(3), norm=True, count=2)
    assert all(p.kept == {} for p in shared.privates)


def test_the_selection_module_can_be_shared() -> None:
    played = testing.play(FedPick(share_selector=True, budget=BUDGET), testing.federation(3), count=2)
    assert played.server.selector and played.server.chosen and played.server.rejected
    assert not any(trees.leaves(p.mine) for p in played.privates)


VIEWS = (
    lambda p: (p.server.encoder | p.server.head, tuple(q.kept for q in p.privates)),
    lambda p: (p.server, tuple(q.kept for q in p.privates)),
)


def test_with_weights_of_zero_and_the_global_classifier_it_is_fedbn() -> None:
    method = FedPick(personal_loss=0.0, entropy=0.0, distil=0.0, ensemble="global", budget=BUDGET)
    reference = FedBN(rule="weighted", budget=BUDGET)
    testing.check_reduces(method, reference, *VIEWS, norm=True)
    data = testing.federation()
    one, two = (testing.play(m, data, norm=True) for m in (method, reference))
    assert [r.scores for r in one.history] == [r.scores for r in two.history]


def test_without_selector_it_is_fedbn() -> None:
    testing.check_reduces(FedPick(selection="none", budget=BUDGET), FedBN(rule="weighted", budget=BUDGET), *VIEWS, norm=True)


@pytest.mark.parametrize("apart", [10.0, 100.0, 1000.0])
def test_a_fixed_teacher_pulls_with_a_force_of_one_at_most_and_a_moving_one_without_a_bound(apart: float) -> None:
    """Own scores undecided, common ones ``apart``: the slope of KL(own ‖ common) at the own ones grows with that distance."""
    batch = Batch(torch.zeros(1, 1), torch.zeros(1, dtype=torch.int64), None, torch.tensor(0))
    force = {}
    for teachers in ("fixed", "moving"):
        own, common = torch.zeros(1, 2, requires_grad=True), torch.tensor([[-apart, 0.0]], requires_grad=True)
        lesson = FedPick(teachers=teachers)._lesson(own, common, batch)
        force[teachers] = max(float(slope.abs().max()) for slope in torch.autograd.grad(lesson, (own, common)))
    assert force["fixed"] <= 1 and force["moving"] == pytest.approx(apart / 4 + 0.5, rel=1e-3)


def test_refusals() -> None:
    with pytest.raises(MethodError, match="temperature"):
        FedPick(temperature=0.0)
    with pytest.raises(MethodError, match="≥ 0"):
        FedPick(entropy=-0.1)
    with pytest.raises(MethodError, match="threshold"):
        FedPick(threshold=1.0)
    with pytest.raises(MethodError, match="never trains its personal classifier"):
        FedPick(personal_loss=0.0, distil=0.0)
