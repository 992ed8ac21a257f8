"""Every command that trains cells does so on a Ray cluster too, to the digests of this machine's processes."""

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import Nodes
from typer.testing import CliRunner

from perfed.cli.commands import app

pytestmark = pytest.mark.ray
pytest.importorskip("ray")

SMALL = ["data=digits", "data.fraction=0.3", "clients=3", "rounds=3", "partition=iid"]
RACE = ["candidates=2", "seeds=1", "every=3"]
JOBS = {
    "run": ["run", "method=fedper", "seeds=0,1", *SMALL],
    "race": ["race", "methods=fedper", *SMALL, *RACE],
    "tune": ["tune", "method=fedcp", *SMALL, *RACE],
    "paper": ["paper", "gpfl/table2", "--stand-in", "--rounds=1", "--seeds=0", "--fraction=0.05", "--only=fedavg"],
}


def digests(folder: Path) -> dict[str, str]:
    """Return the digest of every cell below a folder."""
    found = {path.parent.relative_to(folder).as_posix(): json.loads(path.read_text()) for path in folder.rglob("final.json")}
    return {name: final["digest"] for name, final in found.items()}


def test_run_race_tune_and_paper_come_to_the_digests_of_processes(nodes: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.delenv("PERFED_DATA", raising=False)
    there: Nodes = nodes(2)
    engines = {"processes": [], "ray": ["engine=ray", f"engine.address={there.address}"]}
    for name, words in JOBS.items():
        for engine, more in engines.items():
            out = tmp_path / name / engine
            where = [f"--out={out}"] if name == "paper" else [f"out={out}", "name=it"]
            CliRunner().invoke(app, [*words, *where, *more], catch_exceptions=False)
        found = {engine: digests(tmp_path / name / engine) for engine in engines}
        assert len(found["ray"]) > 1 and found["ray"] == found["processes"], name
