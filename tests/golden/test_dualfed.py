"""DualFed: the main branch first, then the global classifier over frozen features; their logits are added."""

from dataclasses import replace
from functools import partial
from typing import Any

import byhand
import nudge
import numpy as np
import pytest
import torch
from nudge import Arrays
from torch import nn

from perfed import testing, trees
from perfed.errors import InputError, MethodError
from perfed.local import Batch, Budget, descend
from perfed.local.losses import supervised_contrast
from perfed.methods.dualfed import DualFed, Model
from perfed.methods.fedper import FedPer
from perfed.task import Task
from perfed.transport import Stacked

LR = 0.1
ONE = replace(byhand.BUDGET, lr=LR)
SMALL = {"width": 4, "contrast": 0.5, "temperature": 0.5}
BUDGET = Budget(lr=0.05, batch_size=8)


def projected(p: Arrays, z: np.ndarray) -> np.ndarray:
    """Linear, ReLU, BatchNorm, Linear, BatchNorm, with the statistics of the batch."""
    hidden = nudge.batch_norm(p, "projector.2", nudge.relu(nudge.linear(p, "projector.0", z)))
    return nudge.batch_norm(p, "projector.4", nudge.linear(p, "projector.3", hidden))


def contrast(u: np.ndarray, y: np.ndarray, temperature: float) -> float:
    """Anchor by anchor: over partners of the same label, against all others; without a partner, nothing."""
    u = u / np.linalg.norm(u, axis=1, keepdims=True)
    total = 0.0
    for i in range(len(u)):
        others = [j for j in range(len(u)) if j != i]
        below = np.log(sum(np.exp(u[i] @ u[a] / temperature) for a in others))
        partners = [j for j in others if y[j] == y[i]]
        total -= sum(u[i] @ u[j] / temperature - below for j in partners) / (len(partners) + 1e-6)
    return total / len(u)


def first_stage(p: Arrays, x: np.ndarray, y: np.ndarray) -> Arrays:
    def loss(p: Arrays) -> float:
        u = projected(p, byhand.features(p, x))
        return nudge.cross_entropy(nudge.linear(p, "personal", u), y) + 0.5 * contrast(u, y, 0.5)

    return nudge.stepped(loss, p, LR, ("body", "projector", "personal"))


def second_stage(p: Arrays, x: np.ndarray, y: np.ndarray) -> Arrays:
    return nudge.stepped(lambda p: nudge.cross_entropy(nudge.linear(p, "head", byhand.features(p, x)), y), p, LR, ("head",))


def states(play: byhand.Play, client: int) -> Arrays:
    return nudge.arrays(*trees.over(play.server, play.mine(client)))


def moving(old: np.ndarray, batch: np.ndarray) -> np.ndarray:
    return 0.9 * old + 0.1 * batch


def test_two_rounds_by_hand() -> None:
    play = byhand.Play(DualFed(budget=ONE, **SMALL))
    for _ in range(2):
        begun = [states(play, i) for i in (0, 1)]
        mains = [first_stage(p, x, y) for p, x, y in zip(begun, byhand.X, byhand.Y, strict=True)]
        ends = [second_stage(p, x, y) for p, x, y in zip(mains, byhand.X, byhand.Y, strict=True)]
        play.round()
        for i in (0, 1):
            byhand.close(play.ups[i].encoder, ends[i], "body", atol=5e-6)
            byhand.close(play.ups[i].global_classifier, ends[i], "head", atol=5e-6)
            byhand.close(play.mine(i).projector, {k: v for k, v in ends[i].items() if k.startswith("projector")}, atol=5e-6)
            byhand.close(play.mine(i).personal_classifier, ends[i], "personal", atol=5e-6)
            assert play.ups[i].projector == play.ups[i].personal_classifier == {}
        middle = byhand.mean(*ends, wa=0.5)  # uniform, though client 0 has three samples and client 1 two
        byhand.close(play.server.encoder, middle, "body", atol=5e-6)
        byhand.close(play.server.global_classifier, middle, "head", atol=5e-6)


