"""Runs whose memory is looked at from outside: `python -m benchmarks.memory NAME ROUNDS`."""

import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

MIB = 1 << 20


def family(pid: int) -> list[int]:
    """Return a process and its descendants."""
    found = [pid]
    for parent in found:
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            found += map(int, task.read_text().split())
    return found


def resident(pid: int) -> tuple[int, int]:
    """Return MiB of a process and its descendants: shared pages counted once, and counted in each."""
    once, each = 0, 0
    for one in family(pid):
        try:
            rows = dict(line.split(":", 1) for line in Path(f"/proc/{one}/smaps_rollup").read_text().splitlines()[1:])
        except (FileNotFoundError, ProcessLookupError):  # ended meanwhile
            continue
        once, each = once + int(rows["Pss"].split()[0]), each + int(rows["Rss"].split()[0])
    return once // 1024, each // 1024


class Peak(threading.Thread):
    """Looks at this process and its workers all the time and remembers the most."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.once = self.each = 0
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.wait(0.25):
            once, each = resident(os.getpid())
            self.once, self.each = max(self.once, once), max(self.each, each)


def ten_thousand(rounds: int) -> dict[str, Any]:
    """FedPer, embedded-size model, 10,000 clients of whom 100 take part."""
    from perfed.sampling import Sampling
    from perfed.transport import Pooled

    from . import work

    federation = work.pictures(10_000, 30, shape=(1, 8, 8), spread=0)
    task = work.task_for(federation, "mlp")
    sampling = Sampling(ratio=0.01)
    play = work.Play(federation, "fedper", Pooled, task=task, sampling=sampling, every=10, count=rounds)
    seen = {}
    for number in range(1, rounds + 1):
        play()
        if number % 10 == 0:
            seen[number] = resident(os.getpid())
    play.close()
    return {"seen": seen}


def five_hundred(method: str, rounds: int) -> dict[str, Any]:
    """The 4-layer CNN with 100 classes and 500 clients, all of whom take part."""
    from perfed.transport import Pooled

    from . import work

    federation = work.pictures(500, 20, classes=100, spread=0.5)
    play = work.Play(federation, method, Pooled, count=rounds)
    seen = {}
    for number in range(1, rounds + 1):
        began = time.perf_counter()
        play()
        seen[number] = (*resident(os.getpid()), round(time.perf_counter() - began, 1))
    play.close()
    return {"seen": seen}


def held(rounds: int) -> dict[str, Any]:
    """A server that averages 500 answers of 10 MiB which come one at a time, and holds them all until its verdict."""
    import torch

    from perfed.methods.fedavg import FedAvg
    from perfed.server import Uploads
    from perfed.server.admission import Admission

    server = {"w": torch.ones(10 * MIB // 4)}
    answers = lambda: ({"w": server["w"] + 0.01 * torch.rand(())} for _ in range(500))  # noqa: E731
    door, seen = Admission(sizes=[1] * 500), {}
    before = resident(os.getpid())[1]
    for number in range(1, rounds + 1):
        found = door.merged(FedAvg(), server, Uploads(range(500), [1] * 500, answers()), number)
        assert not found.refused
        seen[number] = resident(os.getpid())
    return {"seen": seen, "before": before}


def main(name: str, rounds: int) -> dict[str, Any]:
    import torch

    torch.set_num_threads(1)
    peak = Peak()
    peak.start()
    found = ten_thousand(rounds) if name == "fedper" else held(rounds) if name == "held" else five_hundred(name, rounds)
    peak.over.set()
    peak.join()
    return {"once": peak.once, "each": peak.each, **found}


if __name__ == "__main__":
    import json

    print(json.dumps(main(sys.argv[1], int(sys.argv[2]))))
