"""What a Ray cluster costs and brings: rows of `make bench` where Ray is installed, on small clusters of this machine.

`python -m benchmarks.rays JOB ADDRESS …` is what a row starts: one process per figure, for forks and clusters do not mix.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any

from perfed.cluster import LOOPBACK, QUIET, joined

from . import work
from .rows import ROOT, Row, Scale, ratio, seconds

STORE = 2 << 30  # bytes of a node's object store
METHODS = ("fedavg", "fedper")  # whose cells take the same time
MIB = 1 << 20


@contextmanager
def nodes(count: int) -> Iterator[str]:
    """Run a cluster of so many nodes with one CPU each, and a head with none; yield its address."""
    os.environ.update(QUIET | {"RAY_worker_niceness": "0"})
    from ray.cluster_utils import Cluster

    usual = {"object_store_memory": STORE, "node_ip_address": LOOPBACK, "memory": 16 << 30}
    made = Cluster(initialize_head=True, head_node_args=usual | {"num_cpus": 0, "include_dashboard": False})
    try:
        for _ in range(count):
            made.add_node(num_cpus=1, **usual)
        yield made.address
    finally:
        made.shutdown()


def asked(job: str, address: str, *words: object) -> Any:
    """Return what a job finds in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.rays", job, address, *map(str, words)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{job}: {done.stderr.strip()[-600:]}")
    return json.loads(done.stdout.splitlines()[-1])


def study(rounds: int, seeds: int) -> list[str]:
    """Return the words of a comparison of equal cells."""
    data = ["data=digits", "partition=iid", "clients=10", "model=cnn", "transport=serial"]
    return [f"methods={','.join(METHODS)}", f"seeds={','.join(map(str, range(seeds)))}", f"rounds={rounds}", *data]


def cell(address: str, seeds: str) -> dict[str, float]:
    """Seconds of a study of small cells: in this process, and on a cluster of one CPU whose worker is warm."""
    from perfed.runs.compare import Lineup, listed, run
    from perfed.runs.experiment import Experiment

    def lineup(out: str, **more: Any) -> Lineup:
        own = {"data": {"name": "digits", "fraction": 0.1}, "partition": "iid", "clients": 4, "rounds": 5, "transport": "serial"}
        return listed(METHODS, Experiment(seeds=tuple(range(int(seeds))), out=Path(out), workers=1, **own, **more))

    with tempfile.TemporaryDirectory() as out, joined(address):
        taken = {}
        for engine, again in (("processes", 2), ("ray", 2)):
            for _ in range(again):  # the first time warms up
                began = perf_counter()
                run(lineup(out, engine={"name": engine}))
                taken[engine] = perf_counter() - began
    return taken


def one_cell(scale: Scale) -> list[Row]:
    """What a cell costs beyond its work, once a worker is warm."""
    seeds = 12 if scale.repeats > 2 else 2
    with nodes(1) as address:
        taken = asked("cell", address, seeds)
    count = len(METHODS) * seeds
    detail = f"{count} cells one after another: {taken['ray']:.1f} s on a warm worker, {taken['processes']:.1f} s in one process"
    figure = (taken["ray"] - taken["processes"]) / count
    return [Row("ray-cell", "Ray: seconds of a cell beyond its work, workers warm", figure, 1.0, False, detail)]


def cells(scale: Scale) -> list[Row]:
    """Whole commands: 24 equal cells on two nodes with one CPU each, and in two processes."""
    rounds, seeds = (75, 12) if scale.repeats > 2 else (2, 2)
    perfed = [sys.executable, "-c", "from perfed.cli import main; main()", "compare"]

    def command(*more: str) -> None:
        with tempfile.TemporaryDirectory() as out:
            subprocess.run([*perfed, *study(rounds, seeds), f"out={out}", *more], cwd=ROOT, check=True, capture_output=True)

    with nodes(2) as address:
        theirs = partial(command, "engine=ray", f"engine.address={address}")
        own, ray = seconds(partial(command, "workers=2"), theirs, repeats=1)
    figure, spread = ratio(ray, own)
    detail = f"{spread}; {statistics.median(ray):.1f} s and {statistics.median(own):.1f} s, `perfed compare` from start to end"
    what = f"Ray: {len(METHODS) * seeds} cells on two nodes with one CPU over two processes"
    return [Row("ray-cells", what, figure, 1.1, False, detail)]


def clients(address: str, each: str, repeats: str) -> dict[str, list[float]]:
    """Seconds of rounds in two forked processes and at two actors, in turn."""
    from perfed.transport import Pooled, Rayed

    federation = work.pictures(20, int(each))
    plays = [work.Play(federation, "fedavg", lambda site, store: Pooled(site, store, 2))]
    with joined(address):
        plays.append(work.Play(federation, "fedavg", lambda site, store: Rayed(site, store, 2)))
        try:
            for play in plays:
                play()
            pooled, ray = seconds(*plays, repeats=int(repeats))
        finally:
            for play in plays:
                play.close()
    return {"pooled": pooled, "ray": ray}


