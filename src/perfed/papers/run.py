"""Run the cells of a table: every experiment once, in folders that tables share, going on where an earlier call stopped.

``FOLDER/cells`` has one run folder per experiment, named after what decides its results; ``FOLDER/fedcp-table2`` has what
was asked for last in every cell (``cells.json``), the table and the page.
"""

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from perfed import cells, experiment
from perfed.build import samples_of, split_of
from perfed.data import Samples
from perfed.errors import PerfedError, RunError
from perfed.experiment import Run
from perfed.job import OnRound
from perfed.papers.flat import Flat
from perfed.papers.plan import Plan
from perfed.papers.recipe import Recipe
from perfed.partition import Split
from perfed.record import get_json, put_json, put_yaml
from perfed.settings import Settings

Note = Callable[[str], None]


@dataclass
class Work:
    """What a call has to do, and what became of it."""

    recipe: Recipe
    plans: Sequence[Plan]
    out: Path
    command: str = ""
    workers: int | None = None
    patience: int | None = None  # a seed stops when its curve has been flat for so many rounds
    most: int | None = None  # and after so many in any case
    refused: dict[str, str] = field(default_factory=dict)  # a cell's folder and why it was not run
    done: int = 0

    @property
    def folder(self) -> Path:
        """Where the table and the page are."""
        return self.out / self.recipe.name.replace("/", "-")

    def path(self, plan: Plan) -> Path:
        """Return the folder of a cell's run."""
        return self.out / "cells" / plan.key

    @property
    def unique(self) -> dict[str, Settings]:
        """The different experiments, those on the same data next to each other; seeds asked for by several cells join."""
        found: dict[str, Settings] = {}
        for plan in self.plans:
            if plan.settings is None:
                continue
            seeds = sorted({*plan.settings.seeds, *(found[plan.key].seeds if plan.key in found else ())})
            found[plan.key] = plan.settings.model_copy(update={"seeds": tuple(seeds)})
        return dict(sorted(found.items(), key=lambda entry: str(entry[1].data.plain())))

    def left(self, key: str, settings: Settings) -> list[int]:
        """Return the seeds of an experiment that are not finished."""
        return [s for s in settings.seeds if not self._done(self.out / "cells" / key / f"seed-{s}" / "final.json", settings)]

    def _done(self, note: Path, settings: Settings) -> bool:
        """Whether a seed has all its rounds, or was flat for long enough where that is enough."""
        if not note.exists():
            return False
        final = get_json(note)
        if final["rounds"] >= settings.rounds:
            return True
        rule = self.stop(settings)
        return rule is not None and rule.enough(final.get("stopped"))

    def stop(self, settings: Settings) -> Flat | None:
        """Return what ends a seed of an experiment before its last round, if anything."""
        if self.patience is None:
            return None
        return Flat(self.patience, self.most, settings.report, settings.series, settings.every)

    def stops(self) -> list[str]:
        """Say what ends a seed early, and on which curve; refuse a patience with too few tests."""
        if self.patience is None:
            return []
        for settings in self.unique.values():
            self.stop(settings)
        said = [f"a seed stops when {self.patience} rounds are on average not above all such blocks before by more than noise"]
        for series in sorted({settings.series for settings in self.unique.values() if not settings.validation}):
            said.append(f"nothing is held back for validation: flat is what the {series} curve is, whose best round is reported")
        return said

    @property
    def rounds(self) -> int:
        """Rounds to run at most, the start of each seed counted as one."""
        return sum(len(self.left(key, s)) * (s.rounds + 1) for key, s in self.unique.items())


def run(work: Work, on_round: OnRound | None = None, note: Note | None = None) -> None:
    """Run what is not there yet and write down what was asked for."""
    (work.out / "cells").mkdir(parents=True, exist_ok=True)
    todo = {key: settings for key, settings in work.unique.items() if work.left(key, settings)}
    count = sum(len(work.left(key, settings)) for key, settings in todo.items())
    remember(work)

    def refused(cell: cells.Cell, why: str) -> None:
        work.refused[cell.run.path.name] = f"seed {cell.seed}: {why}"
        tell(note, f"{cell.run.path.name} seed {cell.seed}: {why}")

    def done(cell: cells.Cell) -> None:
        work.done += 1
        tell(note, f"{work.done} of {count}: {cell.run.path.name} seed {cell.seed}")

    with ExitStack() as locks:
        workers = min(work.workers or os.cpu_count() or 1, count)
        if any(settings.device != "cpu" for settings in todo.values()):
            workers = 1
        cells.train(_cells(work, todo, locks, note), workers, on_round, refused, done)
    for key, settings in work.unique.items():
        path = work.out / "cells" / key
        if (path / "manifest.json").exists() and not work.left(key, settings):
            found = experiment.opened(path)
            if all((path / f"seed-{seed}" / "final.json").exists() for seed in found.settings.seeds):
                experiment.finish(found)
    remember(work)


