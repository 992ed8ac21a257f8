"""Fisher scores, sparsity, selection and probing on features made by hand."""

import json
import math
from dataclasses import asdict

import pytest
import torch

from perfed.analysis.features import (
    contrast,
    fisher,
    important,
    overlapped_ratio,
    overlaps,
    probe,
    redundancy,
    selection_ratio,
    sparsity,
)
from perfed.errors import InputError


def test_fisher_of_a_constant_feature_is_zero_even_when_rounding_is_not():
    labels = torch.tensor([0, 1, 1, 0, 1, 0, 0])
    assert fisher(torch.full((7, 2), 0.1), labels).tolist() == [0, 0]
    assert fisher(torch.zeros(7, 1), labels).tolist() == [0]


def test_fisher_by_hand():
    # Class 0: 0, 2 (mean 1, variance 1). Class 1: 3, 5, 7 (mean 5, variance 8/3). Overall mean 17/5.
    features = torch.tensor([[0.0], [2], [3], [5], [7]])
    labels = torch.tensor([0, 0, 1, 1, 1])
    between = 2 * (1 - 3.4) ** 2 + 3 * (5 - 3.4) ** 2
    assert fisher(features, labels).item() == pytest.approx(between / (2 * 1 + 3 * 8 / 3))


def test_fisher_is_infinite_for_a_feature_that_is_the_label_and_zero_for_one_unrelated_to_it():
    labels = torch.tensor([0, 0, 1, 1])
    features = torch.tensor([[0.0, 1], [0, -1], [1, 1], [1, -1]])
    assert fisher(features, labels).tolist() == [math.inf, 0]


def test_fisher_ignores_scale_and_shift():
    features = torch.randn(50, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    labels = torch.arange(50) % 4
    assert torch.allclose(fisher(7 * features - 3, labels), fisher(features, labels))


def test_contrast_scores_the_selected_and_the_rejected_part():
    labels = torch.tensor([0, 0, 1, 1])
    features = torch.tensor([[0.0, 1], [1, -1], [3, 1], [4, -1]])  # the first tells the class, the second nothing
    masks = torch.tensor([[1.0, 0]]).expand(4, 2)
    result = contrast(features, masks, labels)
    # First feature: between 4 · 1.5², within 4 · 0.25, so 9; a feature switched off is constant and scores 0.
    assert (result.selected, result.rejected, result.infinite) == (pytest.approx(4.5), 0, 0)
    perfect = contrast(torch.tensor([[0.0], [0], [1], [1]]), torch.ones(4, 1), labels)
    assert (perfect.selected, perfect.rejected, perfect.infinite) == (0, 0, 1)


def test_probing_the_best_features_beats_probing_them_all_when_the_rest_is_noise():
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(80) % 2
    noise = 20 * torch.randn(160, 9, generator=generator)
    signal = torch.cat([labels, labels])[:, None] + 0.1 * torch.randn(160, 1, generator=generator)
    features = torch.cat([noise[:, :4], signal, noise[:, 4:]], 1)
    result = probe((features[:80], labels), (features[80:], labels), ratios=(0.1, 1.0))
    assert result.kept == (1, 10)
    assert result.accuracies[0] == 1
    assert result.accuracies[1] < 0.75
    json.dumps(asdict(result), allow_nan=False)


def test_probing_refuses_fewer_samples_than_neighbours():
    few = torch.zeros(9, 2), torch.zeros(9, dtype=torch.long)
    with pytest.raises(InputError, match="at least 10 training samples, got 9"):
        probe(few, few)


def test_sparsity_counts_what_is_at_most_the_threshold_after_normalising():
    # Row 1 over its length 5 is 0.6, 0.8, 0, 0; row 2 is 1, 9e-6, 1.1e-5, 0.
    features = torch.tensor([[3.0, 4, 0, 0], [100, 9e-4, 1.1e-3, 0]])
    assert sparsity(features) == 4 / 8
    assert sparsity(-torch.ones(1, 4)) == 1  # the comparison is signed, as printed
    assert sparsity(torch.zeros(2, 3)) == 1


def test_redundancy_is_the_change_of_sparsity():
    result = redundancy(torch.tensor([[1.0, 0, 0, 0]]), torch.tensor([[1.0, 1, 1, 0]]))
    assert (result.before, result.after, result.change) == (0.75, 0.25, -0.5)


def test_selection_ratio_is_the_mean_of_the_masks():
    assert selection_ratio(torch.tensor([[1, 0, 0, 0], [1, 1, 1, 0]])) == 0.5


def test_important_features_are_the_most_frequent_half_and_ties_go_to_the_first():
    masks = torch.tensor([[1, 0, 1, 0], [1, 0, 1, 1], [0, 0, 1, 1]])  # frequencies 2, 0, 3, 2
    assert important(masks) == {0, 2}
    assert important(masks, 0.75) == {0, 2, 3}
    assert important(torch.ones(2, 6)) == {0, 1, 2}


def test_overlapped_ratio_is_intersection_over_union():
    assert overlapped_ratio(frozenset({1, 2, 3}), frozenset({2, 3, 4})) == 0.5
    first, second = torch.tensor([[1, 1, 0, 0]]), torch.tensor([[0, 1, 1, 0]])
    result = overlaps([first, second, first])
    third = 1 / 3
    assert result.matrix == ((1, third, 1), (third, 1, third), (1, third, 1))
    assert result.mean == pytest.approx((third + 1 + third) / 3)
