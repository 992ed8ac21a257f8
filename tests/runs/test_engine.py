"""Cells by name, folders that travel, and engines: one seam, the same bits; nothing here needs Ray."""

import json
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from perfed import machine
from perfed.cli.commands import app
from perfed.disk import locked
from perfed.errors import InputError, MissingExtra
from perfed.runs import compare, parse
from perfed.runs.assemble import SharedData
from perfed.runs.cells import Cell, Ears
from perfed.runs.engine import Engine
from perfed.runs.experiment import Experiment
from perfed.runs.folder import CompareFolder, RunFolder
from perfed.runs.rays import drive, scratch, travel, worker
from perfed.runs.rays.drive import Drive
from perfed.runs.run import begin

SMALL: dict[str, Any] = {"clients": 3, "rounds": 3, "partition": "iid", "transport": "serial", "checkpoint": 0}
SMALL["data"] = {"name": "digits", "fraction": 0.1}
WORDS = ["clients=3", "rounds=3", "partition=iid", "transport=serial", "data.fraction=0.1"]


def perfed(*words: Any, code: int = 0) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == code, (done.output, done.exception)
    return done.stdout


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    asked = Experiment(**SMALL, seeds=(0, 1), out=tmp_path_factory.mktemp("straight"), name="it")
    found = compare.run(compare.listed(["fedper"], asked))
    return {f"{run.path.name}/seed-{n}": own for run in found.runs for n, own in run.summary["digests"].items()}


def test_the_engine_is_recorded_and_is_no_part_of_what_is_trained() -> None:
    asked = parse.load(None, ["engine=ray", "engine.address=local", "engine.gpus=0.25"])
    assert (asked.engine.name, asked.engine.address, asked.engine.gpus) == ("ray", "local", 0.25)
    assert asked.digest() == Experiment().digest()
    assert parse.build(yaml.safe_load(yaml.safe_dump(asked.plain()))).plain() == asked.plain()
    with pytest.raises(InputError, match="say engine=ray too"):
        parse.load(None, ["engine.address=local"])
    with pytest.raises(InputError, match="Ray's client port"):
        parse.load(None, ["engine=ray", "engine.address=ray://127.0.0.1:10001"])
    with pytest.raises(InputError, match="'processes' or 'ray'"):
        parse.load(None, ["engine=slurm"])


def test_without_ray_one_sentence_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    asked = Experiment(**SMALL, out=tmp_path, engine="ray")
    with pytest.raises(MissingExtra, match=r"ray is not installed; pip install .*\[ray\]"):
        compare.run(compare.listed(["fedper"], asked))
    assert not list(tmp_path.iterdir())


def test_an_array_of_cells_ends_in_the_bits_of_a_comparison(tmp_path: Path, straight: dict[str, str]) -> None:
    """Any order, twice the same, and resume finds nothing left but to sum up."""
    study = tmp_path / "it"
    made = json.loads(
        perfed("compare", "methods=fedper", *WORDS, "seeds=0,1", f"out={tmp_path}", "name=it", "--prepare", "--json")
    )
    names = perfed("cells", study, "--list").split()
    assert names == made["cells"] == ["fedper/seed-0", "fedper/seed-1", "local/seed-0", "local/seed-1"]
    assert {own["state"] for own in json.loads(perfed("cells", study, "--json"))} == {"waiting"}
    found = {name: json.loads(perfed("cell", study, name, "--json"))["digest"] for name in reversed(names)}
    assert found == straight
    before = (study / "fedper" / "seed-0" / "final.json").stat().st_mtime_ns
    assert straight["fedper/seed-0"] in perfed("cell", study, "fedper/seed-0")
    assert (study / "fedper" / "seed-0" / "final.json").stat().st_mtime_ns == before
    assert perfed("cells", study, "--list", "--left") == ""
    perfed("resume", study)
    assert CompareFolder(study).runs[0].summary["digests"] == {"0": straight["fedper/seed-0"], "1": straight["fedper/seed-1"]}


def test_a_cell_is_never_trained_twice_at_once(tmp_path: Path) -> None:
    run = begin(asked := Experiment(**SMALL, out=tmp_path, name="it"), SharedData.of(asked))
    with locked(run.seed(0).path / "lock"):
        assert "running" in perfed("cells", run.path)
        done = CliRunner().invoke(app, ["cell", str(run.path), "seed-0"])
        assert "is being trained by another process" in str(done.exception)
    done = CliRunner().invoke(app, ["cell", str(run.path), "seed-9"])
    assert "no cell" in str(done.exception) and "did you mean 'seed-0'?" in str(done.exception)


