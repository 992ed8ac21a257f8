"""What is measured, one function a row or a few; what is compared runs in turn, so that both see the same machine."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
import torch

from perfed.data import load, mapped
from perfed.data.inputs import Inputs, inputs_for
from perfed.evaluate.metrics import CATALOGUE
from perfed.federation import Federation
from perfed.methods import find
from perfed.partition import build as build_partition
from perfed.partition import split
from perfed.server.admission import Admission, Merged
from perfed.transport import Pooled, Serial, Site, Stacked

from . import bare, work
from .export import export

ROOT = Path(__file__).resolve().parent.parent
GIB = 1024


@dataclass(frozen=True)
class Row:
    name: str
    what: str
    figure: float | None  # None where it cannot be measured here
    target: float | None  # None where a figure is shown and nothing is asked of it
    more: bool  # whether more is better
    detail: str

    @property
    def met(self) -> bool | None:
        if self.figure is None or self.target is None:
            return None
        return self.figure >= self.target if self.more else self.figure <= self.target

    def plain(self) -> dict[str, Any]:
        return asdict(self) | {"met": self.met}


@dataclass(frozen=True)
class Scale:
    """How much is done: all of it, or a quick look."""

    repeats: int = 3
    each: int = 600  # training samples per client; MNIST over 20 clients has 2,625
    many: int = 2000  # clients of the row on many
    rounds: int = 100  # of the memory row on 10,000 clients
    flower: str = sys.executable  # an interpreter that has flwr[simulation] and torch


QUICK = Scale(repeats=2, each=60, many=200, rounds=20)


def warmed(*jobs: Callable[[], Any], repeats: int, clock: Callable[[], float] = perf_counter) -> list[list[float]]:
    """Return the seconds of each job, run in turn after a first time that does not count."""
    for job in jobs:
        job()
    return seconds(*jobs, repeats=repeats, clock=clock)


def seconds(*jobs: Callable[[], Any], repeats: int, clock: Callable[[], float] = perf_counter) -> list[list[float]]:
    """Return the seconds of each job, run in turn."""
    taken: list[list[float]] = [[] for _ in jobs]
    for turn in range(repeats):
        order = list(enumerate(jobs))
        for place, job in order if turn % 2 == 0 else reversed(order):
            began = clock()
            job()
            taken[place].append(clock() - began)
    return taken


def ratio(over: list[float], under: list[float]) -> tuple[float, str]:
    """Return the median of the ratios of neighbours, and their range."""
    ratios = [a / b for a, b in zip(over, under, strict=True)]
    return statistics.median(ratios), f"{min(ratios):.2f}–{max(ratios):.2f} over {len(ratios)} repeats"


def against_the_limit(name: str, scale: Scale) -> list[Row]:
    """Whole rounds, training and testing all 20 clients, against a bare loop that does the same arithmetic."""
    federation = work.pictures(20, scale.each)
    clients = [(*work.ready(federation, i, "train"), *work.ready(federation, i, "test")) for i in range(20)]
    limit = bare.Limit(clients, bare.LOOPS[name], 10)
    play = work.Play(federation, name, Pooled)
    server: list[float] = []

    def ours() -> None:
        began, spent = perf_counter(), process_time()
        play()
        server.append((process_time() - spent) / (perf_counter() - began))

    try:
        ours()
        server.clear()
        bound, taken = seconds(limit, ours, repeats=scale.repeats)
    finally:
        play.close()
        limit.close()
    share, spread = ratio(bound, taken)
    count = play.samples
    detail = f"{spread}; {count / statistics.median(taken):,.0f} samples/s, bare {count / statistics.median(bound):,.0f}"
    goal = 0.9 if name == "fedavg" else 0.85
    return [
        Row(f"limit-{name}", f"{name}: whole rounds over the bare loop", share, goal, True, detail),
        Row(
            f"server-{name}",
            f"{name}: the server's CPU seconds, share of the round",
            statistics.median(server),
            0.05,
            False,
            f"{statistics.median(taken):.2f} s a round",
        ),
    ]


def stacked(scale: Scale) -> list[Row]:
    """A small MLP on the embedded digits: clients along an axis against one after another."""
    samples = load("digits")
    parts = split(samples, build_partition("iid"), 20, 0, 0.1, 0.25)
    federation = Federation.of(samples, parts, inputs_for(samples))
    plays = [work.Play(federation, "fedavg", make, task=work.task_for(federation, "mlp")) for make in (Serial, Stacked)]
    jobs = [lambda play=play: [play() for _ in range(5)] for play in plays]  # type: ignore[misc]
    one, all_at_once = warmed(*jobs, repeats=3 * scale.repeats)
    gain, spread = ratio(one, all_at_once)
    detail = f"{spread}; {1000 * statistics.median(all_at_once) / 5:.1f} ms a round of {sum(federation.sizes)} samples"
    return [Row("stacked", "`stacked` over `serial`, small MLP, embedded digits", gain, 4, True, detail)]


def metrics(scale: Scale) -> list[Row]:
    """What measuring everything adds to a round with accuracy and loss, in CPU seconds, which other work does not blur."""
    samples = load("digits")
    small = Federation.of(samples, split(samples, build_partition("iid"), 20, 0, 0.1, 0.25), inputs_for(samples))
    mlp, pictures = work.task_for(small, "mlp"), work.pictures(4, scale.each)
    every = tuple(name for name, metric in CATALOGUE.items() if "classification" in metric.goals)
    rows = []
    for name, what, make, federation, task, turns in (
        ("metrics", "CNN, 4 clients", Serial, pictures, None, 1),
        ("metrics-small", "small MLP on embedded digits, 20 clients", Serial, small, mlp, 20),
        ("metrics-stacked", "the same, `stacked`", Stacked, small, mlp, 20),
    ):
        plays = [work.Play(federation, "fedavg", make, task=task, metrics=chosen) for chosen in ((), every)]
        plain, full = warmed(*plays, repeats=turns * scale.repeats, clock=process_time)
        more, spread = ratio(full, plain)
        detail = f"{spread}; {1000 * statistics.median(plain):.1f} ms of CPU a round"
        rows.append(Row(name, f"a round with all {len(every)} metrics over accuracy and loss: {what}", more, 1.03, False, detail))
    return rows


class _Open(Admission):
    """A door without anybody at it: whatever comes is merged."""

    def merged(self, method: Any, server: Any, ups: Any, number: int) -> Merged:
        return Merged(method.merge(server, ups), {}, {})


def admission(scale: Scale) -> list[Row]:
    """What looking at every upload adds to a round, in CPU seconds, which other work does not blur."""
    samples = load("digits")
    small = Federation.of(samples, split(samples, build_partition("iid"), 20, 0, 0.1, 0.25), inputs_for(samples))
    mlp, pictures = work.task_for(small, "mlp"), work.pictures(4, scale.each)
    rows = []
    for name, what, make, federation, task, turns, level in (
        ("admission", "CNN, 4 clients", Serial, pictures, None, 1, "bounds"),
        ("admission-strict", "the same, strict", Serial, pictures, None, 1, "strict"),
        ("admission-small", "small MLP on embedded digits, 20 clients", Serial, small, mlp, 20, "bounds"),
        ("admission-stacked", "the same, `stacked`", Stacked, small, mlp, 20, "bounds"),
    ):
        doors = (_Open(), Admission(level, sizes=federation.sizes))
        plays = [work.Play(federation, "fedavg", make, task=task, door=door) for door in doors]
        plain, looked = warmed(*plays, repeats=turns * scale.repeats, clock=process_time)
        more, spread = ratio(looked, plain)
        detail = f"{spread}; {1000 * statistics.median(plain):.1f} ms of CPU a round"
        rows.append(Row(name, f"a round with every upload looked at over one without: {what}", more, 1.03, False, detail))
    return rows


def vocabulary(scale: Scale) -> list[Row]:
    """A fastText step with a large and a small vocabulary; words are as frequent as in texts (Zipf)."""
    jobs = [_words(size) for size in (1000, 98_635)]
    small, large = warmed(*jobs, repeats=3 * scale.repeats)
    times, spread = ratio(large, small)
    detail = f"{spread}; {1000 * statistics.median(large) / 200:.2f} ms a step"
    return [Row("fasttext", "fastText step, vocabulary 98,635 over 1,000", times, 1.3, False, detail)]


def _words(size: int, count: int = 2000, length: int = 200) -> Callable[[], Any]:
    draw = torch.Generator().manual_seed(0)
    rank = torch.exp(torch.rand((count, length), generator=draw) * torch.log(torch.tensor(float(size))))
    x, y = rank.int().clamp(max=size - 1), torch.randint(0, 4, (count,), generator=draw)
    own = (torch.arange(count),)
    federation = Federation(x, y, own, own, own, Inputs(kind="tokens", mean=None, std=None), 4, ("one",))
    task = work.task_for(federation, "fasttext", vocabulary=size)
    site, server, first = Site.of(find("fedavg")(budget=work.BUDGET), task, federation)
    return lambda: site.train(0, server, first, 1)


def many_clients(scale: Scale) -> list[Row]:
    """Time per client-step with many clients over few, the same data per client."""
    few, times = 20, scale.many // 20
    plays = [work.Play(work.pictures(n, 50, spread=0), "fedavg", Pooled) for n in (few, scale.many)]
    try:
        for play in plays:
            play()
        jobs = (lambda: [plays[0]() for _ in range(max(1, times // 4))], plays[1])
        small, large = seconds(*jobs, repeats=max(2, scale.repeats // 2))
    finally:
        for play in plays:
            play.close()
    small = [s / max(1, times // 4) * times for s in small]
    growth, spread = ratio(large, small)
    per = 1000 * statistics.median(large) / (scale.many * 5)
    return [
        Row(
            "many",
            f"time per client-step, {scale.many:,} clients over {few}",
            growth,
            1.15,
            False,
            f"{spread}; {per:.2f} ms a step, testing included",
        )
    ]


def memory(name: str, scale: Scale) -> list[Row]:
    """Resident memory of a run in a process of its own and its workers."""
    rounds = scale.rounds if name == "fedper" else 2
    command = [sys.executable, "-m", "benchmarks.memory", name, str(rounds)]
    found = json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()[-1])
    detail = f"peak of all processes; {found['once'] / GIB:.2f} with shared pages counted once"
    goal = {"fedper": 1.5, "fedcp": 2.0, "fedcac": 8.0}[name]
    what = "10,000 clients, FedPer, 1 % take part" if name == "fedper" else f"500 clients, CNN with 100 classes, {name}"
    rows = [Row(f"memory-{name}", f"{what}: GiB resident", found["each"] / GIB, goal, False, detail)]
    if name == "fedper":
        seen = {int(number): each for number, (_, each) in found["seen"].items()}
        first, last = min(seen), max(seen)
        grown = seen[last] / seen[first]
        detail = f"{seen[first] / GIB:.3f} GiB after round {first}, {seen[last] / GIB:.3f} after round {last}"
        rows.append(Row("memory-flat", "the same: memory at the end over that after round 10", grown, 1.05, False, detail))
    return rows


def held(scale: Scale) -> list[Row]:
    """What a server holds of answers that wait for the verdict: 256 MiB in memory, the rest in a file."""
    command = [sys.executable, "-m", "benchmarks.memory", "held", "2"]
    found = json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()[-1])
    more = found["each"] - found["before"]
    what = "500 answers of 10 MiB (5 GiB) looked at and averaged: MiB beyond the start"
    return [Row("memory-held", what, more, 600, False, f"{found['before']} MiB before, {found['each']} at the peak")]


def bf16(scale: Scale) -> list[Row]:
    """Half precision where the processor has instructions for it."""
    what = "`precision=bf16` over fp32, 4-layer CNN"
    flags = Path("/proc/cpuinfo").read_text() if sys.platform == "linux" else ""
    if "avx512_bf16" not in flags and "amx_bf16" not in flags:
        return [Row("bf16", what, None, 1.3, True, "not measured: this processor has no bf16 instructions")]
    federation = work.pictures(1, scale.each, spread=0)
    jobs, accuracy = [], {}
    for precision in ("fp32", "bf16"):
        play = work.Play(federation, "fedavg", Serial, task=work.task_for(federation, precision=precision))
        jobs.append(play)
        accuracy[precision] = [play().scores["test"][0]["accuracy"] for _ in range(5)][-1]
    full, half = seconds(*jobs, repeats=scale.repeats)
    gain, spread = ratio(full, half)
    detail = f"{spread}; accuracy after 5 rounds {accuracy['fp32']:.3f} and {accuracy['bf16']:.3f}"
    return [Row("bf16", what, gain, 1.3, True, detail)]


def job_of_run(scale: Scale) -> list[Row]:
    """What `make run` does, from the shell's point of view."""
    taken, wrong = list[float](), ""
    with tempfile.TemporaryDirectory() as folder:
        for file in ("main", "main_domains"):
            began = perf_counter()
            command = [str(Path(sys.executable).parent / "perfed"), "compare", f"examples/{file}.yaml", f"out={folder}/runs"]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
            taken.append(perf_counter() - began)
            wrong = wrong or (done.stderr.strip()[-200:] if done.returncode else "")
    detail = f"failed: {wrong}" if wrong else f"`perfed compare` of its two files, {taken[0]:.1f} and {taken[1]:.1f} s"
    return [Row("run", "the job of `make run`, seconds", None if wrong else sum(taken), 60, False, detail)]


