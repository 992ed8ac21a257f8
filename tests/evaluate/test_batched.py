"""Many clients' metrics in one pass are those of one client at a time."""

import random

import pytest
import torch

from perfed.evaluate.batched import BATCHED
from perfed.evaluate.metrics import CATALOGUE, Metric, measure, measure_each, select

CLASSES = [metric for metric in CATALOGUE.values() if "classification" in metric.goals]


def alike(one, other):
    if isinstance(one, list):
        return len(one) == len(other) and all(map(alike, one, other))
    return one is other if one is None or other is None else abs(one - other) <= 1e-12


@pytest.mark.parametrize("case", range(120))
def test_the_figures_are_those_of_one_client_at_a_time(case):
    draw, random_ = torch.Generator().manual_seed(case), random.Random(case)
    clients, samples, classes = random_.randint(1, 6), random_.randint(1, 25), random_.randint(2, 7)
    scores = torch.randn(clients, samples, classes, generator=draw)
    scores = (2 * scores).round() if case % 3 == 0 else scores  # ties
    y = torch.randint(classes if case % 4 else 1, (clients, samples), generator=draw)  # or one class alone
    if case % 5 == 0:
        scores[0, 0, 0] = torch.nan
    sizes = [random_.randint(0, samples) for _ in range(clients)]  # also clients without samples
    for client, found in enumerate(measure_each(CLASSES, scores, y, sizes)):
        own = measure(CLASSES, scores[client, : sizes[client]], y[client, : sizes[client]])
        assert found.count == own.count and list(found.values) == list(own.values)
        for name in own.values:
            assert alike(found.values[name], own.values[name]), name


def test_a_metric_of_ones_own_is_asked_client_by_client_whatever_its_name():
    assert set(BATCHED) <= {metric.name for metric in CLASSES}
    mine = Metric("auc", lambda scores, y: float(len(y)), "mine")
    found = measure_each([*select(()), mine], torch.randn(2, 4, 3), torch.zeros(2, 4, dtype=torch.long), [3, 4])
    assert [score["auc"] for score in found] == [3.0, 4.0]
