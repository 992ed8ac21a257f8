"""Clients at the actors of a Ray cluster: the bits of serial for any number of actors, and when a machine is lost in a round."""

import logging
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from conftest import Nodes

from perfed import cluster
from perfed.runs import assemble
from perfed.runs.experiment import Experiment
from perfed.runs.folder import RunFolder
from perfed.runs.run import run
from perfed.transport import Rayed

pytestmark = pytest.mark.ray
pytest.importorskip("ray")

METHODS = ("fedcp", "fedcac", "dualfed", "gpfl", "fedpick", "fedavg", "ditto", "fedper")
SMALL: dict[str, Any] = {"data": {"name": "digits", "fraction": 0.2}, "clients": 6, "rounds": 3, "partition": "dirichlet"}
SMALL |= {"sampling": {"ratio": 0.7, "drop": 0.2}, "after": True, "checkpoint": 0}


def asked(out: Path, method: str, **more: Any) -> Experiment:
    model = {"name": "mlp", "projector": 16} if method == "dualfed" else {"name": "mlp", "hidden": 16}
    return Experiment(out=out, method=method, **(SMALL | {"model": model} | more))


def test_any_number_of_actors_comes_to_the_bits_of_serial(nodes: Any, tmp_path: Path) -> None:
    there: Nodes = nodes(2, 2)
    engine = {"address": there.address}
    for method in METHODS:
        serial = run(asked(tmp_path, method, transport="serial")).summary["digest"]
        for count in (1, 2, 4):
            folder = run(asked(tmp_path, method, transport="ray", workers=count, engine=engine))
            assert folder.summary["digest"] == serial, (method, count)


def test_a_machine_is_lost_in_a_round_and_the_round_is_repeated(
    nodes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """All eight methods are in their fifth round when one of two machines dies; states come from the last checkpoint."""
    there: Nodes = nodes(8, 16)
    gate = threading.Barrier(len(METHODS), lambda: there.kill(there.workers[0]))
    answers, struck = Rayed._answers, set[str]()

    def until_the_gate(self: Rayed, server: Any, ids: list[int], number: int, lost: set[int], after: bool) -> Iterator[Any]:
        for up in answers(self, server, ids, number, lost, after):
            if number == 5 and self.site.method.title not in struck:
                struck.add(self.site.method.title)
                gate.wait()
            yield up

    monkeypatch.setattr(Rayed, "_answers", until_the_gate)
    one = threading.Lock()  # networks are drawn from torch's one generator, and actors alternate between machines

    def alone(what: Any) -> Any:
        def done(*given: Any, **named: Any) -> Any:
            with one:
                return what(*given, **named)

        return done

    monkeypatch.setattr(assemble, "assemble", alone(assemble.assemble))
    monkeypatch.setattr(Rayed, "__init__", alone(Rayed.__init__))
    engine = {"address": there.address}

    def folder_of(method: str) -> RunFolder:
        try:
            return run(asked(tmp_path, method, rounds=6, checkpoint=0.5, transport="ray", workers=2, engine=engine))
        except BaseException:
            gate.abort()  # the others would wait at it for ever
            raise

    with caplog.at_level(logging.WARNING, "perfed"), cluster.joined(there.address), ThreadPoolExecutor(len(METHODS)) as pool:
        found = dict(zip(METHODS, pool.map(folder_of, METHODS), strict=True))
    for method, folder in found.items():
        assert f"{method}, seed 0: a machine with clients' states was lost" in caplog.text
        serial = run(asked(tmp_path, method, rounds=6, transport="serial")).summary["digest"]
        assert folder.summary["digest"] == serial, method
        assert [line["round"] for line in folder.seed(0).lines.read()] == list(range(7))