@pytest.mark.parametrize("seen", [True, False])
def test_a_worker_trains_where_it_sees_the_folder_and_else_sends_its_own(
    tmp_path: Path, straight: dict[str, str], monkeypatch: pytest.MonkeyPatch, seen: bool
) -> None:
    """The folder here follows the worker's after every checkpoint: it can go on from any of them."""
    asked = Experiment(**SMALL, method="fedper", out=tmp_path, name="it")
    run = begin(asked, shared := SharedData.of(asked))
    (tmp_path / "token").write_text("ours" if seen else "somebody's")
    parcels = {"it": travel.packed(run, 0)}
    monkeypatch.setattr(worker, "imported", lambda: type("Ray", (), {"get": staticmethod(parcels.get)}))
    monkeypatch.setattr(worker, "PAUSE", 0.0)
    order = worker.Order(str(run.path), asked, 0, None, (str(tmp_path / "token"), "ours"), "it")
    told, reached = [], []
    for news in worker.work(order, shared):
        told.append(news)
        if news.parcel is not None:
            travel.take(run.seed(0), news.parcel, list(news.names))
            reached.append(run.seed(0).reached)
            assert len(list(run.seed(0).path.glob("checkpoint-*.safetensors"))) == 1
    assert told[0].began is not None and told[0].began["shared"] is seen and told[-1].ended == "done"
    assert [word.number for news in told for _, word in news.words] == [0, 1, 2, 3]
    assert bool(reached) is not seen and run.seed(0).final["digest"] == straight["fedper/seed-0"]  # type: ignore[index]
    older = list(worker.work(order._replace(version="0.0.0"), shared))
    assert len(older) == 1 and "install the same on all machines" in str(older[0].ended)


def test_a_parcel_is_laid_down_so_that_a_kill_leaves_a_state_to_go_on_from(tmp_path: Path, monkeypatch: Any) -> None:
    """What points to a file is written after it; only then do files go that nobody points to any more."""
    place = RunFolder(tmp_path).add_seed(0)
    old = {"checkpoint.json": b"1", "checkpoint-1.safetensors": b"old", "rounds.jsonl": b"a"}
    travel.take(place, old, list(old))
    written: list[str] = []

    def put(path: Path, content: bytes) -> None:
        written.append(path.name)
        assert (place.path / "checkpoint-1.safetensors").exists()
        path.write_bytes(content)

    monkeypatch.setattr(travel, "put", put)
    new = {"final.json": b"{}", "checkpoint.json": b"2", "rounds.jsonl": b"ab", "checkpoint-2.safetensors": b"new"}
    travel.take(place, new, list(new))
    assert written == ["checkpoint-2.safetensors", "rounds.jsonl", "checkpoint.json", "final.json"]
    assert {path.name for path in place.path.iterdir()} == set(new)


def test_a_record_names_the_machines_and_warns_when_kinds_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = begin(asked := Experiment(**SMALL, out=tmp_path, name="it"), SharedData.of(asked))
    perfed("resume", run.path)
    (own,) = run.seed(0).machines
    assert own["after"] == 0 and "machines" not in run.summary
    perfed("resume", run.path, "--rounds", 4)
    assert len(run.seed(0).machines) == 1  # the same one went on
    monkeypatch.setattr(machine, "kind", lambda: {name: own[name] for name in own if name != "after"} | {"processor": "another"})
    said = perfed("resume", run.path, "--rounds", 5)
    assert "Rounds were run on 2 kinds of machines" in said and "another" in said
    assert [each["after"] for each in run.seed(0).machines] == [0, 4] and len(run.summary["machines"]) == 2


def test_the_longest_cell_goes_first_and_asks_for_what_it_holds(tmp_path: Path) -> None:
    short, long = (Experiment(**(SMALL | {"rounds": rounds}), out=tmp_path) for rounds in (2, 9))
    shared = SharedData.of(short)
    cells = [Cell(begin(asked, shared), asked, 0, shared) for asked in (short, long)]
    queue = Drive(cells, Engine(name="ray", cpus=2, gpus=0.25), Ears()).queue
    assert [own.cell.experiment.rounds for own in queue] == [9, 2]
    assert queue[0].weight.options == {"num_cpus": 2, "num_gpus": 0.25, "memory": queue[0].weight.memory}
    assert queue[0].weight.memory > 400 << 20  # a process with torch, and what it holds
    assert Drive(cells, Engine(name="ray", memory=2), Ears()).queue[0].weight.memory == 2 << 30