def tell(note: Note | None, text: str) -> None:
    """Say something to whoever listens."""
    if note:
        note(text)


def _cells(work: Work, todo: dict[str, Settings], locks: ExitStack, note: Note | None) -> Iterator[cells.Cell]:
    """Yield what is to be trained; a data set is read when its first experiment begins."""
    samples: Samples | None = None
    loaded = ""
    for key, settings in todo.items():
        try:
            if samples is None or str(settings.data.plain()) != loaded:
                samples, loaded = samples_of(settings), str(settings.data.plain())
            if not lock(work.out / "cells" / f"{key}.lock", locks):
                work.refused[key] = "another perfed is running it"
                tell(note, f"{key}: {work.refused[key]}")
                continue
            found, splits = _folder(work, key, settings, samples)
            found = replace(found, stop=work.stop(settings))
        except PerfedError as wrong:
            work.refused[key] = str(wrong)
            tell(note, f"{key}: {wrong}")
            continue
        for seed in work.left(key, settings):
            yield cells.Cell(found, seed, samples, splits[seed])


def lock(path: Path, locks: ExitStack) -> bool:
    """Take a cell for this process, until ``locks`` is left or the process ends; False if another one has it."""
    file = path.open("a")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        return False

    def release() -> None:
        path.unlink(missing_ok=True)
        file.close()

    locks.callback(release)
    return True


def _folder(work: Work, key: str, settings: Settings, samples: Samples) -> tuple[Run, dict[int, Split]]:
    """Return an experiment's run folder, made or given further seeds where necessary."""
    path = work.out / "cells" / key
    if not (path / "manifest.json").exists():
        shutil.rmtree(path, ignore_errors=True)  # an earlier call ended while making it
        splits = {seed: split_of(settings, samples, seed) for seed in settings.seeds}
        experiment.ready(settings, samples, splits[settings.seeds[0]])
        experiment.create(_at(settings, path), samples, splits, work.command)
        return experiment.opened(path), splits
    found = experiment.opened(path)
    if not all((path / f"seed-{seed}" / "split.safetensors").exists() for seed in found.settings.seeds):
        raise RunError(f"'{path}' keeps the record of a run without its states; --out names another folder to run it in")
    further = tuple(seed for seed in settings.seeds if seed not in found.settings.seeds)
    if further:
        found = extend(found, further, samples)
    return found, experiment.splits_of(found, samples)


def extend(found: Run, seeds: tuple[int, ...], samples: Samples) -> Run:
    """Give a run further seeds; those it has stay as they are."""
    beside = found.path.with_name(f"{found.path.name}.more")
    shutil.rmtree(beside, ignore_errors=True)
    settings = found.settings.model_copy(update={"seeds": seeds})
    splits = {seed: split_of(settings, samples, seed) for seed in seeds}
    experiment.create(_at(settings, beside), samples, splits)
    manifest, more = get_json(found.path / "manifest.json"), get_json(beside / "manifest.json")
    for seed in seeds:
        shutil.rmtree(found.path / f"seed-{seed}", ignore_errors=True)  # left by a call that ended right here
        (beside / f"seed-{seed}").rename(found.path / f"seed-{seed}")
    whole = found.settings.model_copy(update={"seeds": tuple(sorted({*found.settings.seeds, *seeds}))})
    put_json(found.path / "manifest.json", manifest | {"splits": manifest["splits"] | more["splits"]})
    put_yaml(found.path / "settings.yaml", whole.plain())
    shutil.rmtree(beside)
    return experiment.opened(found.path)


def _at(settings: Settings, path: Path) -> Settings:
    return settings.model_copy(update={"out": path.parent, "name": path.name})


def remember(work: Work) -> dict[str, dict[str, Any]]:
    """Write down, cell by cell, which run answers it and what was reduced; earlier answers of other cells stay."""
    place = work.folder / "cells.json"
    work.folder.mkdir(parents=True, exist_ok=True)
    known: dict[str, dict[str, Any]] = recalled(place)
    for plan in work.plans:
        if plan.settings is None:
            if plan.name not in known or not known[plan.name].get("run"):
                known[plan.name] = {"missing": plan.missing}
            continue
        path = work.path(plan)
        known[plan.name] = {
            "run": os.path.relpath(path, work.folder),
            "reduced": list(plan.reduced),
            "place": plan.place,
            "stand_in": _stands_in(work.recipe, plan),
            "refused": work.refused.get(plan.key, ""),
            "command": work.command,
        }
    put_json(place, known)
    return known


def recalled(place: Path) -> dict[str, dict[str, Any]]:
    """Return what was asked for before, cell by cell."""
    return dict(get_json(place)) if place.exists() else {}


def _stands_in(recipe: Recipe, plan: Plan) -> bool:
    assert plan.settings is not None
    return bool(recipe.settings(plan.row, plan.column)["data"] != plan.settings.data.name)
