"""Gradient inversion recovers what it should, and says so when it cannot."""

import json
import math
import os
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn

from perfed.analysis.attack import NEEDED, Effort, control, judge, leaked, one_step, recover, smooth_network
from perfed.analysis.inversion import invert, invert_by_direction, label_gradient
from perfed.analysis.psnr import CEILING, batch_psnr, measure, pfllib_psnr, psnr
from perfed.errors import InputError
from perfed.models import build

ZERO = torch.zeros(1, 2, 2)


@pytest.fixture(scope="module")
def digits():
    data = load_digits()
    return torch.tensor(data.images[:4] / 16, dtype=torch.float32)[:, None], torch.tensor(data.target[:4])


@pytest.fixture(scope="module")
def checked(digits):
    network, params = smooth_network((1, 8, 8), 10)
    return control(network, params, digits[0][0], int(digits[1][0]), starts=1)


def test_psnr_by_hand():
    assert psnr(ZERO, ZERO + 0.1) == pytest.approx(20)  # mse 0.01
    assert psnr(ZERO, ZERO + 0.1, data_range=2) == pytest.approx(20 + 20 * math.log10(2))
    assert psnr(255 * ZERO, ZERO + 25.5, data_range=255) == pytest.approx(20)
    assert psnr(ZERO, ZERO) == CEILING


def test_the_papers_counting_adds_ten_log_three():
    assert pfllib_psnr(ZERO, ZERO + 0.1) == pytest.approx(20 + 10 * math.log10(3))
    assert measure(ZERO[None], ZERO[None] + 0.1, "pfllib") == pytest.approx(24.77, abs=0.005)
    with pytest.raises(InputError, match="did you mean 'pfllib'"):
        measure(ZERO, ZERO, "pflib")


def test_a_batch_is_compared_whatever_order_it_was_recovered_in():
    batch = torch.stack([ZERO, ZERO + 0.5, ZERO + 1])
    swapped = batch[[2, 0, 1]] + 0.01
    assert batch_psnr(batch, swapped) == pytest.approx(40, abs=1e-3)
    assert pfllib_psnr(batch, swapped) < 10


def test_psnr_refuses_other_shapes_and_ranges():
    with pytest.raises(InputError, match="one shape"):
        psnr(ZERO, ZERO[0])
    with pytest.raises(InputError, match=r"2 for \[-1, 1\]"):
        psnr(ZERO, ZERO, data_range=0)


def test_after_one_step_the_update_over_the_rate_is_the_gradient():
    # One weight vector per class, no bias: the gradient of the cross-entropy is (softmax − one-hot) xᵀ.
    params = {"w": torch.zeros(2, 2), "~mean": torch.zeros(1)}
    images, labels = torch.tensor([[3.0, 4.0]]), torch.tensor([1])

    def network(weights, x):
        return x @ weights["w"].T

    uploaded = one_step(network, params, images, labels, 0.25)
    update = leaked(params, uploaded, 0.25)
    assert list(update) == ["w"]
    assert update["w"].tolist() == [[1.5, 2], [-1.5, -2]]
    with pytest.raises(InputError, match="'v' was uploaded but never received"):
        leaked(params, {"v": torch.zeros(1)})


@pytest.mark.parametrize("search", [invert, invert_by_direction])
def test_an_update_that_shows_the_image_is_read_off(search):
    truth = torch.tensor([[[[0.2, 0.9], [0.5, 0.4]]]], dtype=torch.float64)
    found = search(
        lambda images: [3 * images, images.sum().reshape(1) - 1.0],
        [3 * truth, truth.sum().reshape(1) - 1],
        (1, 1, 2, 2),
    )
    assert psnr(truth, found.images) > 30
    assert found.images.dtype == torch.float32


def test_bounds_are_the_range_of_the_pixels_found():
    truth = torch.tensor([[[[-0.8, 0.9]]]], dtype=torch.float64)
    found = invert(lambda images: [images], [truth], truth.shape, bounds=(-1.0, 1.0))
    assert found.images.flatten().tolist() == pytest.approx([-0.8, 0.9], abs=1e-4)


