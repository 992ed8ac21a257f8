"""What lies in a folder of runs: comparisons and single runs, at any depth that people use."""

import os
from dataclasses import dataclass
from pathlib import Path

from ..errors import RunError
from ..runs.folder import CompareFolder, RunFolder
from ..runs.race.folder import RaceFolder

DEPTH = 5  # runs/papers/cells/RUN is three


@dataclass(frozen=True)
class Group:
    """What is shown together: the runs of a comparison, or a run alone."""

    id: str  # its place below the folder that is watched
    path: Path
    runs: tuple[RunFolder, ...]
    compared: bool


def groups(folder: Path) -> list[Group]:
    """Return the comparisons and runs below a folder, or the folder itself where it is one; links are not followed."""
    if not folder.is_dir():
        raise RunError(f"there is no folder '{folder}'; runs are written to 'runs' unless out= says otherwise")
    return _below(folder, folder, DEPTH)


def _below(top: Path, folder: Path, depth: int) -> list[Group]:
    name = str(folder.relative_to(top)) if folder != top else folder.resolve().name
    if RaceFolder.there(folder):  # the candidates until the best of them are tested
        race = RaceFolder(folder)
        return [Group(name, folder, tuple(race.final.runs if race.tested else race.runs), True)]
    if CompareFolder.there(folder):
        return [Group(name, folder, tuple(RunFolder.inside(folder)), True)]
    if RunFolder.there(folder):
        return [Group(name, folder, (RunFolder(folder),), False)]
    if not depth:
        return []
    try:
        inside = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False))
    except OSError:  # not ours to read, or gone since
        return []
    return [found for one in inside if not one.startswith(".") for found in _below(top, folder / one, depth - 1)]
