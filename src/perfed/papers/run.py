"""Run the cells of a table: every experiment once, in folders that tables share, going on where an earlier call stopped.

``FOLDER/cells`` has one run folder per experiment, named after what decides its results; ``FOLDER/fedcp-table2`` has what
was asked for last in every cell (``cells.json``), the table and the page.
"""

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..data import Samples
from ..disk import get_object, locked, put_json
from ..errors import PerfedError, RunError
from ..machine import cores
from ..runs import parallel
from ..runs.assemble import SharedData, samples_of
from ..runs.experiment import Experiment
from ..runs.folder import RunFolder
from ..runs.run import begin, reshared, sum_up
from ..runs.seed import OnRound
from .flat import Flat
from .plan import Plan
from .recipe import Recipe

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

    def cell(self, key: str) -> RunFolder:
        """Return an experiment's run, whether it is there or not."""
        return RunFolder(self.out / "cells" / key)

    def path(self, plan: Plan) -> Path:
        """Return the folder of a cell's run."""
        return self.cell(plan.key).path

    @property
    def unique(self) -> dict[str, Experiment]:
        """The different experiments, those on the same data next to each other; seeds asked for by several cells join."""
        found: dict[str, Experiment] = {}
        for plan in self.plans:
            if plan.settings is None:
                continue
            seeds = sorted({*plan.settings.seeds, *(found[plan.key].seeds if plan.key in found else ())})
            found[plan.key] = plan.settings.but(seeds=tuple(seeds))
        return dict(sorted(found.items(), key=lambda entry: str(entry[1].data.plain())))

    def left(self, key: str, settings: Experiment) -> list[int]:
        """Return the seeds of an experiment that are not finished."""
        return [seed for seed in settings.seeds if not self._done(self.cell(key).seed(seed).final, settings)]

    def _done(self, final: dict[str, Any] | None, settings: Experiment) -> bool:
        """Whether a seed has all its rounds, or was flat for long enough where that is enough."""
        if final is None:
            return False
        if final["rounds"] >= settings.rounds:
            return True
        rule = self.stop(settings)
        return rule is not None and rule.enough(final.get("stopped"))

    def stop(self, settings: Experiment) -> Flat | None:
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

    def refused(cell: parallel.Cell, why: str) -> None:
        work.refused[cell.run.path.name] = f"seed {cell.seed}: {why}"
        tell(note, f"{cell.run.path.name} seed {cell.seed}: {why}")

    def done(cell: parallel.Cell) -> None:
        work.done += 1
        tell(note, f"{work.done} of {count}: {cell.run.path.name} seed {cell.seed}")

    for settings in todo.values():
        settings.engine.check()
    with ExitStack() as locks:
        workers = min(work.workers or cores(), count)
        if any(settings.device != "cpu" or settings.devices for settings in todo.values()):
            workers = 1
        engine = next((settings.engine for settings in todo.values()), None)
        parallel.train(_cells(work, todo, locks, note), workers, on_round, refused, done, engine)
    for key, settings in work.unique.items():
        folder = work.cell(key)
        if folder.complete and not work.left(key, settings):
            asked = folder.experiment
            if all(folder.seed(seed).finished() for seed in asked.seeds):
                sum_up(folder)
    remember(work)


def prepare(work: Work, note: Note | None = None) -> None:
    """Make the folders of the cells that are not there yet, and train none; `perfed cell` does."""
    (work.out / "cells").mkdir(parents=True, exist_ok=True)
    with ExitStack() as locks:
        made = sum(1 for _ in _cells(work, work.unique, locks, note))
    remember(work)
    tell(note, f"{made} cells to train in {work.out}; `perfed cells {work.out} --list` names them, `perfed cell` trains one")


def tell(note: Note | None, text: str) -> None:
    """Say something to whoever listens."""
    if note:
        note(text)


