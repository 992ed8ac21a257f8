"""What a deployment costs beyond training: start-up, seconds and CPU-seconds per round and silo, memory, and at rest."""

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
from perfed.silos.flower.processes import end_all, marked

HERE = Path(__file__).parent
LINES = (("1 Mbit/s, 100 ms", 1.0, 0.1), ("10 Mbit/s, 50 ms", 10.0, 0.05), ("100 Mbit/s, 20 ms", 100.0, 0.02))
TRIPS = 3  # requests of a silo's round, one after another: fetch the message, announce the answer, complete it
TICKS = os.sysconf("SC_CLK_TCK")
SETTINGS = ("method=fedavg", "data=digits", "model=mlp", "model.hidden=4000", "budget.batch_size=32", "partition=iid")


class Meter(threading.Thread):
    """Adds up the CPU-seconds of every process that carries a mark, short-lived ones included, to a tenth of a second."""

    def __init__(self, mark: str) -> None:
        super().__init__(daemon=True)
        self.mark, self.spent, self.over = mark, dict[int, float](), threading.Event()
        self.memory: dict[str, list[float]] = {}  # megabytes of each process, by what it is

    def run(self) -> None:
        while not self.over.wait(0.1):
            for pid in marked(self.mark):
                with contextlib.suppress(OSError, IndexError):
                    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                    self.spent[pid] = (int(fields[11]) + int(fields[12])) / TICKS

    @property
    def total(self) -> float:
        return sum(self.spent.values())

    def weigh(self) -> None:
        """Note what every process has in memory now; pages that several share are shared out."""
        self.memory = {}
        for pid in marked(self.mark):
            with contextlib.suppress(OSError, StopIteration):
                command = Path(f"/proc/{pid}/cmdline").read_text()
                part = next(name for name in ("link", "node", "conduct") if f"flower.{name}" in command)
                lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
                kilobytes = next(int(text.split()[1]) for text in lines if text.startswith("Pss:"))
                self.memory.setdefault(part, []).append(kilobytes / 1024)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def measure(silos: int, rounds: int, ordinary: bool = False) -> dict[str, Any]:
    """Return the figures of one deployment."""
    folder = Path(tempfile.mkdtemp(prefix="perfed-"))
    mark = operate.fresh_mark()
    meter = Meter(mark)
    meter.start()
    marks: dict[int, tuple[float, float]] = {}
    began = time.monotonic()

    def on_line(seed: int, line: dict[str, Any]) -> None:
        marks[line["round"]] = (time.monotonic(), meter.total)
        if line["round"] == rounds - 1:
            meter.weigh()

    try:
        address = layout.Address(port=free_port())
        layout.init(folder / "d", silos, address, [*SETTINGS, f"rounds={rounds}"])
        run = operate.local(folder / "d", on_line=on_line, mark=mark, ordinary=ordinary)
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
        "first": marks[0][0] - began,
        "seconds": sum(seconds) / count,
        "work": sum(map(max, silo)) / count,
        "cpu": sum(cpu) / count / silos,
        "cpu_work": sum(map(sum, silo)) / count / silos,
        "megabytes": sum(lines[n]["bytes_up"] + lines[n]["bytes_down"] for n in whole) / count / 1e6,
        "load": os.getloadavg()[0],
        "memory": {part: max(found) for part, found in meter.memory.items()},
    }


def rest(silos: int, seconds: float = 60.0) -> dict[str, float]:
    """Return what a silo costs while nothing is asked of it: the share of a core, and megabytes."""
    folder = Path(tempfile.mkdtemp(prefix="perfed-"))
    mark = operate.fresh_mark()
    layout.init(folder / "d", silos, layout.Address(port=free_port()), SETTINGS)
    children = operate.link(folder / "d" / "server", mark)
    for i in range(silos):
        children += operate.silo(folder / "d" / f"silo-{i}", mark)
    meter = Meter(mark)
    try:
        for child in children:
            child.start()
        operate.until_healthy(folder / "d" / "server", children, 120.0)
        time.sleep(20.0)
        meter.start()
        time.sleep(1.0)
        before = dict(meter.spent)
        time.sleep(seconds)
        meter.weigh()
        nodes = [child.process.pid for child in children[1:] if child.process]
        spent = sum(meter.spent[pid] - before[pid] for pid in nodes)
        return {"core": spent / seconds / silos, "megabytes": max(meter.memory["node"]), "link": meter.memory["link"][0]}
    finally:
        meter.over.set()
        end_all(children, mark)
        shutil.rmtree(folder, ignore_errors=True)


