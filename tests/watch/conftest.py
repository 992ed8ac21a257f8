"""A folder with runs in every state, made by hand, and the page's server on it."""

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from handmade import write_run

from perfed.watch.serve import WatchServer, server

LONG_AGO = 1_600_000_000


def cut(folder: Path, lines: int) -> None:
    """Leave only the first lines of a run's record, as if it had been stopped long ago."""
    path = folder / "seed-0" / "rounds.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:lines]))
    os.utime(path, (LONG_AGO, LONG_AGO))


def finish(folder: Path, rounds: int) -> None:
    for seed in folder.glob("seed-*"):
        (seed / "final.json").write_text(json.dumps({"digest": "0", "rounds": rounds, "seconds": 1.0}))
        os.utime(seed / "rounds.jsonl", (LONG_AGO, LONG_AGO))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    top = tmp_path / "runs"
    for method, level in {"local": 0.8, "fedavg": 0.7, "fedcp": 0.9}.items():
        finish(write_run(top / "compared" / method, method, rounds=12, level=level, seeds=(0, 1)), 12)
    listed = {"runs": ["local", "fedavg", "fedcp"], "command": "perfed compare"}
    (top / "compared" / "compare.json").write_text(json.dumps(listed))
    cut(write_run(top / "papers" / "cells" / "stopped", "fedper", rounds=9), 5)
    silos = write_run(top / "silos", "fedrep", clients=3, rounds=6)
    lines = [json.loads(line) for line in (silos / "seed-0" / "rounds.jsonl").read_text().splitlines()]
    lines[-1]["absent"] = [1]
    (silos / "seed-0" / "rounds.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (silos / "seed-0" / "silos.json").write_text("{}")
    finish(silos, 6)
    (top / "broken").mkdir()
    (top / "broken" / "settings.yaml").write_text("method: [")
    return top


@pytest.fixture
def served(folder: Path) -> Iterator[WatchServer]:
    with server(folder) as found:
        threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        yield found
        found.shutdown()
