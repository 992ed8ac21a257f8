"""What stands in a folder of runs: each with its state, how far it is, how well it does and how large it is."""

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .disk import locked
from .errors import PerfedError, RunError
from .evaluate.metrics import known, learn
from .evaluate.summary import average, choose, main
from .runs.folder import CompareFolder, RunFolder, SeedFolder
from .runs.parse import flat
from .runs.proof import Proof
from .runs.race.folder import RaceFolder
from .runs.verify import verify

STATES = ("finished", "running", "stopped", "damaged")


@dataclass(frozen=True)
class Shelved:
    """A run or a comparison on the shelf."""

    path: Path
    what: str  # methods and data
    began: str
    done: int  # rounds over all seeds and methods
    total: int
    best: float | None  # the best method's main score, in the round that was best
    scored: str  # what the main score is
    size: int  # bytes
    state: str  # one of STATES
    why: str = ""  # of damage

    def plain(self) -> dict[str, Any]:
        """Return the entry as JSON holds it."""
        return self.__dict__ | {"path": str(self.path)}


def entries(root: Path) -> list[Shelved]:
    """Return every run and comparison in a folder or below, the latest last."""
    if not root.is_dir():
        raise RunError(f"there is no folder '{root}'; `perfed run` makes one, out= names another")
    return sorted((entry(path) for path in folders(root)), key=lambda own: (own.began, str(own.path)))


def folders(root: Path) -> Iterator[Path]:
    """Yield the folders of runs, comparisons and races; the runs of a comparison or a race are part of it."""
    if RaceFolder.there(root) or CompareFolder.there(root) or RunFolder.there(root):
        yield root
        return
    for path in sorted(root.iterdir()):
        if path.is_dir() and not path.is_symlink():
            yield from folders(path)


def runs(path: Path) -> list[RunFolder]:
    """Return the run in a folder, or the runs of a comparison; of a race those on fresh seeds, before these its candidates."""
    if RaceFolder.there(path):
        race = RaceFolder(path)
        return race.final.runs if race.tested else race.runs
    if CompareFolder.there(path):
        return CompareFolder(path).runs
    if RunFolder.there(path):
        return [RunFolder(path)]
    raise RunError(f"'{path}' is no run and no comparison; `perfed runs` lists them")


def entry(path: Path) -> Shelved:
    """Return what is known of a run or a comparison; damage is part of it."""
    size = weight(path)
    try:
        own = runs(path)
        settings = [run.settings for run in own]
        reached = [seed.done for run in own for seed in run.seeds.values()]
        total = sum(len(asked["seeds"]) * int(asked["rounds"]) for asked in settings)
        ended = all(seed.final is not None for run in own for seed in run.seeds.values())
        busy = any(trained(seed) for run in own for seed in run.seeds.values())
        methods = ", ".join(dict.fromkeys(name(asked["method"]) for asked in settings))
        state = "running" if busy else "finished" if ended else "stopped"
        best = max((score for run in own if (score := best_of(run)) is not None), default=None)
        what = f"{methods} on {name(settings[0]['data'])}"
        return Shelved(path, what, str(own[0].manifest["began"]), sum(reached), total, best, scored_by(own), size, state)
    except (PerfedError, KeyError, TypeError, ValueError, IndexError) as wrong:
        return Shelved(path, "?", "", 0, 0, None, "", size, "damaged", str(wrong))


def name(choice: Any) -> str:
    """Return the name in a setting that may have options."""
    return str(choice["name"] if isinstance(choice, Mapping) else choice)


def trained(seed: SeedFolder) -> bool:
    """Return whether a process trains in a seed's folder at this moment."""
    lock = seed.path / "lock"
    if not lock.exists():
        return False
    with locked(lock) as held:
        return not held


def best_of(run: RunFolder) -> float | None:
    """Return the main score (accuracy for classes) of the best round so far, averaged over seeds."""
    if run.summed:
        found = run.summary["accuracy"]["best"]
        return None if not found else float(found["weighted"]["mean"])
    learn(run.manifest.get("metrics") or {})
    by, peaks = str(run.settings.get("choose") or "accuracy"), []
    for seed in run.seeds.values():
        line = choose(seed.lines.read(), "best", by=by)
        peaks += [average(line["test"])] if line is not None else []
    return sum(peaks) / len(peaks) if peaks else None


def proofs(root: Path) -> list[Proof]:
    """Return what can be proved of every run, comparison and race in a folder or below."""
    if not root.is_dir():
        raise RunError(f"there is no folder '{root}'; `perfed runs verify FOLDER` proves the records in it")
    return [verify(path) for path in folders(root)]


def scored_by(found: list[RunFolder]) -> str:
    """Return the words for the main score of runs; none where nothing was tested yet."""
    for seed in (seed for run in found for seed in run.seeds.values()):
        line = next((line for line in seed.lines.read() if line.get("test")), None)
        if line is not None:
            return known(main(line["test"])).title
    return ""


def weight(path: Path) -> int:
    """Return the bytes of all files below a folder."""
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file() and not file.is_symlink())


def remove(path: Path) -> int:
    """Delete a run or a comparison; return the bytes that were freed."""
    if any(trained(seed) for run in runs(path) for seed in run.seeds.values()):
        raise RunError(f"'{path}' is being trained; end that first")
    size = weight(path)
    shutil.rmtree(path)
    return size


def spare(root: Path) -> dict[str, list[Path]]:
    """Return files that can go, by why: half-written ones, snapshots, and the states of finished runs."""
    found: dict[str, list[Path]] = {"half-written": [], "snapshots": [], "states": []}
    for path in folders(root):
        try:
            seeds = [seed for run in runs(path) for seed in run.seeds.values() if not trained(seed)]
            found["half-written"] += [half for seed in seeds for half in sorted(seed.path.rglob("*.half"))]
            found["snapshots"] += [kept for seed in seeds for kept in seed.snapshots.values()]
            found["states"] += [state for seed in seeds if seed.final is not None for state in seed.states]
        except PerfedError:
            continue  # what is damaged is not touched
    return found


def differences(one: RunFolder, other: RunFolder) -> list[tuple[str, str, str]]:
    """Return the settings and results in which two runs differ."""
    rows = []
    first, second = (flat(run.settings) | results(run) for run in (one, other))
    for key in dict.fromkeys([*first, *second]):
        here, there = str(first.get(key, "–")), str(second.get(key, "–"))
        if here != there:
            rows.append((key, here, there))
    return rows


def results(run: RunFolder) -> dict[str, str]:
    """Return what a run came to, as a table shows it."""
    if not run.summed:
        return {}
    found = run.summary
    moments = {moment: own for moment in ("best", "last", "validation") if (own := found["accuracy"].get(moment))}
    name = scored_by([run]) or "accuracy"
    scores = {f"{name}, {moment}": f"{own['weighted']['mean']:.4f}" for moment, own in moments.items()}
    return scores | {"seconds": f"{found['seconds']:.1f}", "bytes up": str(found["bytes_up"]), "digest": found["digest"][:12]}