def lasting(silos: int, rounds: int) -> dict[str, Any]:
    """Return memory, open files and threads of every process early and at the end of a long run."""
    folder = Path(tempfile.mkdtemp(prefix="perfed-"))
    mark, seen = operate.fresh_mark(), dict[int, dict[str, list[int]]]()
    meter = Meter(mark)

    def on_line(seed: int, line: dict[str, Any]) -> None:
        if line["round"] in (rounds // 6, rounds - 1):
            meter.weigh()
            seen[line["round"]] = {}
            for pid in marked(mark):
                with contextlib.suppress(OSError, StopIteration):
                    command = Path(f"/proc/{pid}/cmdline").read_text()
                    part = next(name for name in ("link", "node", "conduct") if f"flower.{name}" in command)
                    threads = next(x for x in Path(f"/proc/{pid}/status").read_text().splitlines() if x.startswith("Threads:"))
                    size = next(x for x in Path(f"/proc/{pid}/status").read_text().splitlines() if x.startswith("VmRSS:"))
                    now = [int(size.split()[1]) // 1024, len(list(Path(f"/proc/{pid}/fd").iterdir())), int(threads.split()[1])]
                    before = seen[line["round"]].get(part, [0, 0, 0])
                    seen[line["round"]][part] = [max(pair) for pair in zip(before, now, strict=True)]

    try:
        small = [word.replace("4000", "100") for word in SETTINGS]
        layout.init(folder / "d", silos, layout.Address(port=free_port()), [*small, f"rounds={rounds}", f"every={rounds}"])
        operate.local(folder / "d", on_line=on_line, mark=mark)
        files = sum(1 for path in (folder / "d").rglob("*") if path.is_file())
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return {"silos": silos, "rounds": rounds, "seen": {str(n): found for n, found in seen.items()}, "files": files}


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__)
    ask.add_argument("--silos", default="2,4,8,16,50", help="deployments to measure; nothing measures none")
    ask.add_argument("--supernode", action="store_true", help="the ordinary SuperNode in the place of the quick silo")
    ask.add_argument("--rounds", type=int, default=4)
    ask.add_argument("--idle", action="store_true", help="measure a silo that waits")
    ask.add_argument("--long", type=int, default=0, metavar="ROUNDS", help="measure what grows over so many rounds")
    ask.add_argument("--kept", type=Path, default=HERE / "results" / "flower.jsonl", help="figures so far, one line each")
    given = ask.parse_args()

    def keep(kind: str, found: dict[str, Any]) -> None:
        print(kind, found, flush=True)
        with given.kept.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"kind": kind, **found}) + "\n")

    for silos in map(int, filter(None, given.silos.split(","))):
        keep("supernode" if given.supernode else "quick", measure(silos, given.rounds, given.supernode))
    if given.idle:
        keep("idle", rest(2))
    if given.long:
        keep("long", lasting(2, given.long))
    lines = [json.loads(text) for text in given.kept.read_text(encoding="utf-8").splitlines()]
    given.kept.with_suffix(".md").write_text(page(lines), encoding="utf-8")


def row(f: dict[str, Any]) -> str:
    weighed = [f["memory"].get(part) for part in ("link", "conduct", "node")]
    memory = ", ".join("–" if found is None else f"{found:.0f}" for found in weighed)
    beyond = f["seconds"] - f["work"]
    kind = f.get("note") or ("quick silo" if f["kind"] == "quick" else "SuperNode")
    return (
        f"| {kind} | {f['silos']} | {f['load']:.1f} | {f['first']:.1f} | {beyond:.2f} | {f['work']:.2f} | {f['cpu']:.3f} | "
        f"{f['cpu_work']:.3f} | {f['megabytes']:.2f} | {memory} |"
    )


def slow(f: dict[str, Any]) -> list[str]:
    """Return what a round of a minute would take over slow lines, computed from the bytes and the messages of a round."""
    each = f["megabytes"] / f["silos"]  # up and down
    rows = []
    for name, megabits, latency in LINES:
        way = each * 8 / megabits + TRIPS * latency
        rows.append(f"| {name} | {way:.2f} | {60 + way + f['seconds'] - f['work']:.1f} | {100 * way / (60 + way):.1f} % |")
    return rows


def page(lines: list[dict[str, Any]]) -> str:
    asked = subprocess.run(["git", "-C", str(HERE), "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    processor = next(
        (t.partition(":")[2].strip() for t in Path("/proc/cpuinfo").read_text().splitlines() if t.startswith("model name")),
        platform.processor(),
    )
    head = "at the silo | silos | load | first scores (s) | s per round beyond work | work (s) | CPU-s per silo, work included"
    head += " | work, mean (s) | MB per round | memory: link, server, a silo (MB)"
    rounds = [f for f in lines if f["kind"] in ("quick", "supernode")]
    quick = next((f for f in rounds if f["kind"] == "quick"), None)
    text = [
        "# A deployment: what a round costs beyond training",
        "",
        f"`python benchmarks/flower.py`, {datetime.now(UTC):%Y-%m-%d}, commit {asked.stdout.strip()}, {processor}, "
        f"{os.cpu_count()} cores, Python {platform.python_version()}.",
        "",
        f"{' '.join(SETTINGS)}; everything on one machine, TLS and node keys on. A round is one message "
        "per silo: score, then train. *Work* is what the silos measured for scoring and training (wall time: the slowest "
        "silo beside seconds, the mean beside CPU-seconds). The CPU-seconds are per silo and round, of every process of the "
        "deployment together. *Load* is the machine's load average at the end: other work beside it makes seconds longer, "
        "CPU-seconds less so. Memory that processes share is shared out among them.",
        "",
        f"| {head} |",
        "|" + "---|" * 10,
        *map(row, rounds),
    ]
    for f in (f for f in lines if f["kind"] == "idle"):
        said = f"A silo that waits for work takes {100 * f['core']:.2f} % of a core and {f['megabytes']:.0f} MB, "
        text += ["", f"{said}the link {f['link']:.0f} MB."]
    for f in (f for f in lines if f["kind"] == "long"):
        text += ["", f"{f['rounds']} rounds with {f['silos']} silos: the largest process of each kind.", ""]
        text += ["| after round | process | MB | open files | threads |", "|---|---|---|---|---|"]
        text += [
            f"| {n} | {part} | {' | '.join(map(str, now))} |" for n, found in f["seen"].items() for part, now in found.items()
        ]
    if quick:
        text += ["", "Computed: a round in which a silo trains for a minute, over slow lines, with the bytes above and "]
        text[-1] += f"{TRIPS} requests one after another (the time beside a line is that of a request and its answer)."
        text += ["", "| line | s on the way | s per round | share of the round |", "|---|---|---|---|", *slow(quick)]
    return "\n".join([*text, ""])


if __name__ == "__main__":
    main()
