"""Finished or unfinished run folders, read back for tables, figures and pages."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, RunError
from ..evaluate.metrics import learn
from ..evaluate.summary import Moment, choose, rates, summarise
from ..runs.folder import RunFolder
from ..runs.parse import flat
from .names import label, position, title

USUAL = {
    "report": "weighted",
    "best": "round",
    "series": "test",
    "choose": "accuracy",
}  # of a summary, unless said otherwise
PLACES = ("out", "name")  # settings that say where a run is written


@dataclass(frozen=True)
class Record:
    """One method's run: what was asked for, where it ran, and every line it recorded, by seed."""

    path: Path
    settings: Mapping[str, Any]
    manifest: Mapping[str, Any]
    rounds: Mapping[int, list[dict[str, Any]]]
    clients: Mapping[int, dict[str, Any]]
    called: str = ""  # what tables and figures write for it, where that is not for them to find
    known: dict[tuple[str, ...], dict[str, Any]] = field(default_factory=dict, repr=False, compare=False)

    @property
    def method(self) -> str:
        """The method's catalogue name."""
        return str(_named(self.settings.get("method", self.path.name)))

    @property
    def done(self) -> int:
        """Rounds that every seed has finished."""
        return min(int(lines[-1]["round"]) for lines in self.rounds.values())

    def summary(self, **options: str) -> dict[str, Any]:
        """Return the ``accuracy`` object; options as in ``perfed.evaluate.summary.summarise``."""
        key = tuple(options.get(name, usual) for name, usual in USUAL.items())
        if key not in self.known:
            self.known[key] = summarise(self.rounds, **options)
        return self.known[key]

    def total(self, field: str) -> list[float]:
        """Return the sum of a field such as ``bytes_up`` or ``seconds`` over the rounds, for every seed."""
        return [sum(line.get(field) or 0 for line in lines) for lines in self.rounds.values()]

    def accuracies(self, moment: Moment = "last", **options: str) -> dict[int, NDArray[np.float64]]:
        """Return every client's accuracy at a moment, by seed; seeds without that moment are left out."""
        series = options.get("series", "test")
        found = {seed: choose(lines, moment, **options) for seed, lines in self.rounds.items()}
        return {seed: rates(line[series]) for seed, line in found.items() if line is not None}


def read(path: Path | str) -> Record:
    """Read one run folder."""
    folder = RunFolder(path)
    if not folder.there(folder.path):
        raise RunError(f"'{folder.path}' is no run: it has no settings.yaml")
    try:
        settings = folder.settings
    except InputError as error:
        raise RunError(f"the settings of '{folder.path}' are damaged: {error}") from error
    manifest = folder.manifest if folder.complete else {}
    folder.fits()
    learn(manifest.get("metrics") or {})
    rounds = {number: lines for number, seed in folder.seeds.items() if (lines := seed.lines.read())}
    if not rounds:
        raise RunError(f"'{folder.path}' has not finished a round yet; `perfed resume {folder.path}` goes on with it")
    return Record(folder.path, settings, manifest, rounds, {number: folder.seed(number).clients for number in rounds})


def gather(paths: Iterable[Path | str]) -> list[Record]:
    """Read runs and folders of runs (comparisons), in the order in which tables list their methods."""
    runs: list[Record] = []
    for path in map(Path, paths):
        if not path.is_dir():
            raise RunError(f"there is no folder '{path}'; give a run's or a comparison's folder")
        if RunFolder.there(path):
            runs.append(read(path))
            continue
        inside = RunFolder.inside(path)
        if not inside:
            raise RunError(f"'{path}' is neither a run (no settings.yaml) nor a folder of runs")
        runs.extend(read(found.path) for found in inside)
    if not runs:
        raise RunError("there is nothing to report; give at least one run's folder")
    unique = {run.path.resolve(): run for run in runs}
    return sorted(unique.values(), key=lambda run: position(run.method))


def options(runs: Sequence[Record]) -> dict[str, str]:
    """Return the options of a summary that the first run's settings ask for."""
    return {name: str(runs[0].settings.get(name) or usual) for name, usual in USUAL.items()}


def labels(runs: Sequence[Record]) -> list[str]:
    """Return one distinct name per run: what it is called, else its method and, where that repeats, what it sets apart."""
    names = []
    for run in runs:
        if run.called:
            names.append(run.called)
            continue
        twins = [other for other in runs if other.method == run.method]
        apart, values = differing(twins), flat(run.settings)
        name = title(run.method) if "method.rule" in apart else label(run.method, values.get("method.rule"))
        if len(twins) > 1:
            said = [f"{_short(key)}={values[key]}" for key in apart if key in values]  # what it leaves to the defaults is not
            name += f" ({', '.join(said)})" if said else "" if apart else f" ({run.path.name})"
        names.append(name)
    repeated = {name for name, times in Counter(names).items() if times > 1}
    return [f"{name} [{run.path.name}]" if name in repeated else name for name, run in zip(names, runs, strict=True)]


def differing(runs: Sequence[Record]) -> list[str]:
    """Return the settings that are not the same in all runs; where a run is written is no such setting."""
    values = [flat(run.settings) for run in runs]
    keys = dict.fromkeys(key for entry in values for key in entry)
    return [key for key in keys if key not in PLACES and any(entry.get(key) != values[0].get(key) for entry in values)]


def _short(key: str) -> str:
    return key.removeprefix("method.")


def _named(value: Any) -> Any:
    return value.get("name", "") if isinstance(value, Mapping) else value