def starting(scale: Scale) -> list[Row]:
    """How long the shell waits for the first sign of life."""
    commands = {
        "help": [str(Path(sys.executable).parent / "perfed"), "--help"],
        "import": [sys.executable, "-c", "import perfed"],
    }
    rows = []
    for name, command in commands.items():
        job = lambda command=command: subprocess.run(command, cwd=ROOT, capture_output=True, check=True)  # noqa: E731
        (taken,) = seconds(job, repeats=1 + 2 * scale.repeats)
        what = "`perfed --help`, seconds" if name == "help" else "`import perfed` in a fresh interpreter, seconds"
        detail = f"{min(taken):.2f}–{max(taken):.2f} over {len(taken)} repeats"
        rows.append(Row(f"start-{name}", what, statistics.median(taken), 0.3, False, detail))
    return rows


def flower(scale: Scale) -> list[Row]:
    """The same FedAvg in Flower's simulation, by an interpreter that has it."""
    what = "FedAvg in Flower's simulation: seconds a round over perfed's"
    asked = subprocess.run([scale.flower, "-c", "import flwr.simulation, ray, torch"], capture_output=True, check=False)
    if asked.returncode:
        detail = "not measured: `flwr[simulation]` is missing; `--flower PYTHON` names an interpreter that has it"
        return [Row("flower", what, None, 1.0, True, detail)]
    federation = work.pictures(20, scale.each)
    with tempfile.TemporaryDirectory() as folder:
        export(federation, Path(folder))
        command = [scale.flower, str(Path(__file__).with_name("peer.py")), folder, str(1 + max(2, scale.repeats // 2))]
        environment = os.environ | {"RAY_USAGE_STATS_ENABLED": "0", "FLWR_TELEMETRY_ENABLED": "0"}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
        if not lines:
            return [Row("flower", what, None, 1.0, True, f"failed: {done.stderr.strip()[-200:]}")]
        first, *rest = json.loads(lines[0].removeprefix("RESULT "))["rounds"]
    play = work.Play(federation, "fedavg", Pooled)
    try:
        play()
        (taken,) = seconds(play, repeats=scale.repeats)
    finally:
        play.close()
    theirs, ours = statistics.median(rest), statistics.median(taken)
    detail = f"{theirs:.2f} s against {ours:.2f} s a round; besides, {first - theirs:.1f} s to start; not run in turn"
    return [Row("flower", what, theirs / ours, 1.0, True, detail)]


def in_files(scale: Scale) -> list[Row]:
    """Rounds on samples that lie in a file beside rounds on the same in memory, and a file of 20 GB with 2 GiB allowed."""
    memory = work.pictures(10, scale.each, spread=0)
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "x.npy", memory.x.numpy())
        in_file = replace(memory, x=mapped.seen(np.load(Path(folder) / "x.npy", mmap_mode="r")))
        plays = [work.Play(federation, "fedavg", Serial) for federation in (memory, in_file)]
        near, far = warmed(*plays, repeats=3 * scale.repeats, clock=process_time)
    share, spread = ratio(far, near)
    what = "Rounds on a mapped file over rounds in memory, 4-layer CNN, CPU seconds"
    rows = [Row("mapped", what, share, 1.1, False, spread)]
    size = 20.0 if scale.repeats > 2 else 1.0
    command = [sys.executable, "-m", "benchmarks.mapped", str(size), "2"]
    found = json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()[-1])
    detail = f"RLIMIT_DATA 2 GiB; {found['samples']:,} samples in {found['seconds']:.0f} s, checked, hashed, trained, tested"
    what = f"A round on a sparse file of {size:g} GB: GiB of private memory"
    return [*rows, Row("mapped-large", what, found["private"] / 2**30, 2, False, detail)]


ROWS: dict[str, Callable[[Scale], list[Row]]] = {
    **{f"limit-{name}": lambda scale, name=name: against_the_limit(name, scale) for name in work.METHODS},  # type: ignore[misc]
    "stacked": stacked,
    "metrics": metrics,
    "admission": admission,
    "fasttext": vocabulary,
    "many": many_clients,
    **{f"memory-{name}": lambda scale, name=name: memory(name, scale) for name in ("fedper", "fedcp", "fedcac")},  # type: ignore[misc]
    "memory-held": held,
    "mapped": in_files,
    "bf16": bf16,
    "run": job_of_run,
    "start": starting,
    "flower": flower,
}