def _cells(work: Work, todo: dict[str, Experiment], locks: ExitStack, note: Note | None) -> Iterator[parallel.Cell]:
    """Yield what is to be trained; a data set is read when its first experiment begins."""
    samples: Samples | None = None
    loaded = ""
    for key, settings in todo.items():
        try:
            if samples is None or str(settings.data.plain()) != loaded:
                samples, loaded = samples_of(settings), str(settings.data.plain())
            lock = work.out / "cells" / f"{key}.lock"
            if not locks.enter_context(locked(lock)):
                work.refused[key] = "another perfed is running it"
                tell(note, f"{key}: {work.refused[key]}")
                continue
            locks.callback(lock.unlink, missing_ok=True)
            folder, asked, shared = _folder(work, key, settings, samples)
        except PerfedError as wrong:
            work.refused[key] = str(wrong)
            tell(note, f"{key}: {wrong}")
            continue
        for seed in work.left(key, settings):
            yield parallel.Cell(folder, asked, seed, shared, work.stop(settings))


def _folder(work: Work, key: str, settings: Experiment, samples: Samples) -> tuple[RunFolder, Experiment, SharedData]:
    """Return an experiment's run folder, made or given further seeds where necessary."""
    folder = work.cell(key)
    if not folder.complete:
        shutil.rmtree(folder.path, ignore_errors=True)  # an earlier call ended while making it
        asked, shared = _at(settings, folder.path), SharedData.of(settings, samples)
        shared.assemble(settings, settings.seeds[0])  # refuse before anything is written
        begin(asked, shared, work.command)
        return folder, asked, shared
    if _only_kept(folder):
        raise RunError(f"'{folder.path}' keeps the record of a run without its states; --out names another folder to run it in")
    further = tuple(seed for seed in settings.seeds if seed not in folder.experiment.seeds)
    if further:
        extend(folder, further, samples)
    return folder, folder.experiment, reshared(folder, folder.experiment, samples)


def _only_kept(folder: RunFolder) -> bool:
    """Whether a run is a record without states, which nothing goes on from and nothing is written down anew for."""
    return any(not kept.goes_on for kept in folder.seeds.values())


def extend(folder: RunFolder, seeds: tuple[int, ...], samples: Samples) -> None:
    """Give a run further seeds; those it has stay as they are."""
    beside = RunFolder(folder.path.with_name(f"{folder.path.name}.more"))
    shutil.rmtree(beside.path, ignore_errors=True)
    before, manifest = folder.experiment, folder.manifest
    more = before.but(seeds=seeds)
    begin(_at(more, beside.path), SharedData.of(more, samples))
    splits = manifest["splits"] | beside.manifest["splits"]
    folder.unsum()
    folder.adopt(beside, seeds)
    folder.put_manifest(manifest | {"splits": splits})
    folder.put_experiment(before.but(seeds=tuple(sorted({*before.seeds, *seeds}))))


def _at(settings: Experiment, path: Path) -> Experiment:
    return settings.but(out=path.parent, name=path.name)


def remember(work: Work) -> dict[str, dict[str, Any]]:
    """Write down, cell by cell, which run answers it and what was reduced; earlier answers of other cells stay."""
    with alone(work.folder):
        known = recalled(work.folder / "cells.json")
        known |= _answers(work, known)
        put_json(work.folder / "cells.json", known)
    return known


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold a table's folder while it is written: a call at the same time waits, and finds what this one wrote."""
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / "lock", wait=True):
        yield


def _answers(work: Work, known: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return what is to be written down of the cells that were asked for."""
    found: dict[str, dict[str, Any]] = {}
    for plan in work.plans:
        if plan.settings is None:
            if plan.name not in known or not known[plan.name].get("run"):
                found[plan.name] = {"missing": plan.missing}
            continue
        path = work.path(plan)
        if plan.name in known and _only_kept(work.cell(plan.key)):
            continue  # the command that made it stays
        found[plan.name] = {
            "run": os.path.relpath(path, work.folder),
            "reduced": list(plan.reduced),
            "place": plan.place,
            "stand_in": _stands_in(work.recipe, plan),
            "refused": work.refused.get(plan.key, ""),
            "command": work.command,
        }
    return found


def recalled(place: Path) -> dict[str, dict[str, Any]]:
    """Return what was asked for before, cell by cell."""
    return get_object(place) if place.exists() else {}


def _stands_in(recipe: Recipe, plan: Plan) -> bool:
    assert plan.settings is not None
    return bool(recipe.settings(plan.row, plan.column)["data"] != plan.settings.data.name)