def test_statistics_move_in_both_stages_unless_the_second_is_served() -> None:
    """One step each: the mean of the projector's last inputs before stage 1 and, by default, after it once more."""
    play = byhand.Play(DualFed(budget=ONE, **SMALL))
    begun = states(play, 0)
    main = first_stage(begun, byhand.X[0], byhand.Y[0])
    seen = []
    for p in (begun, main):
        z = byhand.features(p, byhand.X[0])
        hidden = nudge.relu(nudge.linear(p, "projector.0", z))
        seen.append(hidden)
    once = moving(np.zeros(4), seen[0].mean(0))
    twice = moving(once, seen[1].mean(0))
    spread = moving(moving(np.ones(4), seen[0].var(0, ddof=1)), seen[1].var(0, ddof=1))
    mine = play.round().mine(0).projector
    np.testing.assert_allclose(mine["~projector.2.running_mean"], twice, atol=1e-6)
    np.testing.assert_allclose(mine["~projector.2.running_var"], spread, atol=1e-6)
    assert int(mine["~projector.2.num_batches_tracked"]) == 2
    served = byhand.Play(DualFed(budget=ONE, second_stage="served", **SMALL)).round().mine(0).projector
    np.testing.assert_allclose(served["~projector.2.running_mean"], once, atol=1e-6)
    assert int(served["~projector.2.num_batches_tracked"]) == 1


@pytest.mark.parametrize("stage", ["training", "served"])
def test_the_second_stage_moves_no_weight_of_the_main_branch(stage: Any) -> None:
    """After both stages its weights are, to the last bit, those of the first stage done alone."""
    task, data = testing.task(norm=True), testing.federation(2)
    method = DualFed(second_stage=stage, contrast=0.1, budget=Budget(lr=0.05, batch_size=8, momentum=0.5))
    start, shard = method.init(task, 2), data.shard(0, 1, 8, True)
    whole, both = trees.over(*start), trees.over(*method.local(task, *start, shard))
    alone = descend(partial(method._loss, task), whole._replace(global_classifier={}), shard.epochs(1), method.budget)
    for part in ("encoder", "projector", "personal_classifier"):
        one, two = getattr(both, part), getattr(alone, part)
        assert trees.equal(trees.weights(one), trees.weights(two)), part
        assert trees.equal(trees.state(one), trees.state(two)) == (stage == "served" or part == "personal_classifier")
    assert not trees.equal(both.global_classifier, whole.global_classifier)


def test_momentum_does_not_cross_from_stage_to_stage() -> None:
    """Two steps of the classifier alone, from rest: w − η g₁, then − η (0.5 g₁ + g₂)."""
    budget = replace(ONE, momentum=0.5, epochs=2)
    play = byhand.Play(DualFed(budget=budget, **SMALL))
    p = states(play, 0)
    play.round()
    p |= nudge.arrays(play.ups[0].encoder)
    z = byhand.features(p, byhand.X[0])

    def slope(p: Arrays) -> Arrays:
        return nudge.slopes(lambda p: nudge.cross_entropy(nudge.linear(p, "head", z), byhand.Y[0]), p, ("head",))

    first = slope(p)
    p |= {k: p[k] - LR * g for k, g in first.items()}
    second = slope(p)
    byhand.close(play.ups[0].global_classifier, {k: p[k] - LR * (0.5 * first[k] + g) for k, g in second.items()}, atol=2e-6)


def test_simultaneous_training_sends_both_losses_through_the_encoder() -> None:
    play = byhand.Play(DualFed(budget=ONE, training="simultaneous", **SMALL))
    p, x, y = states(play, 0), byhand.X[0], byhand.Y[0]

    def loss(p: Arrays) -> float:
        z = byhand.features(p, x)
        u = projected(p, z)
        main = nudge.cross_entropy(nudge.linear(p, "personal", u), y) + 0.5 * contrast(u, y, 0.5)
        return main + nudge.cross_entropy(nudge.linear(p, "head", z), y)

    end = nudge.stepped(loss, p, LR)
    play.round()
    byhand.close(play.ups[0].encoder, end, "body", atol=5e-6)
    byhand.close(play.ups[0].global_classifier, end, "head", atol=5e-6)


def test_stages_alternate_by_round_or_by_epoch() -> None:
    """With one epoch the readings differ in the order of visits alone, with two in more than that."""
    for epochs, alike in ((1, True), (2, False)):
        budget = replace(ONE, epochs=epochs)
        ups = [byhand.Play(DualFed(budget=budget, training=t, **SMALL)).round().ups[0] for t in ("stages", "epochs")]
        gap = max(float((a - b).abs().max()) for a, b in zip(trees.leaves(ups[0]), trees.leaves(ups[1]), strict=True))
        assert (gap < 1e-5) == alike


