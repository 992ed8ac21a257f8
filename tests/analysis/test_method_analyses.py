"""Policies, masks, classifiers, label distributions and Grad-CAM on cases worked by hand."""

import json
from dataclasses import asdict

import numpy as np
import pytest
import torch
from torch import nn

from perfed.analysis.classifiers import alone_and_combined
from perfed.analysis.distribution import distribution, label_counts
from perfed.analysis.gradcam import gradcam, last_convolution
from perfed.analysis.masks import (
    angle,
    angles,
    collaborators,
    collaborators_per_round,
    label_similarity,
    likeness,
    overlap,
    sensitivity,
)
from perfed.analysis.policies import QUANTILES, course, pir, policy
from perfed.errors import InputError


def test_pir_of_a_symmetric_policy_is_a_half():
    logits = torch.randn(20, 2, 8, generator=torch.Generator().manual_seed(0))
    s = logits.softmax(1)[:, 0]
    both_ways = torch.cat([s, 1 - s])
    assert pir(both_ways) == pytest.approx(0.5)
    assert pir(torch.full((3, 4), 0.5)) == 0.5


def test_pir_and_distribution_by_hand():
    s = torch.tensor([[0.0, 0.5], [0.5, 1.0], [0.75, 0.25]])
    result = policy(s, bins=4)
    assert result.pir == 0.5
    assert dict(zip(QUANTILES, result.quantiles, strict=True))[0.5] == 0.5
    assert (result.quantiles[0], result.quantiles[-1]) == (0, 1)
    assert (result.samples[0], result.samples[3], result.samples[-1]) == (0.25, 0.5, 0.75)
    assert result.histogram == pytest.approx((1 / 6, 1 / 6, 2 / 6, 2 / 6))
    assert result.quantiles == pytest.approx(np.quantile(s.numpy(), QUANTILES).tolist())


def test_the_course_of_pir_is_sorted_by_round_and_averaged_over_clients():
    recorded = {10: [torch.full((2, 3), 0.6), torch.full((2, 3), 0.8)], 0: [torch.full((2, 3), 0.5)] * 2}
    result = course(recorded)
    assert result.rounds == (0, 10)
    assert result.mean == pytest.approx((0.5, 0.7))
    assert result.pir[1] == pytest.approx((0.6, 0.8))


def test_what_is_no_policy_is_refused():
    with pytest.raises(InputError, match=r"lie in \[0, 1\]"):
        pir(torch.tensor([[0.5, 1.5]]))
    with pytest.raises(InputError, match="samples × features"):
        pir(torch.zeros(4))


def test_sensitivity_is_the_change_times_the_new_value():
    before = {"w": torch.tensor([1.0, 2, -3]), "~mean": torch.zeros(1)}
    after = {"w": torch.tensor([1.5, 2, -1]), "~mean": torch.ones(1)}
    assert {name: s.tolist() for name, s in sensitivity(before, after).items()} == {"w": [0.75, 0, 2]}


def mask(*ones, size=20):
    return {"w": torch.tensor([position in ones for position in range(size)])}


def test_overlap_is_the_share_both_hold_critical():
    first, second = mask(*range(10)), mask(*range(4, 14))  # 10 of 20 critical, 6 shared
    shared = overlap([first, second, mask(*range(10, 20)), mask()])
    assert shared[0].tolist() == pytest.approx([1, 0.6, 0, 0.5])  # an empty mask is at distance 10: 1 − 10/20
    assert shared[3].tolist() == [0, 0, 0, 0]


def test_label_similarity_is_the_share_of_labels_in_common():
    similar = label_similarity([[10, 0, 0], [5, 5, 0], [0, 0, 7]])
    assert similar.tolist() == [[1, 0.5, 0], [0.5, 1, 0], [0, 0, 1]]


def test_likeness_correlates_masks_with_labels():
    masks = [mask(0, 1, size=6), mask(0, 1, size=6), mask(4, 5, size=6)]
    result = likeness(masks, [[10, 0], [20, 0], [0, 5]])
    assert result.overlap == result.similarity == ((1, 1, 0), (1, 1, 0), (0, 0, 1))
    assert result.correlation == pytest.approx(1)
    assert likeness(masks, [[1, 1]] * 3).correlation is None
    json.dumps(asdict(result), allow_nan=False)


def test_collaborators_narrow_to_the_closest_pair_and_then_to_nobody():
    shared = torch.tensor([[1.0, 0.8, 0.5], [0.8, 1, 0.2], [0.5, 0.2, 1]])  # mean of the pairs 0.5, largest 0.8
    assert collaborators(shared, 1, 1000) == ((1,), (0,), ())
    shared[0, 2] = shared[2, 0] = 0.6  # mean 1.6 / 3
    assert collaborators(shared, 1, 10) == ((1, 2), (0,), (0,))  # threshold 0.56
    assert collaborators(shared, 5, 10) == ((1,), (0,), ())  # threshold 0.667
    assert collaborators(shared, 10, 10) == ((1,), (0,), ())
    assert collaborators(shared, 11, 10) == ((), (), ())
    assert collaborators_per_round({10: shared, 1: shared, 11: shared}, 10) == {
        1: (2, 1, 1),
        10: (1, 1, 0),
        11: (0, 0, 0),
    }


