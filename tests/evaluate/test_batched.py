"""Many clients' metrics in one pass are those of one client at a time."""

import random

import numpy as np
import pytest
import torch

from perfed.evaluate import metrics
from perfed.evaluate.batched import BATCHED
from perfed.evaluate.metrics import CATALOGUE, Metric, begin, finish, measure, measure_each, select
from perfed.evaluate.ranks import ranks

CLASSES = [metric for metric in CATALOGUE.values() if "classification" in metric.goals]


def alike(one, other):
    if isinstance(one, list):
        return len(one) == len(other) and all(map(alike, one, other))
    return one is other if one is None or other is None else abs(one - other) <= 1e-12


def drawn(case):
    """Clients of many sizes, some without samples, padded; ties, one class alone, and scores that are no numbers among them."""
    draw, random_ = torch.Generator().manual_seed(case), random.Random(case)
    clients, samples, classes = random_.randint(1, 6), random_.randint(1, 25), random_.choice([2, 2, 3, 5, 7, 10, 19, 140])
    scores = torch.randn(clients, samples, classes, generator=draw)
    scores = (2 * scores).round() if case % 3 == 0 else scores  # ties
    y = torch.randint(classes if case % 4 else 1, (clients, samples), generator=draw)  # or one class alone
    if case % 5 == 0:
        scores[0, 0, 0] = random_.choice([torch.nan, torch.inf, -torch.inf])
    return scores, y, [random_.randint(0, samples) for _ in range(clients)]


@pytest.mark.parametrize("case", range(120))
def test_the_figures_are_those_of_one_client_at_a_time(case):
    scores, y, sizes = drawn(case)
    for client, found in enumerate(measure_each(CLASSES, scores, y, sizes)):
        own = measure(CLASSES, scores[client, : sizes[client]], y[client, : sizes[client]])
        assert found.count == own.count and list(found.values) == list(own.values)
        for name in own.values:
            assert found.values[name] == own.values[name] if name in BATCHED else alike(found.values[name], own.values[name]), (
                name
            )


@pytest.mark.parametrize("together", [1, 1 << 16, 300])
@pytest.mark.parametrize("case", range(120))
def test_with_whom_a_client_is_measured_moves_no_bit(case, together, monkeypatch):
    monkeypatch.setattr(metrics, "TOGETHER", together)
    scores, y, sizes = drawn(case)
    each = [(scores[client, :size], y[client, :size]) for client, size in enumerate(sizes)]
    found = list(finish(CLASSES, (begin(CLASSES, *own) for own in each)))
    assert found == [measure(CLASSES, *own) for own in each]


@pytest.mark.parametrize("case", range(60))
def test_ranks_are_what_counting_pairs_gives(case):
    draw = np.random.default_rng(case)
    lanes, most = draw.integers(1, 5), draw.integers(1, 12)
    values = draw.integers(0, 4, (lanes, most)).astype(float) if case % 2 else draw.random((lanes, most))
    members = draw.random((lanes, most)) < 0.5
    found = sorted(zip(*(column.tolist() for column in ranks(values, members)), strict=True))
    expected = []
    for lane, place in zip(*members.nonzero(), strict=True):
        row, other, mine = values[lane], ~members[lane], values[lane, place]
        won = (row[other] < mine).sum() + (row[other] == mine).sum() / 2
        expected.append((lane, (row < mine).sum(), (row[members[lane]] < mine).sum(), won))
    assert found == sorted(expected)


@pytest.mark.parametrize("case", range(30))
def test_the_interval_is_that_of_delongs_pairs(case):
    draw = torch.Generator().manual_seed(case)
    scores, y = torch.randn(30, 2, generator=draw).double(), torch.randint(2, (30,), generator=draw)
    scores = scores.round() if case % 2 else scores
    margin = (scores[:, 1] - scores[:, 0]).numpy()
    ill, well = margin[y.numpy() == 1], margin[y.numpy() == 0]
    above = (ill[:, None] > well) + 0.5 * (ill[:, None] == well)
    area, spread = above.mean(), above.mean(1).var(ddof=1) / len(ill) + above.mean(0).var(ddof=1) / len(well)
    odds, wide = np.log(area / (1 - area)), 1.959963984540054 * np.sqrt(spread) / (area * (1 - area))
    expected = [1 / (1 + np.exp(-(odds + side * wide))) for side in (-1, 1)]
    assert measure(select(["auc_interval"]), scores, y).values["auc_interval"] == pytest.approx(expected, abs=1e-12)


def test_an_interval_needs_two_samples_of_each_class_and_never_leaves_0_and_1():
    scores = torch.tensor([[0.0, 1.0], [0.0, 2.0], [0.0, -1.0], [0.0, -2.0]])
    own = select(["auc_interval"])
    assert measure(own, scores, torch.tensor([1, 0, 0, 0])).values["auc_interval"] == [None, None]
    assert measure(own, torch.randn(4, 3), torch.tensor([1, 0, 0, 1])).values["auc_interval"] == [None, None]
    low, high = measure(own, scores, torch.tensor([1, 1, 0, 0])).values["auc_interval"]
    assert low == high == pytest.approx(1 - 0.5 / 4)


def test_a_metric_of_ones_own_is_asked_client_by_client_whatever_its_name():
    assert set(BATCHED) <= {metric.name for metric in CLASSES}
    mine = Metric("auc", lambda scores, y: float(len(y)), "mine")
    found = measure_each([*select(()), mine], torch.randn(2, 4, 3), torch.zeros(2, 4, dtype=torch.long), [3, 4])
    assert [score["auc"] for score in found] == [3.0, 4.0]
