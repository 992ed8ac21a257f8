"""From settings to trained clients: build the federation, run the seeds, keep the record."""

import hashlib
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from . import keys, methods, models, record
from . import settings as setting
from .data import Samples
from .data import load as load_samples
from .data.inputs import inputs_for
from .data.text import Vocabulary, tokenised
from .errors import InputError, RunError
from .evaluate.summary import majority, summarise
from .federation import PARTS, Federation
from .method import Method
from .partition import Split
from .partition import build as build_partition
from .partition import split as make_split
from .record import Lines, alone, digest, get_json, keep_state, load_state, put_json, put_yaml, save_state
from .rounds import Protocol, Round, rounds
from .settings import Settings
from .task import Task
from .transport import Private, Score, Site, Store, Transport, choose
from .trees import Tree

OnRound = Callable[[int, Round], None]  # seed, what the round produced


def method_of(settings: Settings) -> Method[Any, Any, Any, Any]:
    """Return the method that the settings name, its fields checked; a schedule's length is the experiment's."""
    kind = methods.find(settings.method.name)
    options = dict(settings.method.options)
    names = {f.name for f in fields(kind)}
    for taken in ("budget", "norm"):
        if taken in options:
            raise InputError(
                f"method.{taken} is set as {taken}{'.…' if taken == 'budget' else ''}: it is the same for all methods"
            )
    if "rounds" in names:
        options.setdefault("rounds", settings.rounds)
    if settings.norm is not None:
        options["norm"] = settings.norm
    made: Method[Any, Any, Any, Any] = setting.record(kind, options, "method.")
    return replace(made, budget=settings.budget)


def samples_of(settings: Settings) -> Samples:
    """Return the data set that the settings name."""
    return load_samples(settings.data.name, **settings.data.options)


def split_of(settings: Settings, samples: Samples, seed: int) -> Split:
    """Return who owns what: the given file, or a fresh split."""
    if settings.split is not None:
        return Split.load(settings.split, samples.digest())
    partition = build_partition(settings.partition.name, **settings.partition.options)
    grouped = settings.partition.name in ("domains", "natural")
    clients = settings.clients if settings.clients is not None or grouped else 20
    owner = seed if settings.split_seed is None else settings.split_seed
    return make_split(samples, partition, clients, owner, settings.validation, settings.test)


def federation_of(settings: Settings, samples: Samples, split: Split, seed: int) -> tuple[Federation, Vocabulary | None]:
    """Return the clients' data ready for training, and the vocabulary of their training texts where there are any."""
    vocabulary = None
    if samples.texts is not None:
        rows = sorted({int(row) for own in split.train for row in own})
        samples, vocabulary = tokenised(samples, rows, **settings.text)
    inputs = inputs_for(samples, augment=settings.augment, **settings.inputs)
    made = Federation.of(samples, split, inputs, seed=seed, augment=settings.augment)
    return made.to(settings.device), vocabulary


def task_of(settings: Settings, federation: Federation, seed: int, vocabulary: Vocabulary | int | None = None) -> Task:
    """Return the network that all clients start from, drawn from the seed."""
    example = federation.inputs(federation.x[:2], None)
    shape = tuple(example.shape[1:])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(keys.seed_of(keys.key(seed, "network")))
        net = models.build(
            settings.model.name,
            shape=shape,
            classes=federation.classes,
            vocabulary=vocabulary,
            **settings.model.options,
        )
    return Task.of(
        net, shape, federation.classes, seed=seed, device=settings.device, example=example, precision=settings.precision
    )


@dataclass(frozen=True)
class Run:
    """A run's folder and what it holds."""

    path: Path
    settings: Settings

    def summary(self) -> dict[str, Any]:
        return dict(get_json(self.path / "summary.json"))


