"""Every method trains a network in double precision, in double precision."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from perfed import testing, trees
from perfed.local import Budget
from perfed.methods import CATALOGUE, find
from perfed.task import Task

VARIANTS: dict[str, dict[str, Any]] = {"fedcp": {"context": "none"}, "gpfl": {"personal_input": False}}
CASES = [(name, {}) for name in CATALOGUE] + list(VARIANTS.items())


@pytest.mark.parametrize(("name", "options"), CASES, ids=[f"{name} {' '.join(options)}".strip() for name, options in CASES])
def test_a_round_in_double_precision(name: str, options: dict[str, Any]) -> None:
    method = replace(find(name)(**options), budget=Budget(lr=0.05, batch_size=20))
    torch.manual_seed(0)
    net = testing.Net(norm=bool(method.needs)).double()
    task = Task.of(net, (testing.FEATURES,), testing.CLASSES, example=torch.zeros(2, testing.FEATURES, dtype=torch.float64))
    data = testing.federation(3, sizes=[40] * 3)
    played = testing.play(method, replace(data, x=data.x.double()), the_task=task, count=2)
    names = {name for name, leaf in trees.named(played.states()) if leaf.dtype is torch.float64}
    assert names and trees.finite(played.states())
    assert testing.served(played, 0, data.x[:4].double()).dtype is torch.float64
