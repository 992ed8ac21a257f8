"""Several methods on the same splits and seeds, cell by cell, as many at once as there are cores."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .. import advice
from ..disk import get_yaml
from ..errors import InputError
from ..local.budget import Budget
from ..machine import cores
from ..method import Method
from ..methods import CATALOGUE
from ..trackers import check
from . import parallel, parse
from .assemble import Assembled, SharedData, kind_of, samples_of
from .choice import Choice, record
from .engine import Engine
from .experiment import Experiment
from .folder import CompareFolder, RunFolder, fresh
from .run import Begun, begin, extend, extensible, known, reshared, sum_up
from .seed import OnRound
from .settle import introduced, settled

ALIKE = ("data", "partition", "clients", "seeds", "split", "split_seed", "validation", "test")  # without which nothing compares


@dataclass(frozen=True)
class Lineup:
    """What is compared: experiments on the same data, splits and seeds, each under a name of its own."""

    experiments: tuple[Experiment, ...]

    @staticmethod
    def of(experiments: Iterable[Experiment]) -> "Lineup":
        """Return experiments as a comparison: named after their methods, Local among them, unlike ones refused."""
        asked = list(experiments)
        if not asked:
            raise InputError("name the methods to compare, such as methods=fedavg,fedper,fedcp")
        for one in asked:
            kind_of(one.method)
            for name in ALIKE:
                if getattr(one, name) != getattr(asked[0], name):
                    raise InputError(
                        f"these cannot be compared: {name} of {one.method.name} is not that of {asked[0].method.name}"
                    )
        for number, one in enumerate(asked):
            if one in asked[:number]:
                raise InputError(
                    f"'{one.method.name}' is listed twice with the same settings; variants of a method differ in a field"
                )
        if "local" not in {one.method.name for one in asked}:  # label skew makes it strong: no table without it
            asked.append(asked[0].but(method=Choice(name="local"), norm=None))
        return Lineup(tuple(asked))

    @property
    def first(self) -> Experiment:
        """The experiment whose settings stand for what all have in common."""
        return self.experiments[0]

    @property
    def total(self) -> int:
        """Rounds to run in all, the start of each seed counted as one."""
        return sum(len(one.seeds) * (one.rounds + 1) for one in self.experiments)

    @property
    def stem(self) -> str:
        """What the folder is called unless it is given a name: the data, and a hash over all that is compared."""
        whole = hashlib.sha256("".join(one.digest() for one in self.experiments).encode()).hexdigest()
        return f"compare-{self.first.data.stem}-{whole[:8]}"

    def named(self, out: Path) -> list[Experiment]:
        """Return every experiment with its place: named after its method; a method's second variant is ``fedcp-2``."""
        found, seen = [], Counter[str]()
        for one in self.experiments:
            stem = one.method.stem
            seen[stem] += 1
            found.append(one.but(out=out, name=stem if seen[stem] == 1 else f"{stem}-{seen[stem]}"))
        return found


def load(path: Path | str | None, overrides: Sequence[str] = ()) -> Lineup:
    """Return a comparison from a YAML file and overrides.

    ``methods=a,b`` are the methods, ``methods=a,a:field=value`` ``a`` and its variant, ``a.field=value`` holds for both, and
    ``a.budget.lr=0.1`` gives ``a`` a budget of its own.
    """
    return read(get_yaml(Path(path)) if path is not None else {}, overrides)


def read(raw: dict[str, Any], overrides: Sequence[str]) -> Lineup:
    """Return a comparison from plain settings and overrides, as `load` does."""
    listed: Any = raw.pop("methods", None)
    own: dict[str, dict[str, Any]] = {}
    meant = advice.said(raw, overrides)
    several = _meant(listed, overrides)
    for text in overrides:
        key, _, value = text.partition("=")
        head, _, name = key.partition(".")
        if key == "methods":
            listed = value
        elif head in CATALOGUE and name:
            own.setdefault(head, {}).update(_field(name, value))
        else:
            parse.apply(raw, text, meant, several)
    names = [_variant(part) for part in listed.split(",") if part] if isinstance(listed, str) else listed or []
    advice.check_data(raw)
    parse.effective(raw)
    base = parse.build(raw)
    return Lineup.of([_taking(base, entry, own) for entry in names])


def _meant(listed: Any, overrides: Sequence[str]) -> list[str]:
    """Return the methods that are going to be compared, for advice on other settings."""
    for text in overrides:
        if text.startswith("methods="):
            listed = text.partition("=")[2]
    entries = listed.split(",") if isinstance(listed, str) else listed or []
    return [str(entry.get("name") if isinstance(entry, dict) else entry).partition(":")[0] for entry in entries]


