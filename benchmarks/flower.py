"""What Flower costs beyond training: start-up, seconds and CPU-seconds per round and silo, megabytes; 2 to 8 silos."""

import argparse
import contextlib
import json
import os
import platform
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from perfed.silos.flower import layout, operate
from perfed.silos.flower.processes import marked

TICKS = os.sysconf("SC_CLK_TCK")
SETTINGS = ("method=fedavg", "data=digits", "model=mlp", "model.hidden=4000", "budget.batch_size=32", "partition=iid")


class Meter(threading.Thread):
    """Adds up the CPU-seconds of every process that carries a mark, short-lived ones included, to a tenth of a second."""

    def __init__(self, mark: str) -> None:
        super().__init__(daemon=True)
        self.mark, self.spent, self.over = mark, dict[int, float](), threading.Event()

    def run(self) -> None:
        while not self.over.wait(0.1):
            for pid in marked(self.mark):
                with contextlib.suppress(OSError, IndexError):
                    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                    self.spent[pid] = (int(fields[11]) + int(fields[12])) / TICKS

    @property
    def total(self) -> float:
        return sum(self.spent.values())


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def measure(silos: int, rounds: int) -> dict[str, Any]:
    """Return the figures of one deployment."""
    folder = Path(tempfile.mkdtemp(prefix="perfed-"))
    mark = operate.fresh_mark()
    meter = Meter(mark)
    meter.start()
    marks: dict[int, tuple[float, float]] = {}
    began = time.monotonic()
    up = [0.0]

    def on_line(seed: int, line: dict[str, Any]) -> None:
        marks[line["round"]] = (time.monotonic(), meter.total)

    try:
        address = layout.Address(port=free_port())
        layout.init(folder / "d", silos, address, [*SETTINGS, f"rounds={rounds}"])
        run = operate.local(folder / "d", lambda said: up.append(time.monotonic() - began), on_line, mark)
        lines = [json.loads(text) for text in (run / "seed-0" / "rounds.jsonl").read_text().splitlines()]
    finally:
        meter.over.set()
        shutil.rmtree(folder, ignore_errors=True)
    # line n appears when round n was scored and round n + 1 trained; the last message only scores
    whole = range(1, rounds)
    seconds = [marks[n][0] - marks[n - 1][0] for n in whole]
    cpu = [marks[n][1] - marks[n - 1][1] for n in whole]
    silo = [[s["train"] + s["test"] for s in lines[n]["seconds_silos"].values()] for n in whole]
    count = len(whole)
    return {
        "silos": silos,
        "link": up[1],
        "first": marks[0][0] - began,
        "seconds": sum(seconds) / count,
        "work": sum(map(max, silo)) / count,
        "cpu": sum(cpu) / count / silos,
        "cpu_work": sum(map(sum, silo)) / count / silos,
        "megabytes": sum(lines[n]["bytes_up"] + lines[n]["bytes_down"] for n in whole) / count / 1e6,
        "load": os.getloadavg()[0],
    }


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__)
    ask.add_argument("--silos", default="2,4,8")
    ask.add_argument("--rounds", type=int, default=4)
    ask.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "flower.md")
    given = ask.parse_args()
    found = []
    for silos in map(int, given.silos.split(",")):
        found.append(measure(silos, given.rounds))
        print(found[-1], flush=True)
    given.out.parent.mkdir(exist_ok=True)
    given.out.write_text(page(found, given.rounds), encoding="utf-8")


def page(found: list[dict[str, Any]], rounds: int) -> str:
    here = Path(__file__).parent
    asked = subprocess.run(["git", "-C", str(here), "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    processor = next(
        (t.partition(":")[2].strip() for t in Path("/proc/cpuinfo").read_text().splitlines() if t.startswith("model name")),
        platform.processor(),
    )
    head = "silos | load | link up (s) | first scores (s) | s per round | of it work at the silos (s) | CPU-s per silo and round"
    head += " | of it work (s) | MB per round"
    rows = [
        f"| {f['silos']} | {f['load']:.1f} | {f['link']:.1f} | {f['first']:.1f} | {f['seconds']:.1f} | {f['work']:.2f} | "
        f"{f['cpu']:.1f} | {f['cpu_work']:.2f} | {f['megabytes']:.2f} |"
        for f in found
    ]
    return "\n".join(
        [
            "# Flower: what a round costs beyond training",
            "",
            f"`python benchmarks/flower.py`, {datetime.now(UTC):%Y-%m-%d}, commit {asked.stdout.strip()}, {processor}, "
            f"{os.cpu_count()} cores, Python {platform.python_version()}.",
            "",
            f"{' '.join(SETTINGS)}, {rounds} rounds; everything on one machine, TLS and node keys on. A round is one message "
            "per silo: score, then train. *Work* is what the silos measured for scoring and training (wall time: the slowest "
            "silo beside seconds, the mean beside CPU-seconds); the rest is Flower's. The CPU-seconds are those of every "
            "process of the deployment. "
            "*Load* is the machine's load average at the end: other work beside it makes seconds longer, CPU-seconds hardly.",
            "",
            f"| {head} |",
            "|" + "---|" * 9,
            *rows,
            "",
        ]
    )


if __name__ == "__main__":
    main()