def batch(y: list[int], mask: list[float] | None = None) -> Batch:
    return Batch(torch.zeros(len(y), 1), torch.tensor(y), None if mask is None else torch.tensor(mask), torch.tensor(0))


def test_the_contrastive_loss_by_hand() -> None:
    u = np.array([[1.0, 0.5], [0.25, -1.0], [2.0, 1.5], [-0.5, 0.5], [1.0, 1.0]])
    y = np.array([0, 1, 0, 2, 0])
    given = torch.tensor(u)
    assert float(supervised_contrast(given, batch([0, 1, 0, 2, 0]), 0.2)) == pytest.approx(contrast(u, y, 0.2), rel=1e-6)
    assert float(supervised_contrast(given, batch([0, 1, 2, 3, 4]), 0.2)) == 0  # no anchor has a partner
    assert float(supervised_contrast(given * 1000, batch([0, 1, 0, 2, 0]), 0.002)) == pytest.approx(
        contrast(u, y, 0.002), rel=1e-5
    )
    masked = supervised_contrast(given, batch([0, 1, 0, 2, 0], [1, 1, 1, 0, 0]), 0.2)
    assert float(masked) == pytest.approx(contrast(u[:3], y[:3], 0.2), rel=1e-6)


def test_logits_or_probabilities_are_added() -> None:
    play = byhand.Play(DualFed(budget=ONE, **SMALL)).round()
    x = torch.tensor(byhand.X[0], dtype=torch.float32)
    own, common = (s.numpy() for s in play.method.heads(play.site.task.served, play.server, play.mine(0), x).values())
    np.testing.assert_allclose(play.logits(0, byhand.X[0]), own + common, atol=1e-6)
    p = nudge.arrays(play.server.encoder, play.server.global_classifier)
    np.testing.assert_allclose(common, byhand.logits(p, byhand.X[0]), atol=1e-6)  # on features before the projector
    pooled = DualFed(ensemble="probabilities", **SMALL).predict(play.site.task.served, play.server, play.mine(0), x)
    np.testing.assert_allclose(np.exp(pooled), (byhand.softmax(own) + byhand.softmax(common)) / 2, atol=1e-6)


def test_the_global_classifier_can_sit_behind_the_projector() -> None:
    play = byhand.Play(DualFed(global_classifier="after", budget=ONE, **SMALL))
    p = first_stage(states(play, 0), byhand.X[0], byhand.Y[0])
    u = projected(p, byhand.features(p, byhand.X[0]))
    end = nudge.stepped(lambda p: nudge.cross_entropy(nudge.linear(p, "head", u), byhand.Y[0]), p, LR, ("head",))
    byhand.close(play.round().ups[0].global_classifier, end, "head", atol=5e-6)


PARTS = Model._fields


@pytest.mark.parametrize(
    "personal",
    [PARTS[1:], ("projector", "personal_classifier"), (), ("personal_classifier",), PARTS],
)
def test_five_ways_to_share(personal: tuple[str, ...]) -> None:
    play = byhand.Play(DualFed(personal=personal, budget=ONE, **SMALL)).round().round()
    for part in PARTS:
        here = part in personal
        assert bool(getattr(play.mine(0), part)) == here and bool(getattr(play.server, part)) != here
    assert trees.finite(trees.over(play.server, play.mine(0)))
    same = (play.logits(0, byhand.X[0]) == play.logits(1, byhand.X[0])).all()
    assert not same  # running statistics alone make models personal


@pytest.mark.parametrize(
    ("options", "kinds", "count"),
    [
        ({}, "Linear ReLU BatchNorm1d Linear BatchNorm1d", 264_448),
        ({"projector_norm": False}, "Linear ReLU Linear", 264_448 - 2 * (256 + 512)),
        ({"depth": 1}, "Linear BatchNorm1d", 512 * 512 + 512 + 1024),
        ({"depth": 3, "width": 64}, "Linear ReLU BatchNorm1d Linear ReLU BatchNorm1d Linear BatchNorm1d", None),
    ],
)
def test_the_projector_is_the_papers(options: dict[str, Any], kinds: str, count: int | None) -> None:
    projector = DualFed(**options)._projector(512)
    assert [type(m).__name__ for m in projector] == kinds.split()
    assert count is None or sum(p.numel() for p in projector.parameters()) == count