def transport(scale: Scale) -> list[Row]:
    """`transport=ray` beside `pooled`: the same two cores, the same rounds."""
    with nodes(2) as address:
        found = asked("clients", address, scale.each, scale.repeats)
    figure, spread = ratio(found["ray"], found["pooled"])
    ours, theirs = (statistics.median(found[name]) for name in ("ray", "pooled"))
    detail = f"{spread}; {ours:.2f} s and {theirs:.2f} s a round of 20 clients"
    return [Row("ray-clients", "`transport=ray` over `pooled`, 4-layer CNN, two actors", figure, 1.15, False, detail)]


def keepers() -> list[int]:
    """Return MiB resident of every actor that keeps clients."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes().startswith(b"ray::Keeper"):
                found.append(resident(path.parent))
        except OSError:  # ended meanwhile
            continue
    return found


def resident(process: Path) -> int:
    """Return MiB resident of a process."""
    rollup = (process / "smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) >> 10 for line in rollup if line.startswith("Rss"))


def grown(address: str, count: str, actors: str, rounds: str, side: str, ratio_: str) -> dict[str, Any]:
    """Seconds of rounds and MiB of every actor, for so many clients at so many actors."""
    from perfed.sampling import Sampling
    from perfed.transport import Rayed

    federation = work.pictures(int(count), 30, shape=(1, int(side), int(side)), spread=0)
    task, sampling = work.task_for(federation, "mlp"), Sampling(ratio=float(ratio_))
    every = 1 if float(ratio_) == 1 else int(rounds)
    taken, seen = [], []
    with joined(address):
        make = lambda site, store: Rayed(site, store, int(actors))  # noqa: E731
        play = work.Play(federation, "fedper", make, task=task, sampling=sampling, every=every, count=int(rounds))
        for _ in range(int(rounds)):
            began = perf_counter()
            play()
            taken.append(perf_counter() - began)
            seen.append(max(keepers()))
        server = resident(Path("/proc/self"))
        play.close()
    return {"seconds": taken, "memory": seen, "server": server}


def memory(scale: Scale) -> list[Row]:
    """10,000 clients whose samples take 0.9 GB: what an actor holds when there are two of them, over what one holds."""
    many, rounds = (10_000, 50) if scale.repeats > 2 else (500, 10)
    with nodes(2) as address:
        empty = asked("grown", address, 2, 1, 1, 48, 1.0)["memory"][-1]
        one, two = (asked("grown", address, many, actors, rounds, 48, 0.01)["memory"] for actors in (1, 2))
    held = [found[-1] - empty for found in (one, two)]
    said = f"{one[-1]} MiB at one node, {two[-1]} MiB at each of two, {empty} MiB of them without clients"
    later = [found[-1] / found[min(9, len(found) - 1)] for found in (one, two)]
    return [
        Row("ray-memory", f"{many:,} clients: memory of a node of two over that of one", held[1] / held[0], 0.55, False, said),
        Row("ray-flat", f"the same: after round {rounds} over after round 10", max(later), 1.05, False, "the larger of both"),
    ]


def growth(scale: Scale) -> list[Row]:
    """Time per round and memory for 100, 1,000 and 10,000 clients at one and two nodes."""
    rows, sizes = [], (100, 1000, 10_000) if scale.repeats > 2 else (20, 200)
    with nodes(2) as address:
        for actors in (1, 2):
            found = {n: asked("grown", address, n, actors, 2 if n > 5000 else 4, 8, 1.0) for n in sizes}
            per = {n: statistics.median(own["seconds"][1:]) / n for n, own in found.items()}
            held = {n: f"{own['memory'][-1]} MiB at a node, {own['server']} at the server" for n, own in found.items()}
            said = "; ".join(f"{n:,}: {per[n] * n:.2f} s a round, {held[n]}" for n in sizes)
            what = f"time per client of a round, {sizes[-1]:,} clients over {sizes[0]}, nodes: {actors}"
            rows.append(Row(f"ray-growth-{actors}", what, per[sizes[-1]] / per[sizes[0]], None, False, said))
    return rows


def missing(name: str) -> Callable[[Scale], list[Row]]:
    """Return a row that says why it was not measured."""
    return lambda scale: [
        Row(name, "a Ray cluster", None, None, False, 'not measured: Ray is missing; pip install "perfed[ray]"')
    ]


MEASURED: dict[str, Callable[[Scale], list[Row]]] = {
    "ray-cell": one_cell,
    "ray-cells": cells,
    "ray-clients": transport,
    "ray-memory": memory,
    "ray-growth": growth,
}
ROWS = MEASURED if find_spec("ray") else {name: missing(name) for name in MEASURED}

if __name__ == "__main__":
    import torch

    torch.set_num_threads(1)
    print(json.dumps({"cell": cell, "clients": clients, "grown": grown}[sys.argv[1]](*sys.argv[2:])))
