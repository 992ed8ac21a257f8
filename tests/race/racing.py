"""A race small enough for a test: three clients with forty made-up samples each, in process, one worker."""

from pathlib import Path
from typing import Any

import torch

from perfed import Samples, Split
from perfed.keywords import asked_for
from perfed.report.raced import Raced
from perfed.runs.race import ask
from perfed.runs.race.folder import RaceFolder
from perfed.runs.race.run import resume, run

CLIENTS, OWN, CLASSES = 3, 40, 3


def samples(scrambled: bool = False, garbled: str = "", numbers: bool = False) -> tuple[Samples, Split]:
    """Blobs in three classes; scrambled: the labels of all test samples are other ones.

    ``garbled`` names a client whose samples are all noise; with ``numbers`` a number is to be predicted.
    """
    draw = torch.Generator().manual_seed(3)
    y = torch.randint(CLASSES, (CLIENTS * OWN,), generator=draw)
    x = torch.randn(len(y), 6, generator=draw) + 1.2 * torch.nn.functional.one_hot(y, 6)
    rows = torch.arange(len(y)).reshape(CLIENTS, OWN)
    parts = [tuple(own[first:last].numpy() for own in rows) for first, last in ((0, 20), (20, 30), (30, 40))]
    if scrambled:
        for own in parts[2]:
            y[own] = (y[own] + 1) % CLASSES
    if garbled:
        x[rows["abc".index(garbled)]] = 9 * torch.randn(OWN, 6, generator=draw)
    made = Samples.of(x, x[:, 0] + y, name="blobs", task="regression") if numbers else Samples.of(x, y, name="blobs")
    return made, Split(parts[0], parts[1], parts[2], ("a", "b", "c"), {}, made.digest())


def wanted(out: Path, methods: str = "fedper", **more: Any) -> ask.Wanted:
    """A race as it is asked for; options of the race and of the samples among ``more``."""
    made, split = samples(**{name: more.pop(name) for name in ("scrambled", "garbled", "numbers") if name in more})
    options = {"candidates": 3} | {name: more.pop(name) for name in ask.OPTIONS if name in more}
    common = {"model": "mlp", "rounds": 6, "seeds": (1, 2), "transport": "serial", "workers": 1}
    given = {**common, "out": out, "name": "race", "data": made, "split": split, **more}
    given = {name: value for name, value in given.items() if value is not None}
    return ask.listed(methods.split(","), asked_for(None, given, several=True), given, options)


def raced(out: Path, methods: str = "fedper", **more: Any) -> Raced:
    return Raced(run(wanted(out, methods, **more)).path)


def resumed(path: Path) -> Raced:
    return Raced(resume(path, given={"data": samples()[0]}).path)


def digests(path: Path, seed: int = 0) -> dict[str, str]:
    """What every run of a race ended in."""
    found = {}
    for one in RaceFolder(path).runs:
        for number, place in one.seeds.items():
            assert place.final is not None
            found[f"{one.path.parent.name}/{one.path.name}/{number}"] = str(place.final["digest"])
    return found
