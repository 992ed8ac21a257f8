"""FedPHP: the received model learns from the inherited one, which then takes a share of it."""

from dataclasses import replace

import byhand
import numpy as np
import pytest
import torch
from nudge import Arrays, cross_entropy, stepped

from perfed import testing
from perfed.errors import MethodError
from perfed.local import Batch, Budget
from perfed.local.losses import mmd_scaled
from perfed.methods.fedavg import FedAvg
from perfed.methods.fedphp import FedPHP, Mine

METHOD = FedPHP(lesson=0.4, rounds=4, budget=byhand.BUDGET)


def squares(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return ((a[:, None] - b[None]) ** 2).sum(-1)


def discrepancy(a: np.ndarray, b: np.ndarray, spread: float) -> float:
    """The mean over all pairs of five kernels, exp(−d²/h) with h = spread/4 … 4·spread."""
    kernel = lambda u, v: sum(np.exp(-squares(u, v) / (spread * 2.0**i)) for i in range(-2, 3))  # noqa: E731
    return float((kernel(a, a) + kernel(b, b) - 2 * kernel(a, b)).mean())


def spread(a: np.ndarray, b: np.ndarray) -> float:
    both = np.concatenate([a, b])
    return float(squares(both, both).sum()) / (len(both) * (len(both) - 1))


def taught(start: Arrays, teacher: Arrays, client: int) -> Arrays:
    """One step on 0.6 · cross-entropy + 0.4 · discrepancy to the teacher's features; the kernels' width is held fixed."""
    x, y = byhand.X[client], byhand.Y[client]
    past = byhand.features(teacher, x)
    width = spread(byhand.features(start, x), past) + 1e-8

    def loss(p: Arrays) -> float:
        return 0.6 * cross_entropy(byhand.logits(p, x), y) + 0.4 * discrepancy(byhand.features(p, x), past, width)

    return stepped(loss, start, byhand.LR)


def test_three_rounds_by_hand() -> None:
    """μ is 0, 0.9/4 and 0.9·2/4 in a client's first three rounds; the teacher has no gradient."""
    play = byhand.Play(METHOD)
    w, past = byhand.START, [byhand.START, byhand.START]
    for number in range(3):
        ends = [taught(w, past[i], i) for i in (0, 1)]
        keep = 0.9 * number / 4
        past = [{k: keep * past[i][k] + (1 - keep) * ends[i][k] for k in w} for i in (0, 1)]
        w = byhand.mean(*ends)
        play.round()
        for i in (0, 1):
            byhand.close(play.ups[i], ends[i], atol=2e-5)
            byhand.close(play.mine(i).heirloom, past[i], atol=2e-5)
            assert float(play.mine(i).visits) == number + 1
        byhand.close(play.server, w, atol=2e-5)
    np.testing.assert_allclose(play.logits(0, byhand.X[0]), byhand.logits(past[0], byhand.X[0]), atol=1e-4)


def test_the_variant_of_2022_starts_from_a_blend_and_is_taught_by_the_received_model() -> None:
    play = byhand.Play(replace(METHOD, variant="pfllib2022"))
    w, last = byhand.START, [byhand.START, byhand.START]
    for number in range(3):
        keep = 0.9 * number / 4
        last = [taught({k: keep * last[i][k] + (1 - keep) * w[k] for k in w}, w, i) for i in (0, 1)]
        w = byhand.mean(*last)
        play.round()
        for i in (0, 1):
            byhand.close(play.ups[i], last[i], atol=2e-5)
            byhand.close(play.mine(i).heirloom, last[i], atol=2e-5)
    keep = 0.9 * 3 / 4  # what is served is where the next round would start
    served = {k: keep * last[1][k] + (1 - keep) * w[k] for k in w}
    np.testing.assert_allclose(play.logits(1, byhand.X[1]), byhand.logits(served, byhand.X[1]), atol=1e-4)


def test_distilling_follows_the_teachers_soft_labels_at_temperature_four() -> None:
    play = byhand.Play(replace(METHOD, transfer="distil")).round()
    past = {k: v.double().numpy() for k, v in play.mine(0).heirloom.items()}
    start = {k: v.double().numpy() for k, v in play.server.items()}
    x, y = byhand.X[0], byhand.Y[0]
    soft = byhand.softmax(byhand.logits(past, x) / 4)
    error = byhand.softmax(byhand.logits(start, x)) - 0.6 * np.eye(2)[y] - 0.4 * soft
    play.round()
    byhand.close(play.ups[0], byhand.step(start, byhand.chain(start, x, byhand.features(start, x), error / 3)), atol=1e-5)


def test_a_client_that_came_more_often_than_expected_keeps_no_more_than_mu() -> None:
    """Ten visits where four were expected: without the cap the past would weigh 2.25 and the present −1.25."""
    old, new = {"w": torch.zeros(1)}, {"w": torch.ones(1)}
    assert abs(float(METHOD._inherit(new, Mine(old, torch.tensor(10.0)))["w"]) - 0.1) < 1e-6
    rare = replace(METHOD, rounds=40, participation=0.1)  # expected four times as well
    assert abs(float(rare._inherit(new, Mine(old, torch.tensor(2.0)))["w"]) - (1 - 0.45)) < 1e-6


def test_the_scaled_discrepancy_is_that_of_the_definition_and_ignores_padding() -> None:
    a, b = (torch.linspace(i, i + 2, 8).reshape(4, 2) ** 2 for i in (0, 1))
    plain, real = Batch(a, torch.zeros(4), None, torch.zeros(())), torch.tensor([1.0, 1.0, 1.0, 0.0])
    whole = discrepancy(a.double().numpy(), b.double().numpy(), spread(a.double().numpy(), b.double().numpy()))
    assert abs(float(mmd_scaled(a, b, plain)) - whole) < 1e-5 and float(mmd_scaled(a, a, plain)) == 0
    padded = mmd_scaled(a, b, plain._replace(mask=real))
    assert abs(float(padded) - float(mmd_scaled(a[:3], b[:3], plain))) < 1e-5


def test_batchnorms_statistics_are_inherited_too_and_their_count_stays_whole() -> None:
    played = testing.play(replace(METHOD, budget=Budget(lr=0.1, batch_size=8)), testing.federation(), norm=True)
    heirloom, kept = played.store[0].mine.heirloom, played.store[0].kept
    assert heirloom["~body.1.num_batches_tracked"].dtype is torch.int64
    assert not torch.equal(heirloom["~body.1.running_mean"], kept["~body.1.running_mean"])


@pytest.mark.parametrize("norm", [False, True])
def test_without_a_lesson_the_common_model_is_fedavgs_to_the_last_bit(norm: bool) -> None:
    budget = Budget(lr=0.1, batch_size=8)
    reference = FedAvg(norm="local_stats", budget=budget)
    mute = byhand.forced(FedPHP(budget=budget), lesson=0.0)
    testing.check_reduces(mute, reference, lambda p: p.server, lambda p: p.server, norm=norm)


def test_impossible_settings_are_refused() -> None:
    for wrong in ({"lesson": 0.0}, {"lesson": 1.0}, {"keep": 0.0}, {"keep": 1.0}, {"rounds": 0}, {"participation": 0.0}):
        with pytest.raises(MethodError, match="FedPHP needs"):
            FedPHP(**wrong)  # type: ignore[arg-type]
