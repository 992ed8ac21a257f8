"""What Python users call: own data, own network, a client's model in hand, a run reopened."""

from pathlib import Path

import pytest
import torch
from torch import nn

import perfed
from perfed.errors import InputError
from perfed.evaluate.summary import rates
from perfed.runs import parse as setting
from perfed.runs import run as experiment


def test_public_names_are_all_there() -> None:
    assert perfed.__all__ == sorted(perfed.__all__)
    for name in perfed.__all__:
        assert getattr(perfed, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        perfed.nonsense


def test_own_arrays_own_network_and_a_clients_model() -> None:
    x, y = torch.randn(200, 5), torch.randint(0, 3, (200,))
    samples = perfed.Samples.of(x.numpy(), y.numpy(), kind="features")
    clients = perfed.federate(samples, clients=4, partition="iid")
    net = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
    trained = perfed.train(clients, "fedper", model=net, rounds=2, transport="serial")
    model = trained.model(2)
    rows = clients.test[2]
    scores = model.raw(clients.x[rows])
    assert isinstance(model, nn.Module) and scores.shape == (len(rows), 3)
    right = (scores.argmax(1) == clients.y[rows]).float().mean().item()
    assert right == pytest.approx(trained.accuracies()["client 2"])
    with pytest.raises(InputError, match="no client 4"):
        trained.model(4)


def test_a_run_reopened_serves_what_was_scored(tmp_path: Path) -> None:
    asked = setting.load(
        None,
        [
            "method=ditto",
            "clients=3",
            "partition=iid",
            "rounds=2",
            "snapshots=1",
            f"out={tmp_path}",
            "data.fraction=0.2",
            "transport=serial",
        ],
    )
    done = experiment.run(asked)
    opened = perfed.open(done.path)
    for number in (1, 2):
        then = opened.trained(at=number)
        scores = rates(opened.rounds[0][number]["test"])
        for i in range(3):
            x, y = then.site.federation.some(i)
            right = (then.model(i).raw(x).argmax(1) == y).float().mean().item()
            assert then.number == number and right == pytest.approx(scores[i])
    assert opened.trained().number == 2
