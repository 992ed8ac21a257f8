"""A study on Ray tells nobody of itself, speaks to this machine alone, and leaves nothing behind when it is killed."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import processes, spoken_to

pytestmark = pytest.mark.ray
pytest.importorskip("ray")

JOB = ["methods=fedavg,fedper", "data.fraction=0.3", "clients=4", "rounds=100000", "partition=iid", "transport=serial"]


def environment(pid: int) -> bytes:
    """Return with which variables a process was started; a worker writes its title over them, one that begins has none."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


def test_a_killed_study_leaves_nothing_and_speaks_to_this_machine_alone(tmp_path: Path) -> None:
    before = processes().keys()
    perfed = [sys.executable, "-c", "from perfed.cli import main; main()", "compare", *JOB]
    here = [f"out={tmp_path}", "name=it", "engine=ray", "engine.address=local"]
    others: set[str] = set()
    with subprocess.Popen([*perfed, *here], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as study:
        while len(list(tmp_path.glob("it/*/seed-0/rounds.jsonl"))) < 2 and study.poll() is None:
            others |= spoken_to([study.pid, *(processes().keys() - before)])
            time.sleep(0.1)
        own = processes().keys() - before
        others |= spoken_to([study.pid, *own])
        told = [environment(pid) for pid, said in processes().items() if pid in own and not said.startswith("ray::")]
        study.kill()
    assert any(told) and all(b"RAY_USAGE_STATS_ENABLED=0" in said for said in told if said)
    assert others and all(other.startswith(("127.", "::ffff:127.")) or other == "::1" for other in others), others
    until = time.monotonic() + 120
    while (left := processes().keys() & own) and time.monotonic() < until:
        time.sleep(0.2)
    assert not left, [processes().get(pid) for pid in left]