def test_a_remainder_of_one_sample_is_left_out_though_the_network_has_no_batchnorm() -> None:
    data = testing.federation(sizes=[9, 17])
    played = testing.play(DualFed(contrast=0.1, budget=BUDGET), data, count=1)
    assert int(played.store[0].mine.projector["~projector.2.num_batches_tracked"]) == 2  # one batch of eight in each stage
    with pytest.raises(InputError, match="BatchNorm needs at least two"):
        testing.play(DualFed(contrast=0.1, budget=BUDGET), testing.federation(sizes=[9, 1]), count=1)


def test_stacked_clients_agree_in_double_precision() -> None:
    """In single precision BatchNorm over few samples magnifies rounding beyond any useful bound."""

    def task() -> Task:
        torch.manual_seed(0)
        return Task.of(
            testing.Net(True).double(), (testing.FEATURES,), testing.CLASSES, example=torch.zeros(2, testing.FEATURES).double()
        )

    torch.set_default_dtype(torch.float64)  # for the modules that the method inserts
    try:
        data = testing.federation(sizes=[24] * 4)
        data = replace(data, x=data.x.double())
        method = DualFed(contrast=0.1, width=16, budget=BUDGET)
        one, two = (testing.play(method, data, the_task=task(), count=1, make=make) for make in (testing.Serial, Stacked))
    finally:
        torch.set_default_dtype(torch.float32)
    assert testing.gap(one.states(), two.states()) < 1e-9


def test_without_contrast_the_main_branch_is_fedper_with_the_projector_in_its_head() -> None:
    """Bit for bit, if the second stage leaves the statistics alone and averages weigh alike."""

    def task() -> Task:
        torch.manual_seed(0)
        return Task.of(testing.Net(True), (testing.FEATURES,), testing.CLASSES)

    method = DualFed(contrast=0.0, second_stage="served", rule="weighted", width=16, budget=BUDGET)
    data, the_task = testing.federation(), task()
    one = testing.play(method, data, the_task=the_task)
    net = nn.Module()
    net.body = the_task.body.skeleton.training  # as it began: functional calls leave it alone
    net.head = nn.Sequential(the_task.parts["projector"].skeleton.training, the_task.parts["personal"].skeleton.training)
    two = testing.play(FedPer(budget=BUDGET), data, the_task=Task.of(net, (testing.FEATURES,), testing.CLASSES))
    assert trees.equal(one.server.encoder, two.server)
    for a, b in zip(one.privates, two.privates, strict=True):
        own = a.mine.projector | a.mine.personal_classifier
        renamed = {k.replace("projector.", "head.0.").replace("personal.", "head.1."): v for k, v in own.items()}
        assert trees.equal(renamed, b.mine) and trees.equal(a.kept, b.kept)


def test_refusals() -> None:
    with pytest.raises(MethodError, match="contrast"):
        DualFed(contrast=-1.0)
    with pytest.raises(MethodError, match="temperature"):
        DualFed(temperature=0.0)
    with pytest.raises(MethodError, match="1 to 3 layers"):
        DualFed(depth=4)
    with pytest.raises(InputError, match="did you mean 'projector'"):
        DualFed(personal=("projectors",))


@pytest.mark.parametrize(
    ("lr", "batch", "fine"), [(0.005, 10, True), (0.01, 19, False), (0.01, 20, True), (0.1, 199, False), (0.1, 200, True)]
)
def test_batches_too_small_for_the_projectors_norm_are_refused(lr: float, batch: int, fine: bool) -> None:
    """At the paper's λ = 40 a batch needs 50 · 40 · lr samples."""
    method = DualFed(budget=Budget(lr=lr, batch_size=batch))
    if fine:
        method.check(testing.task(), [300, 300], 2)
        return
    with pytest.raises(MethodError, match=f"below {2000 * lr:g} samples: budget.batch_size is {batch}"):
        method.check(testing.task(), [300, 300], 2)
    replace(method, projector_norm=False).check(testing.task(), [300, 300], 2)
    replace(method, contrast=1.0).check(testing.task(), [300, 300], 2)
