"""Clients at the actors of a Ray cluster: the bits of serial for any number of actors, and when a machine is lost in a round."""

import logging
from pathlib import Path
from typing import Any

import pytest
from conftest import Nodes

from perfed.runs.experiment import Experiment
from perfed.runs.run import resume, run

pytestmark = pytest.mark.ray
pytest.importorskip("ray")

METHODS = ("fedcp", "fedcac", "dualfed", "gpfl", "fedpick", "fedavg", "ditto", "fedper")
SMALL: dict[str, Any] = {"data": {"name": "digits", "fraction": 0.2}, "clients": 6, "rounds": 3, "partition": "dirichlet"}
SMALL |= {"sampling": {"ratio": 0.7, "drop": 0.2}, "after": True, "checkpoint": 0, "model": {"name": "mlp", "hidden": 16}}


def digest(out: Path, **more: Any) -> str:
    folder = run(Experiment(out=out, **(SMALL | more)))
    return str(folder.summary["digest"])


def test_any_number_of_actors_comes_to_the_bits_of_serial(nodes: Any, tmp_path: Path) -> None:
    there: Nodes = nodes(2, 2)
    for method in METHODS:
        model = {"name": "mlp", "projector": 16} if method in ("dualfed",) else {"name": "mlp", "hidden": 16}
        serial = digest(tmp_path, method=method, model=model, transport="serial")
        for count in (1, 2, 4):
            found = digest(
                tmp_path, method=method, model=model, transport="ray", workers=count, engine={"address": there.address}
            )
            assert found == serial, (method, count)


def test_a_machine_is_lost_in_a_round_and_the_round_is_repeated(
    nodes: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """FedPer keeps its head at the clients: what was lost with the machine comes from the last checkpoint."""
    there: Nodes = nodes(2, 2)
    more = {"method": "fedper", "rounds": 8, "checkpoint": 0.5}
    serial = digest(tmp_path, transport="serial", **more)
    killed: list[Any] = []

    def on_round(_seed: int, done: Any) -> None:
        if done.number == 4 and not killed:
            killed.append(there.cluster.worker_nodes and sorted(there.cluster.worker_nodes, key=str)[0])
            there.kill(killed[0])

    asked = Experiment(out=tmp_path, transport="ray", workers=4, engine={"address": there.address}, **(SMALL | more))
    with caplog.at_level(logging.WARNING, "perfed"):
        folder = run(asked, on_round)
    assert folder.summary["digest"] == serial and "a machine with clients' states was lost" in caplog.text
    assert [line["round"] for line in folder.seed(0).lines.read()] == list(range(9))
    assert resume(folder).summary["digest"] == serial