def test_the_same_seed_finds_the_same_image():
    truth = torch.tensor([[[[0.2, 0.9]]]], dtype=torch.float64)
    first, again, other = (
        invert(lambda images: [images.square()], [truth], truth.shape, steps=2, seed=seed).images for seed in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_positive_control_one_digit_one_step_undefended_is_recovered(checked):
    assert checked.passed
    assert checked.psnr >= NEEDED == 40


def test_signs_recover_a_digit_behind_max_pooling_where_the_slopes_themselves_do_not(digits):
    made = build("cnn", shape=(1, 8, 8), classes=10, seed=0)
    network = lambda weights, images: torch.func.functional_call(made, weights, (images,))  # noqa: E731
    params = {name: leaf.detach() for name, leaf in made.named_parameters()}
    image, label = digits[0][2:3], digits[1][2:3]
    update = leaked(params, one_step(network, params, image, label, 0.05), 0.05)
    found = {
        attack: psnr(image, recover(network, params, update, image.shape, 10, Effort(attack, steps=500), label).images)
        for attack in ("signs", "direction")
    }
    assert found["signs"] >= NEEDED > found["direction"]


def test_two_digits_of_a_batch_are_recovered_together(digits):
    network, params = smooth_network((1, 8, 8), 10)
    images, labels = digits[0][:2], digits[1][:2]
    target = list(leaked(params, one_step(network, params, images, labels, 0.05), 0.05).values())
    found = invert(label_gradient(network, params, labels), target, images.shape, steps=400)
    assert batch_psnr(images, found.images) > 30


def test_the_papers_attack_knows_neither_label_nor_loss_and_still_sees_the_digit(digits):
    network, params = smooth_network((1, 8, 8), 10)
    image, label = digits[0][:1], digits[1][:1]
    update = leaked(params, one_step(network, params, image, label, 0.05), 0.05)
    found = recover(network, params, update, image.shape, 10)
    assert psnr(image, found.images) > 25


def test_the_extractor_alone_can_be_attacked_through_its_features(digits):
    network, params = smooth_network((1, 8, 8), 10)
    update = leaked(params, one_step(network, params, digits[0][:1], digits[1][:1], 0.05), 0.05)
    body = {name: leaf for name, leaf in params.items() if not name.startswith("head")}
    features = params["head.weight"].shape[1]

    def extract(weights, images):
        plain = {"head.weight": torch.eye(features, dtype=images.dtype), "head.bias": images.new_zeros(features)}
        return network(weights | plain, images)

    found = recover(extract, body, update, (1, 1, 8, 8), features, Effort(steps=50))
    unrelated = recover(extract, body, update, (1, 1, 8, 8), features, Effort(steps=1))
    assert found.mismatch < 0.1 * unrelated.mismatch
    assert psnr(digits[0][0], found.images[0]) > 10


def test_a_failed_control_blames_the_attack_and_not_the_method(digits):
    network, params = smooth_network((1, 8, 8), 10)
    weak = control(network, params, digits[0][0], int(digits[1][0]), Effort(steps=1), starts=1)
    assert not weak.passed
    verdict = judge([digits[0][:1]], [torch.zeros(1, 1, 8, 8)], weak, scope="model")
    assert verdict.conclusion.startswith("the attack, not the method, is weak")
    assert "40 needed" in verdict.conclusion


def test_a_passed_control_gives_the_figure_its_meaning(checked):
    black, grey = torch.zeros(2, 1, 8, 8), torch.full((2, 1, 8, 8), 0.5)
    verdict = judge([black, black], [black + 0.1, grey], checked, scope="body")
    assert verdict.psnr == pytest.approx((20, 20 * math.log10(2)))
    assert verdict.mean == pytest.approx(10 + 10 * math.log10(2))
    assert verdict.conclusion.endswith("this upload at 13.0 dB")
    json.dumps(asdict(verdict), allow_nan=False)


def test_what_cannot_be_inverted_is_refused(digits):
    with pytest.raises(InputError, match="nothing to invert"):
        invert(lambda images: [images], [torch.zeros(1, 1, 2, 2)], (1, 1, 2, 2))
    with pytest.raises(InputError, match="smallest and the largest"):
        invert(lambda images: [images], [torch.ones(1, 1, 2, 2)], (1, 1, 2, 2), bounds=(1, 0))
    network, params = smooth_network((1, 8, 8), 10)
    with pytest.raises(InputError, match="did you mean 'dlg'"):
        control(network, params, digits[0][0], 0, Effort("dlgg"))
    with pytest.raises(InputError, match="starts must be at least 1"):
        control(network, params, digits[0][0], 0, starts=0)


@pytest.fixture(scope="module")
def mnist():
    path = Path(os.environ.get("PERFED_DATA", "")) / "mnist" / "mnist.npz"
    if not os.environ.get("PERFED_DATA") or not path.exists():
        pytest.skip("MNIST is not here; set PERFED_DATA")
    with np.load(path, allow_pickle=False) as data:
        return torch.tensor(data["x_train"][1:2] / 255, dtype=torch.float32), int(data["y_train"][1])


def test_positive_control_on_mnist(mnist):
    network, params = smooth_network((1, 28, 28), 10)
    assert control(network, params, *mnist, starts=1).passed


def test_the_search_by_signs_copes_with_rectifiers_and_pooling(mnist):
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(1, 32, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, 10),
    )  # fmt: skip

    def run(weights, images):
        return torch.func.functional_call(network, weights, (images,))

    params = dict(network.named_parameters())
    assert control(run, params, *mnist, Effort("signs", 400), starts=1).passed
