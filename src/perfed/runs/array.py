"""The cells of a study by name: any scheduler can train them one by one, in any order and any number of times."""

from pathlib import Path
from typing import Any, NamedTuple

from ..disk import locked
from ..errors import InputError, RunError, suggest
from .folder import SETTINGS, CompareFolder, RunFolder
from .race.folder import RaceFolder
from .run import known, reshared, train
from .seed import OnRound


class Named(NamedTuple):
    """A cell of a study: its name is where its folder lies below the study's."""

    name: str
    run: RunFolder
    seed: int

    @property
    def state(self) -> str:
        """How far it is: done, running, stopped or waiting."""
        place = self.run.seed(self.seed)
        if place.finished(int(self.run.settings["rounds"])):
            return "done"
        if (place.path / "lock").exists():
            with locked(place.path / "lock") as held:
                if not held:
                    return "running"
        return "waiting" if place.reached is None else "stopped"

    def plain(self) -> dict[str, Any]:
        """Return the cell as JSON holds it."""
        place = self.run.seed(self.seed)
        return {"name": self.name, "state": self.state, "rounds": int(self.run.settings["rounds"]), "reached": place.reached or 0}


def cells(folder: Path) -> list[Named]:
    """Return the cells of a run, a comparison or a paper's folder, in the order in which they were asked for."""
    if RaceFolder.there(folder):
        raise RunError(
            f"'{folder}' is a race: who goes on depends on everybody's results, so its cells have no fixed list; "
            "`perfed race … engine=ray` spreads it over machines"
        )
    if CompareFolder.there(folder):
        runs = CompareFolder(folder).runs
    elif RunFolder.there(folder):
        runs = [RunFolder(folder)]
    else:
        runs = [RunFolder(path.parent) for path in sorted(folder.rglob(SETTINGS)) if RunFolder(path.parent).complete]
    if not runs:
        raise RunError(f"'{folder}' holds no run; `perfed compare … --prepare` makes the folder of a study without training it")
    found = []
    for run in runs:
        for seed in run.settings["seeds"]:
            found.append(Named(run.seed(seed).path.relative_to(folder).as_posix(), run, int(seed)))
    return found


def train_one(folder: Path, name: str, on_round: OnRound | None = None, workers: int | None = None) -> Named:
    """Train what is left of one cell; a cell that is done costs nothing, and one that somebody else trains is refused.

    Args:
        folder: the study's.
        name: the cell's.
        on_round: hears of every round.
        workers: processes for its clients; by default the cell runs in one, unless its transport is ``pooled``.
    """
    there = {own.name: own for own in cells(folder)}
    if name not in there:
        raise suggest(f"cell in '{folder}'", name, there)
    own = there[name]
    if own.state != "done":
        asked = known(own.run)
        if workers is not None and asked.devices:
            raise InputError(
                f"this cell has a worker for each of devices={','.join(asked.devices)}; leave out the number of workers"
            )
        if workers is not None or asked.transport != "pooled":
            asked = asked.but(workers=workers or 1)
        train(own.run, asked, own.seed, reshared(own.run, asked), on_round)
    return own
