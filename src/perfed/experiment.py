"""A run: create its folder, train its seeds, resume it, sum it up."""

import hashlib
import os
import platform
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any

from . import settings as setting
from .build import federation_of, method_of, samples_of, split_of, stretched, task_of
from .data import Samples
from .errors import RunError
from .evaluate.metrics import defined
from .evaluate.others import others
from .evaluate.summary import majority, runaway, summarise
from .federation import PARTS, Federation
from .files import writing
from .job import Job, OnRound
from .partition import Split
from .record import Lines, alone, digest, get_json, put_json, put_yaml
from .settings import Settings
from .transport import Site, Transport, choose


@dataclass(frozen=True)
class Run:
    """A run's folder and what it holds."""

    path: Path
    settings: Settings

    def summary(self) -> dict[str, Any]:
        return dict(get_json(self.path / "summary.json"))


def ready(settings: Settings, samples: Samples, split: Split) -> None:
    """Refuse what cannot be trained, before anything is written."""
    seed = settings.seeds[0]
    federation, vocabulary = federation_of(settings, samples, split, seed)
    method, task = method_of(settings), task_of(settings, federation, seed, vocabulary)
    method.check(task, federation.sizes, settings.sampling.fewest(len(federation)))
    Site.of(method, task, federation)
    defined(settings.choose, (federation.y[rows] for rows in federation.test), federation.classes)


def run(settings: Settings, on_round: OnRound | None = None, command: str = "") -> Run:
    """Run an experiment from the start in a folder of its own."""
    samples = samples_of(settings)
    splits = {seed: split_of(settings, samples, seed) for seed in settings.seeds}
    ready(settings, samples, splits[settings.seeds[0]])
    folder = create(settings, samples, splits, command)
    return _train(Run(folder, settings), samples, splits, on_round)


def resume(path: Path | str, on_round: OnRound | None = None, rounds: int | None = None) -> Run:
    """Finish a run where its last checkpoint left it, or go on to more rounds; a finished run is left as it is."""
    found = opened(path)
    samples = samples_of(found.settings)
    splits = splits_of(found, samples)
    return _train(found if rounds is None else extended(found, rounds), samples, splits, on_round)


def extended(found: Run, rounds: int) -> Run:
    """Return a run with more rounds to go; it will end in the bits of a run that had this length from the start."""
    extensible(found, rounds)
    if rounds == found.settings.rounds:
        return found
    settings = found.settings.model_copy(update={"rounds": rounds})
    manifest = get_json(found.path / "manifest.json")
    earlier = [*manifest.get("earlier", ()), {"settings": found.settings.digest(), "rounds": found.settings.rounds}]
    put_json(found.path / "manifest.json", manifest | {"settings": settings.digest(), "earlier": earlier})
    put_yaml(found.path / "settings.yaml", settings.plain())
    return Run(found.path, settings)


def extensible(found: Run, rounds: int) -> None:
    """Refuse to go on with a run that would not be what it had been with so many rounds from the start."""
    settings, path = found.settings, found.path
    if rounds < settings.rounds:
        raise RunError(f"'{path}' has {settings.rounds} rounds; it can go on to more, not to {rounds}")
    if rounds > settings.rounds and stretched(settings):
        raise RunError(
            f"'{path}' cannot go on: the schedule of {settings.method.name} is laid out for its {settings.rounds} rounds; "
            f"start a new run with rounds={rounds}"
        )
    if get_json(path / "manifest.json")["command"].startswith("perfed paper "):
        raise RunError(f"'{path}' belongs to a paper's table; `perfed paper … --rounds {rounds}` makes a longer one")


def left(found: Run, rounds: int | None = None) -> int:
    """Return how many rounds a run has to go, the start of each seed counted as one."""
    notes = [found.path / f"seed-{seed}" / "checkpoint.json" for seed in found.settings.seeds]
    done = sum(get_json(note)["round"] + 1 for note in notes if note.exists())
    return len(notes) * ((rounds or found.settings.rounds) + 1) - int(done)


def splits_of(found: Run, samples: Samples) -> dict[int, Split]:
    """Return the splits that a run was started with; data or splits that changed since are refused."""
    manifest = get_json(found.path / "manifest.json")
    if "data" not in manifest:
        raise RunError(
            f"'{found.path}' is the server's record of a deployment: data and private states are at the silos, where "
            "`perfed export SILO` writes a model; `perfed deploy run` goes on with it"
        )
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
        inside = sorted(note.parent.name for note in folder.glob("*/settings.yaml"))
        hint = f", but holds {', '.join(inside)}: name one" if inside else ": it has no settings.yaml and manifest.json"
        raise RunError(f"'{folder}' is no run{hint}")
    settings = setting.build(setting.read_yaml(folder / "settings.yaml"))
    manifest = get_json(folder / "manifest.json")
    earlier = {known["settings"] for known in manifest.get("earlier", ())}  # as it stood before the run was extended
    if settings.digest() not in {manifest.get("settings"), *earlier}:
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
    with writing(folder):
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
        with writing(folder):
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
    if finished(found, seed):
        return
    folder = found.path / f"seed-{seed}"
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


def finished(found: Run, seed: int) -> bool:
    """Return whether a seed has all the rounds that its run asks for."""
    final = found.path / f"seed-{seed}" / "final.json"
    return final.exists() and get_json(final)["rounds"] >= found.settings.rounds


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
    options = {"report": settings.report, "best": settings.best, "series": settings.series, "choose": settings.choose}
    put_json(
        found.path / "summary.json",
        {
            "method": settings.method.name,
            "rounds": settings.rounds,
            "seeds": list(seeds),
            "seconds": round(sum(line["seconds"] for own in lines.values() for line in own), 3),
            "transport": transports[str(seeds[0])]["name"],
            "choose": settings.choose,
            "accuracy": summarise(lines, **options),
            "metrics": others(lines, **options),
            "majority": majority(who),
            "runaway": {str(seed): since for seed, own in lines.items() if (since := runaway(own)) is not None},
            "bytes_up": total["up"],
            "bytes_down": total["down"],
            "run": str(found.path),
            "digest": digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest(),
            "digests": {str(seed): finals[seed]["digest"] for seed in seeds},
        },
    )
    return found