def listed(entries: Iterable[Any], base: Experiment) -> Lineup:
    """Return a comparison of methods by name, with options or as objects, and of whole experiments."""
    taken = [entry if isinstance(entry, Experiment) else _taking(base, entry, {}) for entry in entries]
    return Lineup.of(taken)


def _taking(base: Experiment, entry: Any, own: dict[str, dict[str, Any]]) -> Experiment:
    """Return the base with another method, whose budget may be its own."""
    if isinstance(entry, str):
        entry = _variant(entry)
    if isinstance(entry, dict):
        entry = entry | own.get(str(entry.get("name")), {})
        spent = {key.removeprefix("budget."): entry.pop(key) for key in list(entry) if key.startswith("budget.")}
        spent |= entry.pop("budget", None) or {}
        budget = replace(base.budget, **{k: getattr(record(Budget, spent, "budget."), k) for k in spent})
        return base.but(method=Choice.model_validate(entry), budget=budget)
    if isinstance(entry, Method):
        given = {} if base.budget == Budget() else {"budget": base.budget}
        made = Experiment(method=entry, **given)
        return base.but(method=made.method, budget=made.budget)
    return base.but(method=Choice.model_validate(entry))


def _variant(text: str) -> dict[str, Any]:
    """Read ``fedcp``, ``fedcp:align=0:policy=gumbel_train`` or a user's own ``file.py:Name:field=value``."""
    name, *fields = re.split(r":(?=[\w.]+=)", text)  # a value may have a colon too, such as trimmed:0.1
    head, colon, field = name.partition(":")
    if colon and head in CATALOGUE:
        raise InputError(f"'{text}' is no variant of {head}; a field is set as {head}:{field or 'rule'}=VALUE")
    return {"name": name} | {key: value for field in fields for key, value in _field(*field.split("=", 1)).items()}


def _field(name: str, value: str) -> dict[str, Any]:
    return {name: parse.value_of(value)}


def run(
    asked: Lineup, on_round: OnRound | None = None, command: str = "", begun: Begun | None = None, prepare: bool = False
) -> CompareFolder:
    """Run every method over every seed, or only ``prepare`` that; return the folder, of which ``begun`` hears when it is made."""
    check(asked.first.track)
    asked.first.engine.check()
    samples = samples_of(asked.first)
    asked = Lineup(tuple(settled(one, samples) for one in asked.experiments))
    shared, first = SharedData.of(asked.first, samples), asked.first
    made = [shared.assemble(one, one.seeds[0]) for one in asked.experiments]  # refuse before anything is written
    folder = CompareFolder(fresh(first.out, asked.stem, first.name))
    named = asked.named(folder.path)
    runs = [begin(one, shared, command) for one in named]
    folder.begin(runs, command)
    if begun:
        begun(folder.path, "\n".join(filter(None, (introduced(first, shared), faster(made)))))
    del made
    return folder if prepare else train(folder, list(zip(runs, named, strict=True)), shared, on_round)


def faster(made: Sequence[Assembled]) -> str:
    """Return a sentence where all that is compared would be faster on another transport, else nothing."""
    said = [one.faster() for one in made]
    return said[0] if all(said) else ""


def resume(
    path: Path | str, on_round: OnRound | None = None, rounds: int | None = None, engine: Engine | None = None
) -> CompareFolder:
    """Finish the cells of an interrupted comparison, or go on with all of them to more rounds, on ``engine`` if one is given."""
    folder = CompareFolder(path)
    runs = folder.runs
    for found in runs:
        found.fits()
    if rounds is not None:
        for found in runs:  # refuse before anything is written
            extensible(found, rounds)
        for found in runs:
            extend(found, rounds)
    asked = [known(found) for found in runs]
    if engine is not None:
        asked = [own.but(engine=engine) for own in asked]
    return train(folder, list(zip(runs, asked, strict=True)), reshared(runs[0], asked[0]), on_round)


def train(
    folder: CompareFolder, runs: list[tuple[RunFolder, Experiment]], shared: SharedData, on_round: OnRound | None
) -> CompareFolder:
    """Train every method and seed: one process per cell where cells are as many as cores, else one after another."""
    first = runs[0][1]
    cells = [
        parallel.Cell(place, asked, seed, shared)
        for seed in first.seeds
        for place, asked in runs
        if not place.seed(seed).finished(asked.rounds)
    ]
    parallel.train(iter(cells), workers(first, len(cells)), on_round, engine=first.engine)
    for place, _ in runs:
        sum_up(place)
    return folder


def workers(asked: Experiment, cells: int) -> int:
    """Return how many cells are trained at once: as many as there are cores, unless clients share these out themselves."""
    together = asked.transport not in ("pooled", "ray") and asked.device == "cpu" and not asked.devices
    return min(asked.workers or cores(), cells) if together else 1