def test_a_folder_is_packed_only_while_nobody_writes_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that was given up may still write: its cell waits in the queue, others pass, and it is not waited for for ever."""
    asked = [Experiment(**(SMALL | {"rounds": rounds}), out=tmp_path) for rounds in (2, 9)]
    shared, refused = SharedData.of(asked[0]), list[str]()
    cells = [Cell(begin(one, shared), one, 0, shared) for one in asked]
    there = Drive(cells, Engine(name="ray"), Ears(refused=lambda _, why: refused.append(why)))
    started: list[tuple[int, Any]] = []

    def start(own: Any, parcel: Any) -> None:
        started.append((own.cell.experiment.rounds, parcel))

    monkeypatch.setattr(there, "_start", start)
    there.slots, there.machines = 2, [{"CPU": 1.0, "memory": 1e12}]
    with locked(cells[1].run.seed(0).path / "lock"):  # the longer one, which is first
        there._hand_over()
        assert [rounds for rounds, _ in started] == [2] and len(there.queue) == 1
        there._hand_over()
        assert len(started) == 1 and not refused
    there._hand_over()
    assert [rounds for rounds, _ in started] == [2, 9] and "seed-0/split.safetensors" in started[1][1]
    with locked(cells[1].run.seed(0).path / "lock") as free:
        assert free  # a worker that sees the folder locks it itself
        there.queue = [drive.Attempt(cells[1], drive.weigh(cells[1], there.engine), waits=-1e9)]
        there._hand_over()
    assert not there.queue and "trained by another process" in refused[0]


@pytest.mark.parametrize("folder", ["auto", "travels", "shared"])
def test_a_folder_that_travels_is_held_from_the_moment_it_is_packed(tmp_path: Path, folder: Any) -> None:
    run = begin(asked := Experiment(**SMALL, out=tmp_path), shared := SharedData.of(asked))
    there = Drive([Cell(run, asked, 0, shared)], Engine(name="ray", folder=folder), Ears())
    for _ in range(2):  # again, as after a head that was lost
        assert (there._pack(there.queue[0]) is None) is (folder == "shared")
    with locked(run.seed(0).path / "lock") as free:
        assert free is (folder != "travels")
    there.queue[0].held.close()


def test_what_a_killed_worker_left_goes_with_the_next_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of a worker that lives is left alone, and so is one that is not known to be of a worker."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "perfed-cell-unknown").mkdir()
    said, says = os.pipe()
    if (child := os.fork()) == 0:
        try:
            with scratch.scratch() as dead:
                (dead / "file").touch()
                os.write(says, str(dead).encode())
                signal.pause()
        finally:
            os._exit(1)
    os.close(says)
    dead = Path(os.read(said, 1000).decode())
    with scratch.scratch() as first:
        assert first.is_dir() and dead.is_dir()
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with scratch.scratch() as second:
            assert {path for path in tmp_path.iterdir() if path.name != "perfed-cell-unknown"} == {first, second}
    os.close(said)
    assert [path.name for path in tmp_path.iterdir()] == ["perfed-cell-unknown"]


def test_a_head_that_does_not_answer_is_no_interruption(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(*_: Any) -> bool:
        raise ConnectionError("the head does not answer")

    monkeypatch.setattr(worker, "rung", silent)
    monkeypatch.setattr(worker, "imported", lambda: None)
    assert not worker._rung(worker.Order("", Experiment(), 0, None, None, None, "bell"))


class FakeRay:
    """A cluster of one stream: what comes of it is said beforehand, and what is cancelled is noted."""

    class exceptions:  # noqa: N801  (Ray's own name)
        class RayError(Exception):
            pass

        class RayTaskError(RayError):
            def __init__(self, cause: Exception) -> None:
                self.cause = cause

    def __init__(self, coming: Any) -> None:
        self.coming, self.cancelled = coming, False

    def wait(self, streams: list[Any], **_: Any) -> tuple[list[Any], list[Any]]:
        return streams, []

    def get(self, found: Any) -> Any:
        if isinstance(found, Exception):
            raise found
        return found

    def cancel(self, _stream: Any, *, force: bool) -> None:
        self.cancelled = force


def heard(tmp_path: Path, coming: Any) -> tuple[Drive, FakeRay, list[str]]:
    """Return what becomes of a cell of which something is heard while its folder is held by somebody else."""
    run = begin(asked := Experiment(**SMALL, out=tmp_path), shared := SharedData.of(asked))
    refused: list[str] = []
    there = Drive([Cell(run, asked, 0, shared)], Engine(name="ray"), Ears(refused=lambda _, why: refused.append(why)))
    there.ray = ray = FakeRay(coming)
    there.running = {iter([coming]): there.queue.pop()}
    with locked(run.seed(0).path / "lock"):
        there._listen(0)
    return there, ray, refused


def test_a_worker_that_the_cluster_failed_is_lost_and_its_cell_is_not(tmp_path: Path) -> None:
    """Where the cell's own code fails, it is refused; where Ray does, it is handed over again."""
    kinds = FakeRay.exceptions
    for number, gone in enumerate((kinds.RayError(), kinds.RayTaskError(kinds.RayError()))):
        there, _, refused = heard(tmp_path / str(number), gone)
        assert not there.running and not refused and there.queue[0].lost == 1
    there, _, refused = heard(tmp_path / "own", kinds.RayTaskError(ValueError("of its own")))
    assert not there.running and not there.queue and refused == ["ValueError: of its own"]


def test_a_worker_elsewhere_is_stopped_where_somebody_holds_the_folder(tmp_path: Path) -> None:
    there, ray, refused = heard(tmp_path, worker.News(began={"shared": False, "name": "elsewhere"}))
    assert ray.cancelled and not there.running and len(there.queue) == 1 and not refused