class Job:
    """One seed of a run: everything in memory that its rounds need."""

    def __init__(self, settings: Settings, seed: int, folder: Path, samples: Samples, split: Split) -> None:
        self.settings, self.seed, self.folder = settings, seed, folder
        self.federation, vocabulary = federation_of(settings, samples, split, seed)
        if vocabulary is not None and not (folder / "vocabulary.json").exists():
            vocabulary.save(folder / "vocabulary.json")
        task = task_of(settings, self.federation, seed, vocabulary)
        self.method = method_of(settings)
        self.method.check(task, self.federation.sizes, settings.sampling.fewest(len(self.federation)))
        self.site, self.server, first = Site.of(self.method, task, self.federation)
        self.store = Store(first, len(self.federation), int(settings.memory * 2**30))
        self.template = Private(first.mine, dict(self.site.withheld.start))
        self.lines = Lines(folder / "rounds.jsonl")
        self.first = 0

    def restore(self) -> None:
        """Go back to the last checkpoint, or to the start where there is none."""
        if (self.folder / "checkpoint.json").exists():
            self.first, self.server = load_state(self.folder, self.server, self.store, self.template)
            self.lines.cut(self.first)
        else:
            self.lines.path.unlink(missing_ok=True)

    def train(self, transport: Transport, on_round: OnRound | None) -> Tree:
        """Run the rounds that are left; every line is on disk before the next round."""
        s, saved = self.settings, time.monotonic()
        protocol = Protocol(s.every, s.after, ("test", "validation") if any(map(len, self.federation.validation)) else ("test",))
        began = perf_counter()
        last: Round | None = None
        try:
            for done in rounds(
                self.method,
                self.server,
                transport,
                s.sampling,
                protocol,
                seed=self.seed,
                clients=len(self.federation),
                count=s.rounds,
                first=self.first,
            ):
                self.lines.append(line_of(done, perf_counter() - began, len(self.federation)))
                began, last = perf_counter(), done
                if done.number and (time.monotonic() - saved >= s.checkpoint or done.number == s.rounds):
                    self._save(done)
                    saved = time.monotonic()
                if s.snapshots and done.number % s.snapshots == 0:
                    keep_state(self.folder / "snapshots", done.number, done.server, self.store)
                if on_round:
                    on_round(self.seed, done)
        except KeyboardInterrupt:
            if last is not None and last.number:
                self._save(last)
            raise
        return last.server if last is not None else self.server

    def _save(self, done: Round) -> None:
        self.lines.sync()
        save_state(self.folder, done.number, done.server, self.store)


def line_of(done: Round, seconds: float, clients: int) -> dict[str, Any]:
    """Return a round as a line of the record."""
    line: dict[str, Any] = {
        "round": done.number,
        "participants": done.participants,
        "seconds": round(seconds, 6),
        "seconds_train": round(done.seconds_train, 6),
        "seconds_test": round(done.seconds_test, 6),
        "bytes_up": sum(done.up.values()),
        "bytes_down": sum(done.down.values()),
        "up": done.up,
        "down": done.down,
    }
    for part, scores in done.scores.items():
        line[part] = _columns(scores)
    if done.after:
        line["after"] = _columns([done.after.get(i) for i in range(clients)])
    return line


def round_of(line: dict[str, Any], server: Tree) -> Round:
    """Return a line of the record as the round it was."""
    scores = {
        part: [Score(c, n, float("nan") if z is None else z) for c, n, z in zip(*own.values(), strict=True)]
        for part in ("test", "validation")
        if (own := line.get(part))
    }
    return Round(
        line["round"],
        server,
        line["participants"],
        line["up"],
        line["down"],
        scores,
        seconds_train=line["seconds_train"],
        seconds_test=line["seconds_test"],
    )


def _columns(scores: Sequence[Score | None]) -> dict[str, list[Any]]:
    loss = [None if s is None or s.loss != s.loss or abs(s.loss) == float("inf") else round(s.loss, 6) for s in scores]
    return {
        "correct": [None if s is None else s.correct for s in scores],
        "count": [None if s is None else s.count for s in scores],
        "loss": loss,
    }


