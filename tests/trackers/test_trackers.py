"""Trackers hear what the record has, live and afterwards, and never stop or change a run."""

import json
import logging
import sqlite3
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import warm
from handmade import write_run
from typer.testing import CliRunner

from perfed import trackers
from perfed.cli.commands import app
from perfed.errors import InputError, MissingExtra
from perfed.runs import parse
from perfed.runs.folder import RunFolder
from perfed.runs.run import resume, run
from perfed.trackers.tracker import About, values

JOB = ["method=fedper", "clients=3", "rounds=3", "partition=iid", "data.fraction=0.1", "transport=serial"]
pytestmark = pytest.mark.filterwarnings("ignore")  # foreign libraries have warnings of their own


@pytest.fixture(autouse=True)
def nowhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.chdir(tmp_path)
    return


def told(*words: str) -> Any:
    done = CliRunner().invoke(app, ["track", *words, "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """Read event files back with TensorBoard itself."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    found.Reload()
    return {name: [(e.step, e.value) for e in found.Scalars(name)] for name in found.Tags()["scalars"]}


def test_the_numbers_of_a_round() -> None:
    scores = {
        "count": [10, 30, None],
        "accuracy": [0.5, 0.9, None],
        "loss": [1.0, float("inf"), None],
        "per_class": [[1, 2], [3, 4], None],
    }
    line = {"round": 2, "participants": [0, 1], "bytes_up": 7, "bytes_down": 8, "seconds_train": 0.5, "test": scores}
    found = values(line)
    assert found["test/accuracy"] == pytest.approx(0.8) and found["test/accuracy_mean"] == pytest.approx(0.7)
    assert found["participants"] == 2 and found["bytes/up"] == 7 and "seconds/test" not in found
    assert "test/loss" not in found and not any("per_class" in name for name in found)


def test_tensorboard_hears_live_what_the_record_has(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    plain = run(parse.load(None, [*JOB, f"out={tmp_path}", "name=plain"]))
    folder = run(parse.load(None, [*JOB, f"out={tmp_path}", "name=told", "track=tensorboard"]))
    assert folder.summary["digest"] == plain.summary["digest"]
    found = scalars(folder.seed(0).path / "tensorboard")
    expected = [(line["round"], values(line)["test/accuracy"]) for line in folder.seed(0).lines.read()]
    assert found["test/accuracy"] == [(step, pytest.approx(value)) for step, value in expected]
    assert folder.experiment.digest() == plain.experiment.digest(), "who listens is no part of what is run"


def test_a_run_that_goes_on_is_told_once(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    folder = run(parse.load(None, [*JOB, f"out={tmp_path}", "name=told", "track=tensorboard"]))
    resume(RunFolder(folder.path), rounds=5)
    found = scalars(folder.seed(0).path / "tensorboard")
    assert [step for step, _ in found["test/accuracy"]] == [0, 1, 2, 3, 4, 5]


def test_tensorboard_is_told_afterwards(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    folder = write_run(tmp_path / "run", "fedcp", seeds=(0, 1), rounds=4)
    for _ in range(2):  # the second time instead of the first
        assert [row["rounds"] for row in told(str(folder), "--to", "tensorboard")] == [5, 5]
    assert len(scalars(folder / "seed-1" / "tensorboard")["validation/accuracy"]) == 5


def test_mlflow_writes_to_sqlite_and_goes_on_in_the_same_run(tmp_path: Path) -> None:
    pytest.importorskip("mlflow")
    folder = write_run(tmp_path / "run", "fedcp", rounds=4)
    for _ in range(2):
        told(str(folder), "--to", "mlflow")
    with sqlite3.connect(tmp_path / "mlflow.db") as base:
        assert base.execute("select count(*), min(status) from runs").fetchone() == (1, "FINISHED")
        steps = base.execute("select distinct step from metrics where key = 'test/accuracy' order by step").fetchall()
        assert [step for (step,) in steps] == [0, 1, 2, 3, 4]
        assert base.execute("select value from params where key = 'method'").fetchone() == ("fedcp",)


def test_the_cells_of_a_comparison_are_tracked_in_their_own_processes(tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    pytest.importorskip("tensorboard")
    words = [*JOB[1:], "methods=fedper", "rounds=1", f"out={tmp_path}", "name=both", "track=tensorboard,wandb", "workers=2"]
    assert warm.run(["compare", *words]).returncode == 0
    for method in ("fedper", "local"):
        seed = tmp_path / "both" / method / "seed-0"
        assert [step for step, _ in scalars(seed / "tensorboard")["test/accuracy"]] == [0, 1]
        (file,) = seed.glob("wandb/offline-run-*/run-*.wandb")
        assert b"test/accuracy" in file.read_bytes()


def test_wandb_writes_offline(tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    folder = write_run(tmp_path / "run", "fedcp", rounds=4)
    told(str(folder), "--to", "wandb")
    (file,) = (folder / "seed-0").glob("wandb/offline-run-*/run-*.wandb")
    end = time.monotonic() + 300
    while b"test/accuracy" not in file.read_bytes():  # wandb's own process writes it, in its own time
        if time.monotonic() > end:
            pytest.fail("wandb wrote nothing")
        time.sleep(0.05)


class Broken:
    """A tracker that fails when it begins, in the middle, or at the end."""

    def __init__(self, when: str) -> None:
        self.when, self.steps = when, []  # type: ignore[var-annotated]

    def begin(self, about: About) -> "Broken":
        if self.when == "begin":
            raise ConnectionError("nobody answers")
        return self

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        self.steps.append(step)
        if self.when == "log" and step == 1:
            raise ConnectionError("nobody answers")

    def close(self) -> None:
        if self.when == "close":
            raise ConnectionError("nobody answers")


@pytest.mark.parametrize("when", ["begin", "log", "close"])
def test_a_tracker_that_fails_neither_stops_nor_changes_a_run(
    when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broken = Broken(when)
    monkeypatch.setattr(trackers, "check", lambda names: None)
    monkeypatch.setattr("perfed.runs.run.check", lambda names: None)
    monkeypatch.setattr(trackers, "import_module", lambda name: SimpleNamespace(begin=broken.begin))
    heard: list[int] = []
    with caplog.at_level(logging.WARNING, "perfed"):
        done = run(
            parse.load(None, [*JOB, f"out={tmp_path}", "name=told", "track=mlflow"]), lambda seed, done: heard.append(done.number)
        )
    assert done.summary["digest"] == run(parse.load(None, [*JOB, f"out={tmp_path}", "name=plain"])).summary["digest"]
    assert heard == [0, 1, 2, 3]
    assert broken.steps == {"begin": [], "log": [0, 1], "close": [0, 1, 2, 3]}[when]
    (said,) = [record.getMessage() for record in caplog.records]
    assert said == "track=mlflow failed (ConnectionError: nobody answers); the run goes on without it"


def test_a_tracker_that_is_none_or_not_installed_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match="no tracker 'tensorbord'; did you mean 'tensorboard'"):
        run(parse.load(None, [*JOB, f"out={tmp_path / 'out'}", "track=tensorbord"]))
    monkeypatch.setitem(trackers.LIBRARIES, "mlflow", "no_such_library")
    with pytest.raises(MissingExtra, match=r"no_such_library is not installed; pip install .*\[mlflow\]"):
        run(parse.load(None, [*JOB, f"out={tmp_path / 'out'}", "track=mlflow"]))
    assert not (tmp_path / "out").exists()


def test_a_run_without_a_record_cannot_be_tracked() -> None:
    import perfed

    with pytest.raises(InputError, match="track=tensorboard is for runs that are recorded"):
        perfed.run(method="fedper", clients=3, rounds=1, track="tensorboard", progress=False)
