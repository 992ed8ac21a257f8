"""A cell's folder as a parcel: what a worker elsewhere needs of a run, and what comes back of it after every checkpoint."""

import os
from collections.abc import Mapping
from pathlib import Path

from ...disk import put, writing
from ..folder import RunFolder
from ..place import SeedFolder

Parcel = dict[str, bytes]  # names below the folder, parts joined by slashes, and contents
LATE = ("rounds.jsonl", "checkpoint.json", "final.json")  # each speaks of what was written before it
LEFT = ("lock", "summary.json")  # whoever trains a seed first forgets the summary


class Sent:
    """What of a seed's folder the other side has."""

    def __init__(self, place: SeedFolder) -> None:
        self.place = place
        self.marks = _marks(place.path)

    def changed(self) -> tuple[Parcel, list[str]]:
        """Return the files that are new or changed since the last call, and the names of all that there are."""
        now = _marks(self.place.path)
        new = [name for name, mark in now.items() if self.marks.get(name) != mark]
        self.marks = now
        return {name: (self.place.path / name).read_bytes() for name in new}, list(now)


def packed(run: RunFolder, seed: int) -> Parcel:
    """Return what a worker needs to train one seed of a run: what the run is, and how far the seed is."""
    place = run.seed(seed).path
    found = {path.relative_to(run.path).as_posix(): path for path in run.path.glob("*") if path.is_file() and _counts(path)}
    found |= {path.relative_to(run.path).as_posix(): path for path in run.code.glob("*.py")}
    found |= {f"{place.name}/{name}": place / name for name in _marks(place)}
    return {name: path.read_bytes() for name, path in found.items()}


def unpacked(parcel: Mapping[str, bytes], folder: Path) -> RunFolder:
    """Lay a parcel out in an empty folder, as a run."""
    for name, content in parcel.items():
        with writing(folder / name):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
    return RunFolder(folder)


def take(place: SeedFolder, parcel: Mapping[str, bytes], names: list[str]) -> None:
    """Bring a seed's folder to where a worker's is: a kill at any moment leaves a state to go on from."""
    for name in sorted(parcel, key=lambda own: LATE.index(own) if own in LATE else -1):
        with writing(place.path / name):
            (place.path / name).parent.mkdir(parents=True, exist_ok=True)
        put(place.path / name, parcel[name])
    for gone in _marks(place.path).keys() - set(names):
        (place.path / gone).unlink(missing_ok=True)
    for folder in [path for path in place.path.glob("*") if path.is_dir() and not any(path.iterdir())]:
        folder.rmdir()


def _marks(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Return every file below a folder with what changes when it is written."""
    found = {}
    for root, _, names in os.walk(folder):
        for name in names:
            path = Path(root) / name
            if _counts(path):
                told = path.stat()
                found[path.relative_to(folder).as_posix()] = (told.st_mtime_ns, told.st_size, told.st_ino)
    return found


def _counts(path: Path) -> bool:
    return path.name not in LEFT and path.suffix != ".half"
