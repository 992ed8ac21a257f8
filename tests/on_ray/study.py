"""A study of 24 cells: five methods and Local, four seeds each."""

from pathlib import Path
from typing import Any

from perfed.runs.compare import Lineup, listed
from perfed.runs.experiment import Experiment
from perfed.runs.folder import CompareFolder

METHODS = ("fedavg", "fedper", "ditto", "fedcp", "fedcac", "local")


def lineup(out: Path, methods: tuple[str, ...] = METHODS, seeds: tuple[int, ...] = (0, 1, 2, 3), **more: Any) -> Lineup:
    small = {"data": {"name": "digits", "fraction": 0.3}, "clients": 4, "rounds": 60, "partition": "iid"}
    steady = {"transport": "serial", "checkpoint": 0, "name": "it"}
    return listed(methods, Experiment(seeds=seeds, out=out, **(small | steady | more)))


def digests(folder: Path) -> dict[str, dict[str, str]]:
    return {run.path.name: run.summary["digests"] for run in CompareFolder(folder).runs}