def ready(settings: Settings, samples: Samples, split: Split) -> None:
    """Refuse what cannot be trained, before anything is written."""
    seed = settings.seeds[0]
    federation, vocabulary = federation_of(settings, samples, split, seed)
    method, task = method_of(settings), task_of(settings, federation, seed, vocabulary)
    method.check(task, federation.sizes, settings.sampling.fewest(len(federation)))
    Site.of(method, task, federation)


def run(settings: Settings, on_round: OnRound | None = None, command: str = "") -> Run:
    """Run an experiment from the start in a folder of its own."""
    samples = samples_of(settings)
    splits = {seed: split_of(settings, samples, seed) for seed in settings.seeds}
    ready(settings, samples, splits[settings.seeds[0]])
    folder = create(settings, samples, splits, command)
    return _train(Run(folder, settings), samples, splits, on_round)


def resume(path: Path | str, on_round: OnRound | None = None) -> Run:
    """Finish a run where its last checkpoint left it; a finished run is left as it is."""
    found = opened(path)
    samples = samples_of(found.settings)
    return _train(found, samples, splits_of(found, samples), on_round)


def splits_of(found: Run, samples: Samples) -> dict[int, Split]:
    """Return the splits that a run was started with; data or splits that changed since are refused."""
    manifest = get_json(found.path / "manifest.json")
    if manifest["data"] != samples.digest():
        raise RunError(f"the data set '{found.settings.data.name}' is not the one that '{found.path}' was started with")
    splits = {}
    for seed in found.settings.seeds:
        path = found.path / f"seed-{seed}" / "split.safetensors"
        splits[seed] = Split.load(path)
        if splits[seed].digest() != manifest["splits"][str(seed)]:
            raise RunError(f"'{path}' is not the split the run was started with")
    return splits


def opened(path: Path | str) -> Run:
    """Return a run's folder with its settings, checked against the manifest."""
    folder = Path(path)
    if not (folder / "settings.yaml").is_file() or not (folder / "manifest.json").is_file():
        raise RunError(f"'{folder}' is no run: it has no settings.yaml and manifest.json")
    settings = setting.build(setting.read_yaml(folder / "settings.yaml"))
    manifest = get_json(folder / "manifest.json")
    if settings.digest() != manifest.get("settings"):
        raise RunError(f"'{folder / 'settings.yaml'}' was changed after the run began; start a new run instead")
    return Run(folder, settings)


def create(settings: Settings, samples: Samples, splits: dict[int, Split], command: str = "") -> Path:
    """Make a run's folder: settings, manifest, splits, and who the clients are."""
    if (settings.out / "manifest.json").exists() or (settings.out / "settings.yaml").exists():
        raise RunError(f"'{settings.out}' is itself a run; `out` is the folder in which run folders are made")
    stem = (
        settings.name
        or f"{settings.method.name}-{settings.data.name.replace('/', '_').replace(':', '_')}-{settings.digest()[:8]}"
    )
    folder = settings.out / stem
    with record.writing(folder):
        if settings.name is None:
            number = 1
            while folder.exists():
                number += 1
                folder = settings.out / f"{stem}-{number}"
        elif folder.exists() and any(folder.iterdir()):
            raise RunError(f"'{folder}' already holds a run; `perfed resume {folder}` finishes it, another name starts a new one")
        folder.mkdir(parents=True, exist_ok=True)
        for seed in splits:
            (folder / f"seed-{seed}").mkdir()
    for seed, split in splits.items():
        with record.writing(folder):
            split.save(folder / f"seed-{seed}" / "split.safetensors")
        put_json(folder / f"seed-{seed}" / "clients.json", _clients(samples, split))
    put_yaml(folder / "settings.yaml", settings.plain())
    put_json(folder / "manifest.json", _manifest(settings, samples, splits, command))
    return folder


def _clients(samples: Samples, split: Split) -> dict[str, Any]:
    who = Federation.of(samples, split, lambda x, key: x)
    correct, count = who.majority()
    return {
        "names": list(split.names),
        **{part: [len(rows) for rows in getattr(split, part)] for part in PARTS},
        "labels": who.counts().tolist(),
        "classes": list(samples.classes),
        "majority": {"correct": correct, "count": count},
    }