def test_angles_between_updates():
    right, up = (
        {"a": torch.tensor([2.0]), "b": torch.tensor([0.0])},
        {"a": torch.tensor([0.0]), "b": torch.tensor([0.5])},
    )
    left = {"a": torch.tensor([-1.0]), "b": torch.tensor([0.0]), "~mean": torch.tensor([9.0])}
    assert angle(right, right) == 0
    assert angle(right, up) == pytest.approx(90)
    assert angle(right, left) == pytest.approx(180)
    assert angles([right, up, left]).mean == pytest.approx((90 + 180 + 90) / 3)
    with pytest.raises(InputError, match="no direction"):
        angle(right, {"a": torch.zeros(1), "b": torch.zeros(1)})


def test_two_classifiers_can_be_better_together():
    labels = torch.tensor([0, 1, 1])
    personal = torch.tensor([[3.0, 0], [1, 0], [0, 1]])  # right, wrong, right
    shared = torch.tensor([[0.0, 1], [0, 2], [0, 1]])  # wrong, right, right
    result = alone_and_combined({"personal": personal, "global": shared}, labels)
    assert result.alone == pytest.approx({"personal": 2 / 3, "global": 2 / 3})
    assert result.combined == 1


def test_label_counts_and_what_they_say():
    labels = np.array([0, 0, 1, 2, 2, 2, 1, 0])
    counts = label_counts(labels, [np.array([0, 1, 2]), np.array([3, 4, 5, 6, 7])], 4)
    assert counts.tolist() == [[2, 1, 0, 0], [1, 1, 3, 0]]
    result = distribution(counts)
    assert (result.sizes, result.held) == ((3, 5), (2, 3))
    assert result.majority == pytest.approx((2 / 3, 3 / 5))
    pooled = np.array([3, 2, 3, 0]) / 8
    assert result.skew[0] == pytest.approx(np.abs(np.array([2, 1, 0, 0]) / 3 - pooled).sum() / 2)
    assert result.bubbles()[:3] == (
        (0, 0, pytest.approx(2 / 3)),
        (0, 1, pytest.approx(1 / 3)),
        (1, 0, pytest.approx(1 / 3)),
    )
    assert len(result.bubbles()) == 5
    json.dumps(asdict(result), allow_nan=False)


def test_a_client_without_samples_has_no_distribution():
    with pytest.raises(InputError, match="client 1 has no samples"):
        distribution([[1, 2], [0, 0]])


def copying(channels):
    layer = nn.Conv2d(channels, channels, 1, bias=False)
    layer.weight.data.copy_(torch.eye(channels)[:, :, None, None])
    return layer.requires_grad_(False)


def test_gradcam_by_hand_with_two_channels_of_unlike_slopes():
    layer = copying(2)
    images = torch.zeros(2, 2, 4, 4)
    images[0, 0, 0, 0], images[0, 1, 3, 3] = 2.0, 4.0
    images[1, 1] = 1.0

    def score(x):
        maps = nn.functional.relu(layer(x), inplace=True)
        return 3 * maps[:, 0].sum((1, 2)) - maps[:, 1].sum((1, 2))

    raised = gradcam(score, layer, images)
    # Slopes 3 and −1 at the pixels that pass the ReLU; image 1 only has what lowers the score.
    only = torch.zeros(4, 4)
    only[0, 0] = 1
    assert torch.equal(raised[0], only)
    assert torch.equal(raised[1], torch.zeros(4, 4))


def test_gradcam_enlarges_to_the_image_and_peaks_at_one():
    network = nn.Sequential(nn.Conv2d(1, 3, 3, stride=2), nn.ReLU(), nn.Conv2d(3, 4, 3), nn.Flatten(), nn.LazyLinear(5))
    images = torch.rand(3, 1, 12, 12, generator=torch.Generator().manual_seed(0))
    network(images)
    layer = last_convolution(network)
    assert layer is network[2]
    raised = gradcam(lambda x: network(x).logsumexp(1), layer, images)
    assert raised.shape == (3, 12, 12)
    assert not layer._forward_hooks
    assert all(float(one.max()) in (0.0, 1.0) and float(one.min()) >= 0 for one in raised)


def test_gradcam_says_what_it_cannot_use():
    layer = copying(1)
    images = torch.ones(2, 1, 4, 4)
    with pytest.raises(InputError, match="never ran the layer"):
        gradcam(lambda x: x.sum((1, 2, 3)), layer, images)
    with pytest.raises(InputError, match="one number per image"):
        gradcam(lambda x: layer(x).sum(), layer, images)
    with pytest.raises(InputError, match="Linear has none"):
        last_convolution(nn.Linear(2, 2))
