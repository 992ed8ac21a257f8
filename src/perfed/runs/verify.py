"""What can be proved of a run, a comparison or a race: every hash that is noted somewhere is computed anew."""

from pathlib import Path
from typing import Any

from .. import chain
from ..disk import get_object, hash_file
from ..errors import PerfedError, RunError
from . import proof
from .folder import CompareFolder, RunFolder
from .lines import NOTE
from .proof import BEFORE, Proof
from .race.folder import RaceFolder


def verify(path: Path) -> Proof:
    """Return what can be proved of the record in a folder; damage is a disproof."""
    try:
        if RaceFolder.there(path):
            return _race(RaceFolder(path))
        if CompareFolder.there(path):
            return _comparison(CompareFolder(path))
        return _run(RunFolder(path))
    except PerfedError as wrong:
        return Proof(path, "disproved", str(wrong))
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OSError) as wrong:
        return Proof(path, "disproved", f"'{path}' is damaged: {type(wrong).__name__}: {wrong}")


def _run(folder: RunFolder) -> Proof:
    found = {number: proof.seed(place.path, number) for number, place in folder.seeds.items()}
    gone = {int(number) for number in folder.manifest.get("splits", {})} - found.keys()
    if gone or not found:
        raise RunError(f"'{folder.path}' has lost {f'seed {min(gone)}' if gone else 'its seeds'}")
    lines = sum(count for count, _ in found.values())
    old = [number for number, (_, head) in found.items() if not head]
    if old:
        if folder.summed:
            folder.summary  # noqa: B018  (refuses one that sums up a chain)
        which = f"seed {old[0]} was " if len(old) < len(found) else ""
        return Proof(folder.path, "before", f"{which}{BEFORE}", lines)
    folder.experiment  # noqa: B018  (refuses settings that were changed)
    for number, place in folder.seeds.items():
        if place.goes_on and place.split().digest() != folder.manifest["splits"][str(number)]:
            raise RunError(f"'{place.path}' does not hold the split the run was started with")
        _state(place.path)
    if not folder.summed:
        return Proof(folder.path, "so far", f"holds so far, {_counted(lines, len(found))}; it is not finished", lines)
    head = str(folder.summary[chain.FIELD])
    return Proof(folder.path, "proved", f"proved, {_counted(lines, len(found))}", lines, head)


def _state(seed: Path) -> None:
    """Refuse a state that is not the one of the checkpoint's note; one that was cleaned away is no state."""
    if not (seed / NOTE).exists():
        return
    note = get_object(seed / NOTE)
    path = seed / str(note["file"])
    if note["file"] is not None and path.exists() and hash_file(path) != note["sha256"]:
        raise RunError(f"checkpoint '{path}' is damaged: its SHA-256 is not the recorded one")


def _comparison(folder: CompareFolder) -> Proof:
    found = [_run(run) for run in folder.runs]
    return _together(folder.path, found, folder.summed, lambda: folder.summary)


def _race(folder: RaceFolder) -> Proof:
    candidates = [_run(run) for run in folder.runs if run.path.parent != folder.final.path]
    final = [_comparison(folder.final)] if folder.tested else []
    whole = [replaced(own) for own in candidates] + final  # candidates are not summed up one by one
    return _together(folder.path, whole, folder.summed, lambda: folder.summary)


def replaced(own: Proof) -> Proof:
    """Return the proof of a candidate: it is finished when its race is."""
    return Proof(own.path, "proved", own.said, own.lines) if own.state == "so far" else own


def _together(path: Path, found: list[Proof], summed: bool, summary: Any) -> Proof:
    lines = sum(own.lines for own in found)
    told = summary() if summed else {}
    old = next((own for own in found if own.state == "before"), None)
    if old is not None:
        return Proof(path, "before", f"'{old.path.name}': {old.said}", lines)
    if not summed or any(own.state != "proved" for own in found):
        return Proof(path, "so far", f"holds so far, {_counted(lines, len(found), 'run')}; it is not finished", lines)
    if chain.FIELD not in told:
        return Proof(path, "before", f"its summary was {BEFORE}", lines)
    return Proof(path, "proved", f"proved, {_counted(lines, len(found), 'run')}", lines, str(told[chain.FIELD]))


def _counted(lines: int, parts: int, what: str = "seed") -> str:
    return f"{parts} {what}{'s' if parts != 1 else ''}, {lines} lines"