def _manifest(settings: Settings, samples: Samples, splits: dict[int, Split], command: str) -> dict[str, Any]:
    from importlib.metadata import version

    names = ("perfed", "torch", "numpy", "safetensors")
    return {
        "began": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": command,
        "commit": _commit(),
        "versions": {"python": platform.python_version(), **{name: version(name) for name in names}},
        "machine": {"system": platform.platform(), "processor": _processor(), "cores": os.cpu_count()},
        "threads": 1,
        "device": settings.device,
        "settings": settings.digest(),
        "data": samples.digest(),
        "splits": {str(seed): split.digest() for seed, split in splits.items()},
    }


def _commit() -> str | None:
    asked = subprocess.run(
        ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    )
    return asked.stdout.strip() or None


def _processor() -> str:
    if sys.platform == "linux":
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def _train(found: Run, samples: Samples, splits: dict[int, Split], on_round: OnRound | None) -> Run:
    for seed in found.settings.seeds:
        train_seed(found, seed, samples, splits[seed], on_round)
    return finish(found)


def train_seed(found: Run, seed: int, samples: Samples, split: Split, on_round: OnRound | None = None) -> None:
    """Run what is left of one seed; a finished seed costs nothing."""
    folder = found.path / f"seed-{seed}"
    if (folder / "final.json").exists():
        return
    with alone(folder):
        job = Job(found.settings, seed, folder, samples, split)
        job.restore()
        transport = _transport(found, job)
        began = perf_counter()
        try:
            server = job.train(transport, on_round)
        finally:
            transport.close()
        final = {
            "digest": digest(server, job.store),
            "rounds": found.settings.rounds,
            "seconds": round(perf_counter() - began, 3),
        }
        put_json(folder / "final.json", final)


def _transport(found: Run, job: Job) -> Transport:
    """Return the transport of a seed: what it began with, else what another seed measured, else what is asked for."""
    note, asked, workers = job.folder / "transport.json", found.settings.transport, found.settings.workers
    if note.exists():  # never change arithmetic in the middle
        return choose(job.site, job.store, get_json(note)["name"], workers)[0]
    others = sorted(found.path.glob("seed-*/transport.json")) if asked == "auto" else []
    if others:
        told = get_json(others[0])
        transport, _ = choose(job.site, job.store, told["name"], workers)
        why = {"why": f"as measured for {others[0].parent.name}"}
    else:
        transport, why = choose(job.site, job.store, asked, workers)
    put_json(note, {"name": transport.name, **why})
    return transport


def finish(found: Run) -> Run:
    """Write the summary of a run whose seeds are all there."""
    settings, seeds = found.settings, found.settings.seeds
    finals = {seed: get_json(found.path / f"seed-{seed}" / "final.json") for seed in seeds}
    lines = {seed: Lines(found.path / f"seed-{seed}" / "rounds.jsonl").read() for seed in seeds}
    who = {seed: get_json(found.path / f"seed-{seed}" / "clients.json") for seed in seeds}
    transports = {str(seed): get_json(found.path / f"seed-{seed}" / "transport.json") for seed in seeds}
    manifest = get_json(found.path / "manifest.json")
    put_json(found.path / "manifest.json", manifest | {"transport": transports})
    digests = [finals[seed]["digest"] for seed in seeds]
    total = {way: sum(line[f"bytes_{way}"] for own in lines.values() for line in own) for way in ("up", "down")}
    put_json(
        found.path / "summary.json",
        {
            "method": settings.method.name,
            "rounds": settings.rounds,
            "seeds": list(seeds),
            "seconds": round(sum(line["seconds"] for own in lines.values() for line in own), 3),
            "transport": transports[str(seeds[0])]["name"],
            "accuracy": summarise(lines, report=settings.report, best=settings.best, series=settings.series),
            "majority": majority(who),
            "bytes_up": total["up"],
            "bytes_down": total["down"],
            "run": str(found.path),
            "digest": digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest(),
            "digests": {str(seed): finals[seed]["digest"] for seed in seeds},
        },
    )
    return found
