"""Several methods on the same splits, seeds and budgets, cell by cell, as many at once as there are cores."""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from . import cells, experiment
from . import settings as setting
from .build import samples_of, split_of
from .data import Samples
from .errors import InputError, RunError
from .experiment import Run
from .job import OnRound
from .methods import CATALOGUE, find
from .partition import Split
from .record import get_json, put_json
from .settings import Choice, Settings


@dataclass(frozen=True)
class Comparison:
    """What is compared: one set of settings and the methods, or variants of methods, that take their turn in it."""

    base: Settings
    methods: tuple[Choice, ...]

    def digest(self) -> str:
        """Return a SHA-256 over the settings and the methods that take their turn in them."""
        whole = [self.base.digest(), *(method.plain() for method in self.methods)]
        return hashlib.sha256(json.dumps(whole, sort_keys=True, default=str).encode()).hexdigest()

    @property
    def total(self) -> int:
        """Rounds to run in all, the start of each seed counted as one."""
        return len(self.methods) * len(self.base.seeds) * (self.base.rounds + 1)

    def settings(self, out: Path) -> list[Settings]:
        """Return the settings of every run, named after its method; a method's second variant is ``fedcp-2``."""
        found, seen = [], Counter[str]()
        for method in self.methods:
            seen[method.name] += 1
            name = method.name if seen[method.name] == 1 else f"{method.name}-{seen[method.name]}"
            found.append(self.base.model_copy(update={"method": method, "out": out, "name": name}))
        return found


def load(path: Path | str | None, overrides: Sequence[str] = ()) -> Comparison:
    """Return a comparison from a YAML file and overrides.

    ``methods=a,b`` are the methods, ``methods=a,a:field=value`` ``a`` and its variant, ``a.field=value`` holds for both.
    """
    raw = setting.read_yaml(Path(path)) if path is not None else {}
    listed: Any = raw.pop("methods", None)
    own: dict[str, dict[str, Any]] = {}
    for text in overrides:
        key, _, value = text.partition("=")
        head, _, name = key.partition(".")
        if key == "methods":
            listed = value
        elif head in CATALOGUE and name:
            own.setdefault(head, {}).update(_field(f"{name}={value}"))
        else:
            setting.apply(raw, text)
    if not listed:
        raise InputError("name the methods to compare, such as methods=fedavg,fedper,fedcp")
    names = [_variant(part) for part in listed.split(",") if part] if isinstance(listed, str) else listed
    chosen = [Choice.model_validate(entry) for entry in names]
    chosen = [c.model_copy(update={"options": c.options | own.get(c.name, {})}) for c in chosen]
    for choice in chosen:
        find(choice.name)
    for number, choice in enumerate(chosen):
        if choice in chosen[:number]:
            raise InputError(f"'{choice.name}' is listed twice with the same settings; variants of a method differ in a field")
    if "local" not in {c.name for c in chosen}:  # label skew makes it strong: no table without it
        chosen.append(Choice(name="local"))
    return Comparison(setting.build(raw), tuple(chosen))


def _variant(text: str) -> dict[str, Any]:
    """Read ``fedcp`` or ``fedcp:align=0:policy=gumbel_train``."""
    name, *fields = text.split(":")
    return {key: value for field in fields for key, value in _field(field).items()} | {"name": name}


def _field(text: str) -> dict[str, Any]:
    plain: dict[str, Any] = {"method": {}}
    setting.apply(plain, f"method.{text}")
    return dict(plain["method"])


def run(asked: Comparison, on_round: OnRound | None = None, command: str = "") -> dict[str, Any]:
    """Run every method over every seed; return the table and where it lies."""
    samples = samples_of(asked.base)
    splits = {seed: split_of(asked.base, samples, seed) for seed in asked.base.seeds}
    for s in asked.settings(asked.base.out):  # refuse before anything is written
        experiment.ready(s, samples, splits[asked.base.seeds[0]])
    folder = _folder(asked)
    runs = [Run(experiment.create(s, samples, splits, command), s) for s in asked.settings(folder)]
    put_json(folder / "compare.json", {"runs": [r.path.name for r in runs], "command": command})
    return _finish(folder, runs, samples, splits, on_round)


def is_comparison(path: Path) -> bool:
    return (path / "compare.json").is_file()


def resume(path: Path, on_round: OnRound | None = None, rounds: int | None = None) -> dict[str, Any]:
    """Finish the cells of an interrupted comparison, or go on with all of them to more rounds."""
    runs = opened(path)
    samples = samples_of(runs[0].settings)
    splits = experiment.splits_of(runs[0], samples)
    if rounds is not None:
        for found in runs:  # refuse before anything is written
            experiment.extensible(found, rounds)
        runs = [experiment.extended(found, rounds) for found in runs]
    return _finish(path, runs, samples, splits, on_round)


def opened(path: Path) -> list[Run]:
    """Return the runs of a comparison."""
    return [experiment.opened(path / name) for name in get_json(path / "compare.json")["runs"]]


def _folder(asked: Comparison) -> Path:
    base = asked.base
    stem = base.name or f"compare-{base.data.name.replace('/', '_').replace(':', '_')}-{asked.digest()[:8]}"
    folder, number = base.out / stem, 1
    while folder.exists():
        if base.name:
            raise RunError(f"'{folder}' already exists; `perfed resume {folder}` finishes it, another name starts a new one")
        number += 1
        folder = base.out / f"{stem}-{number}"
    return folder


def _finish(
    folder: Path, runs: list[Run], samples: Samples, splits: dict[int, Split], on_round: OnRound | None
) -> dict[str, Any]:
    from .report import tables
    from .report.page import write
    from .report.read import gather

    began = perf_counter()
    _cells(runs, samples, splits, on_round)
    for done in runs:
        experiment.finish(done)
    base = runs[0].settings
    made = tables.comparison(gather([folder]), report=base.report, best=base.best, series=base.series)
    head, rows = tables.short(made)
    found = {
        "run": str(folder),
        "seconds": round(perf_counter() - began, 3),
        "table": tables.records(made),
        "runs": {r.path.name: r.summary() for r in runs},
    }
    put_json(folder / "summary.json", found)
    page = write([folder], folder / "report.html")
    return found | {"report": str(page), "columns": head, "rows": rows}


def _cells(runs: list[Run], samples: Samples, splits: dict[int, Split], on_round: OnRound | None) -> None:
    """Train every method and seed: one process per cell where cells are as many as cores, else one after another."""
    base = runs[0].settings
    every = [
        cells.Cell(found, seed, samples, splits[seed])
        for seed in base.seeds
        for found in runs
        if not experiment.finished(found, seed)
    ]
    together = base.transport != "pooled" and base.device == "cpu"
    cells.train(iter(every), min(base.workers or os.cpu_count() or 1, len(every)) if together else 1, on_round)
