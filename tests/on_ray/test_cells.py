"""Cells on a Ray cluster end in the bits of this machine's processes, whatever becomes of the machines meanwhile."""

import logging
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import Nodes, left_behind
from study import digests, lineup

from perfed.errors import RunError
from perfed.runs import compare
from perfed.runs.rays import drive

pytestmark = pytest.mark.ray
pytest.importorskip("ray")


@pytest.mark.parametrize("folder", ["auto", "travels"])
def test_two_of_three_machines_are_lost_and_one_comes(
    nodes: Any, reference: dict[str, Any], tmp_path: Path, folder: str, caplog: pytest.LogCaptureFixture
) -> None:
    """24 cells; the moments are drawn among the rounds, and so is who dies."""
    there: Nodes = nodes(1, 1, 1)
    drawn = random.Random(len(folder))
    first, second = sorted(drawn.sample(range(150, 1100), 2))
    events = [(first, "orphan"), ((first + second) // 2, "add"), (second, "kill")]
    heard = [0]

    def on_round(_seed: int, _done: Any) -> None:
        heard[0] += 1
        if not events or heard[0] < events[0][0]:
            return
        if events[0][1] == "add":
            there.add(1)
            events.pop(0)
        elif there.strike(drawn, whole=events[0][1] == "kill"):  # else at a later round: all machines are between two cells
            events.pop(0)

    asked = lineup(tmp_path, engine={"name": "ray", "address": there.address, "folder": folder})
    with caplog.at_level(logging.WARNING, "perfed"):
        found = compare.run(asked, on_round)
    assert digests(found.path) == reference
    assert not events and len(there.workers) == 2 and heard[0] > second
    assert "lost its worker" in caplog.text
    assert not list(found.path.glob(".seen-*")) and not list(found.path.rglob("*.half"))
    seed = found.runs[0].seed(0)
    assert seed.machines[0]["after"] == 0 and {"name", "processor", "system", "torch"} < seed.machines[0].keys()


def test_the_head_is_restarted_and_the_study_is_resumed(nodes: Any, reference: dict[str, Any], tmp_path: Path) -> None:
    from ray.cluster_utils import Cluster

    there: Nodes = nodes(1)
    job = ["methods=fedavg,fedper", "seeds=0,1", "data.fraction=0.3", "clients=4", "rounds=60", "partition=iid"]
    job += ["transport=serial", "checkpoint=0", f"out={tmp_path}", "name=it", "engine=ray", f"engine.address={there.address}"]
    perfed = [sys.executable, "-c", "from perfed.cli import main; main()", "compare", *job]
    said = tmp_path / "said"
    with said.open("w") as file, subprocess.Popen(perfed, stderr=file, stdout=subprocess.DEVNULL) as study:
        while study.poll() is None and not list(tmp_path.glob("it/*/seed-*/checkpoint.json")):
            time.sleep(0.05)
        for node in (there.cluster.head_node, *there.cluster.worker_nodes):
            node.kill_all_processes(check_alive=False, allow_graceful=False, wait=True)
        there.cluster.worker_nodes.clear()
        there.cluster.head_node = None
        while study.poll() is None and "head of the Ray cluster is gone" not in said.read_text():
            time.sleep(0.2)  # Ray may end a process whose own node is gone, before it can say anything
        head = {"num_cpus": 1, "object_store_memory": 80 << 20, "include_dashboard": False, "memory": 8 << 30}
        host, _, port = there.address.partition(":")
        there.cluster = Cluster(
            initialize_head=True, head_node_args=head | {"gcs_server_port": int(port), "node_ip_address": host}
        )
        study.wait(300)
    resume = [sys.executable, "-c", "from perfed.cli import main; main()", "resume", str(tmp_path / "it")]
    assert subprocess.run(resume, stdout=subprocess.DEVNULL, timeout=300, check=False).returncode == 0, said.read_text()
    found = digests(tmp_path / "it")
    for name in ("fedavg", "fedper"):
        assert found[name] == {seed: reference[name][seed] for seed in ("0", "1")}


def test_an_interrupted_study_brings_its_checkpoints_home_and_resumes(nodes: Any, tmp_path: Path) -> None:
    """Cells that were at work write a checkpoint after their round and send it, though none was due for days."""
    there: Nodes = nodes(1, 1)
    gate, own = tmp_path / "gate", tmp_path / "slow.py"
    gate.touch()  # while it is there a cell takes minutes, so that the bell is heard in the midst of it on any machine
    own.write_text("import time\nfrom pathlib import Path\nfrom perfed.methods.fedper import FedPer\nclass Slow(FedPer):\n"
                   f"    def local(self, *given):\n        time.sleep(0.1 if Path({str(gate)!r}).exists() else 0)\n"
                   "        return super().local(*given)\n")  # fmt: skip

    def asked(out: Path, **more: Any) -> compare.Lineup:
        long = {"rounds": 600, "checkpoint": 1e6, "every": 100}
        return compare.Lineup(lineup(out, (f"{own}:Slow",), (0, 1), **long, **more).experiments[:1])  # Local would be quick

    heard = [0]

    def on_round(_seed: int, _done: Any) -> None:
        heard[0] += 1
        if heard[0] == 20:
            signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started the tests may have had it ignored
    with pytest.raises(KeyboardInterrupt):
        compare.run(asked(tmp_path, engine={"name": "ray", "address": there.address, "folder": "travels"}), on_round)
    signal.signal(signal.SIGINT, before)
    at = [seed.reached for run in compare.CompareFolder(tmp_path / "it").runs for seed in run.seeds.values() if seed.reached]
    assert at and max(at) < 600
    until = time.monotonic() + 60  # Ray ends them by itself; one that went on to train would be there for minutes
    while (left := [said for said in left_behind() if said.startswith("ray::work")]) and time.monotonic() < until:
        time.sleep(0.1)
    assert not left
    gate.unlink()
    plain = compare.run(asked(tmp_path / "plain"))
    assert digests(compare.resume(tmp_path / "it").path) == digests(plain.path)


def test_a_cell_that_kills_its_worker_each_time_is_given_up(nodes: Any, tmp_path: Path) -> None:
    """A cell that is done in by its own code is refused after some tries; others are not kept from ending."""
    there: Nodes = nodes(1)
    own = tmp_path / "deadly.py"
    own.write_text("import os\nfrom perfed.methods.fedavg import FedAvg\nclass Deadly(FedAvg):\n"
                   "    def local(self, *given):\n        os._exit(3)\n")  # fmt: skip
    asked = lineup(tmp_path, (f"{own}:Deadly",), (0,), engine={"name": "ray", "address": there.address, "retries": 1})
    with pytest.raises(RunError, match="lost 2 times without a new checkpoint"):
        compare.run(asked)


def test_a_folder_that_workers_do_not_see_is_not_taken_for_theirs(nodes: Any, tmp_path: Path, monkeypatch: Any) -> None:
    """A folder of the same name on another machine is another folder: only who reads what was laid down there sees it."""
    there: Nodes = nodes(1)
    monkeypatch.setattr(drive.Drive, "_token", lambda self, folder: (str(folder / "compare.json"), "something else"))
    engine = {"name": "ray", "address": there.address}
    with pytest.raises(RunError, match="does not see .* engine.folder=travels sends it"):
        compare.run(lineup(tmp_path / "a", ("fedavg",), (0,), engine=engine | {"folder": "shared"}))
    found = compare.run(lineup(tmp_path / "b", ("fedavg",), (0,), engine=engine))
    assert found.runs[0].seed(0).finished(60)


def test_a_cluster_of_this_studys_own_ends_with_it(reference: dict[str, Any], tmp_path: Path) -> None:
    before = set(left_behind())
    found = compare.run(lineup(tmp_path, ("fedcac",), (0, 1), engine={"name": "ray", "address": "local"}))
    assert digests(found.path)["fedcac"] == {seed: reference["fedcac"][seed] for seed in ("0", "1")}
    waiting = threading.Event()
    while set(left_behind()) - before:
        waiting.wait(0.2)  # Ray's own helpers notice by themselves; a study that leaves one hangs here
