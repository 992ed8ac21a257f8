"""Losses: each by hand on a few numbers, and padding never counts."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from perfed.local import Batch, losses


def batch(y: list[int], mask: list[float] | None = None) -> Batch:
    return Batch(torch.zeros(len(y), 1), torch.tensor(y), None if mask is None else torch.tensor(mask), torch.tensor(0))


def cloud(*rows: tuple[float, ...]) -> Tensor:
    return torch.tensor(rows)


def kernel(square: float, widths: tuple[float, ...]) -> float:
    return sum(math.exp(-square / (2 * w)) for w in widths)


def test_proximal_is_half_the_squared_distance_without_running_state() -> None:
    w = {"a": torch.tensor([1.0, 2.0]), "~mean": torch.tensor([9.0])}
    other = {"a": torch.tensor([0.0, 4.0]), "~mean": torch.tensor([0.0])}
    assert losses.proximal(w, other).item() == 2.5


def test_mmd_by_hand_over_all_ordered_pairs() -> None:
    a, b, widths = cloud((0.0, 0.0), (2.0, 0.0)), cloud((0.0, 1.0), (0.0, 3.0)), (1.0, 4.0)
    aa = (2 * kernel(0, widths) + 2 * kernel(4, widths)) / 4
    bb = (2 * kernel(0, widths) + 2 * kernel(4, widths)) / 4
    ab = (kernel(1, widths) + kernel(9, widths) + kernel(5, widths) + kernel(13, widths)) / 4
    assert losses.mmd(a, b, batch([0, 0]), widths).item() == pytest.approx(aa + bb - 2 * ab, abs=1e-6)
    assert losses.WIDTHS == (10, 15, 20, 50)


@pytest.mark.parametrize("loss", [losses.mmd, losses.mmd_scaled, losses.paired_discrepancy])
def test_a_cloud_does_not_differ_from_itself_and_differences_are_symmetric(loss: object) -> None:
    a, b, here = torch.randn(6, 3, generator=torch.Generator().manual_seed(0)), torch.arange(18.0).view(6, 3) / 9, batch([0] * 6)
    assert abs(loss(a, a, here)) < 1e-6  # type: ignore[operator]
    one, two = loss(a, b, here), loss(b, a, here)  # type: ignore[operator]
    assert one > 1e-3 and torch.allclose(one, two, atol=1e-6)


def test_scaled_kernels_follow_the_spread_of_the_points() -> None:
    """Two points a and b at squared distance 4: the mean over ordered pairs of different points is their spread."""
    a, b = cloud((0.0,)), cloud((2.0,))
    spread = 4.0
    widths = tuple(spread * 2.0**i / 2 for i in (-2, -1, 0, 1, 2))
    expected = 2 * kernel(0, widths) - 2 * kernel(4, widths)
    assert losses.mmd_scaled(a, b, batch([0])).item() == pytest.approx(expected, abs=1e-5)
    far = losses.mmd_scaled(100 * a, 100 * b, batch([0]))
    assert far.item() == pytest.approx(expected, abs=1e-5)  # units do not matter


def test_paired_discrepancy_by_hand() -> None:
    a, b = cloud((0.0, 0.0), (1.0, 1.0)), cloud((2.0, 0.0), (1.0, 1.0))
    assert losses.paired_discrepancy(a, b, batch([0, 0]), (2.0,)).item() == pytest.approx((2 - 2 * math.exp(-1)) / 2, abs=1e-6)


def test_balanced_softmax_adds_the_logarithm_of_counts() -> None:
    logits, counts = torch.tensor([[0.2, -0.4, 1.0]]), torch.tensor([1.0, 3.0, 6.0])
    weight = [1 * math.exp(0.2), 3 * math.exp(-0.4), 6 * math.exp(1.0)]
    assert losses.balanced(logits, counts, batch([1])).item() == pytest.approx(-math.log(weight[1] / sum(weight)), abs=1e-6)


def test_balanced_softmax_leaves_out_a_class_the_client_lacks() -> None:
    logits = torch.tensor([[0.2, -0.4, 50.0]], requires_grad=True)
    loss = losses.balanced(logits, torch.tensor([1.0, 3.0, 0.0]), batch([1]))
    weight = [1 * math.exp(0.2), 3 * math.exp(-0.4)]
    assert loss.item() == pytest.approx(-math.log(weight[1] / sum(weight)), abs=1e-6)
    (slope,) = torch.autograd.grad(loss, logits)
    assert torch.isfinite(slope).all() and slope[0, 2] == 0  # nothing pushes the absent class down


def test_with_equal_counts_the_balanced_softmax_is_the_cross_entropy() -> None:
    logits, here = torch.tensor([[0.2, -0.4], [1.0, 3.0]]), batch([1, 0])
    assert torch.allclose(losses.balanced(logits, torch.tensor([7.0, 7.0]), here), F.cross_entropy(logits, here.y))


def test_supervised_contrast_by_hand() -> None:
    """Three directions, labels 0 0 1: the third has no partner and counts as zero."""
    u, tau = cloud((2.0, 0.0), (0.0, 3.0), (-1.0, 0.0)), 0.5
    sim = {(0, 1): 0.0, (0, 2): -1.0 / tau, (1, 2): 0.0}
    first = -(sim[0, 1] - math.log(math.exp(sim[0, 1]) + math.exp(sim[0, 2])))
    second = -(sim[0, 1] - math.log(math.exp(sim[0, 1]) + math.exp(sim[1, 2])))
    found = losses.supervised_contrast(u, batch([0, 0, 1]), tau)
    assert found.item() == pytest.approx((first + second) / 3, abs=1e-5)


def test_supervised_contrast_without_any_partner_is_zero_and_so_is_its_slope() -> None:
    u = torch.randn(4, 3, generator=torch.Generator().manual_seed(1)).requires_grad_()
    loss = losses.supervised_contrast(u, batch([0, 1, 2, 3]), 0.1)
    (slope,) = torch.autograd.grad(loss, u)
    assert loss == 0 and (slope == 0).all()


def test_divergence_by_hand() -> None:
    p, q = torch.tensor([[0.25, 0.75]]), torch.tensor([[0.5, 0.5]])
    expected = 0.25 * math.log(0.5) + 0.75 * math.log(1.5)
    assert losses.divergence(p.log(), q.log(), batch([0])).item() == pytest.approx(expected, abs=1e-6)
    assert losses.divergence(p.log(), p.log() + 3, batch([0])).item() == pytest.approx(0, abs=1e-6)


def test_negative_entropy_lies_between_minus_log_classes_and_zero() -> None:
    assert losses.negative_entropy(torch.zeros(2, 4), batch([0, 0])).item() == pytest.approx(-math.log(4), abs=1e-6)
    assert losses.negative_entropy(torch.tensor([[100.0, 0.0]]), batch([0])).item() == pytest.approx(0, abs=1e-6)


def test_pooled_logits_are_the_mean_probability() -> None:
    a, b = torch.tensor([[1.0, 2.0]]), torch.tensor([[-3.0, 0.5]])
    assert torch.allclose(losses.pooled(a, b).exp(), (a.softmax(1) + b.softmax(1)) / 2)


@pytest.mark.parametrize("name", ["mmd", "mmd_scaled", "paired_discrepancy", "divergence"])
def test_padding_does_not_count_in_losses_of_two(name: str) -> None:
    g = torch.Generator().manual_seed(2)
    a, b = torch.randn(5, 3, generator=g), torch.randn(5, 3, generator=g)
    loss = getattr(losses, name)
    few = loss(a[:3], b[:3], batch([0, 1, 0]))
    assert torch.allclose(loss(a, b, batch([0, 1, 0, 1, 1], [1, 1, 1, 0, 0])), few, atol=1e-6)


def test_padding_does_not_count_in_losses_of_one() -> None:
    x, y, mask = torch.randn(5, 3, generator=torch.Generator().manual_seed(3)), [0, 1, 0, 1, 0], [1.0, 1.0, 1.0, 0.0, 0.0]
    counts = torch.tensor([2.0, 1.0, 5.0])
    for loss in (
        lambda x, b: losses.negative_entropy(x, b),
        lambda x, b: losses.balanced(x, counts, b),
        lambda x, b: losses.supervised_contrast(x, b, 0.3),
    ):
        assert torch.allclose(loss(x, batch(y, mask)), loss(x[:3], batch(y[:3])), atol=1e-6)
