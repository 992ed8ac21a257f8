"""CKA, class separation and t-SNE where their values are known."""

import math

import numpy as np
import pytest
import torch

from perfed.analysis.geometry import cka, client_cka, embed, remarks, separation
from perfed.errors import InputError


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("shape", [(50, 7), (7, 50)])
def test_cka_of_a_matrix_with_itself_is_one(shape):
    x = drawn(*shape)
    assert cka(x, x) == pytest.approx(1, abs=1e-12)


def test_cka_ignores_rotation_scale_and_shift():
    x, y = drawn(40, 6), drawn(40, 6, seed=1) + drawn(40, 6)
    rotation = torch.linalg.qr(drawn(6, 6, seed=2)).Q
    assert cka(3 * x @ rotation + 5, y) == pytest.approx(cka(x, y), abs=1e-12)
    assert cka(y, x) == pytest.approx(cka(x, y), abs=1e-12)


def test_cka_does_see_a_stretch_of_one_direction():
    x = drawn(40, 6)
    stretched = x * torch.tensor([10.0, 1, 1, 1, 1, 1])
    assert cka(x, stretched) < 0.9


def test_cka_of_orthogonal_columns_is_zero_and_of_a_shared_half_is_known():
    one, two = torch.tensor([1.0, -1, 1, -1]), torch.tensor([1.0, 1, -1, -1])
    assert cka(one[:, None], two[:, None]) == 0
    # ‖Y'X‖² = 16, ‖X'X‖ = 4, ‖Y'Y‖ = 4√2
    assert cka(one[:, None], torch.stack([one, two], 1)) == pytest.approx(1 / math.sqrt(2))


def test_both_ways_of_computing_cka_agree():
    x, y = drawn(10, 4), drawn(10, 9, seed=3)
    wide = torch.cat([y, torch.zeros(10, 5, dtype=torch.float64)], 1)  # 14 features over 10 samples: the other branch
    assert cka(x, wide) == pytest.approx(cka(x, y), abs=1e-12)


def test_cka_refuses_what_it_is_not_defined_for():
    with pytest.raises(InputError, match="same for every input"):
        cka(torch.full((5, 3), 0.1), drawn(5, 3))
    with pytest.raises(InputError, match="same inputs"):
        cka(drawn(5, 3), drawn(6, 3))


def test_client_wise_cka_averages_ordered_pairs_of_different_clients():
    one, two = torch.tensor([1.0, -1, 1, -1])[:, None], torch.tensor([1.0, 1, -1, -1])[:, None]
    # On client 0's inputs both models agree, on client 1's inputs they have nothing in common.
    seen = {(0, 0): one, (1, 0): one, (1, 1): one, (0, 1): two}
    result = client_cka(lambda model, owner: seen[model, owner], 2)
    assert result.matrix == ((1, 1), (0, 1))
    assert result.mean == 0.5


def test_a_network_that_all_clients_share_is_named_for_what_it_is():
    """Its CKA is 1 whatever the clients are like; a number without that remark misled people."""
    views = {owner: drawn(20, 3) + owner for owner in range(3)}
    shared = client_cka(lambda model, owner: views[owner], 3)
    own = client_cka(lambda model, owner: views[owner] * torch.tensor([1.0, 1, 1 + model]), 3)
    (said,) = remarks({"features": shared, "selected": own})
    assert said.startswith("features: all clients share this part of the network, so CKA is 1 by construction")


def test_separation_of_collapsed_classes_is_one():
    centres = torch.tensor([[1.0, 0, 0], [0, 2, 0], [0, 0, 3]])
    labels = torch.tensor([0, 1, 2]).repeat_interleave(torch.tensor([5, 1, 9]))
    assert separation(centres[labels], labels) == pytest.approx(1, abs=1e-12)


def test_separation_by_hand_and_by_the_definition_over_pairs():
    features = torch.tensor([[1.0, 0], [0, 1], [-1, 0], [-1, 0]])
    labels = torch.tensor([0, 0, 1, 1])
    # Within class 0 distances are 0, 1, 1, 0 (mean 1/2), within class 1 all 0; between the classes 2, 2, 1, 1.
    within, total = (0.5 + 0) / 2, (0.5 + 0 + 1.5 + 1.5) / 4
    assert separation(features, labels) == pytest.approx(1 - within / total)


def test_separation_weighs_classes_equally_and_ignores_length():
    features, labels = drawn(30, 4), torch.arange(30) % 3
    twice = torch.cat([features, features[labels == 0]]), torch.cat([labels, labels[labels == 0]])
    assert separation(*twice) == pytest.approx(separation(features, labels))
    lengths = torch.linspace(0.1, 9, 30, dtype=torch.float64)[:, None]
    assert separation(features * lengths, labels) == pytest.approx(separation(features, labels))


def test_one_class_or_one_direction_separates_nothing():
    assert separation(drawn(9, 3), torch.zeros(9, dtype=torch.long)) == pytest.approx(0, abs=1e-12)
    assert separation(torch.ones(4, 3), torch.tensor([0, 0, 1, 1])) == 0


def test_tsne_repeats_itself_and_keeps_distant_groups_apart():
    centres = torch.zeros(3, 10, dtype=torch.float64)
    centres[1, 0], centres[2, 1] = 100, 100
    labels = torch.arange(60) % 3
    features = centres[labels] + drawn(60, 10)
    first, again = embed(features, seed=3, perplexity=8), embed(features, seed=3, perplexity=8)
    assert first.shape == (60, 2)
    assert np.array_equal(first, again)
    distance = np.linalg.norm(first[:, None] - first[None], axis=2) + np.diag(np.full(60, np.inf))
    assert np.array_equal(labels.numpy()[distance.argmin(1)], labels.numpy())
    with pytest.raises(InputError, match="perplexity"):
        embed(features, perplexity=60)
