"""A table's runs without their states: small enough to keep for good, and enough to show the same digits again."""

from pathlib import Path

from ..disk import put_json
from ..errors import RunError
from ..runs.folder import RunFolder, nameless
from .run import Work, alone, recalled


def keep(work: Work, folder: Path) -> list[Path]:
    """Copy what ``--show`` reads of a table's runs to ``folder``; return the runs there."""
    if folder.resolve() == work.out.resolve():
        raise RunError(f"'{folder}' is where the runs are; --keep names another folder")
    known = recalled(work.folder / "cells.json")
    kept = []
    for run in sorted({entry["run"] for entry in known.values() if entry.get("run")}):
        source = RunFolder((work.folder / run).resolve())
        if any(seed.lines.read(0) for seed in source.seeds.values()):
            target = RunFolder(folder / "cells" / source.path.name)
            source.keep_record(target, work.out)
            kept.append(target.path)
    if not kept:
        raise RunError(f"nothing of {work.recipe.name} has been run in '{work.out}' yet, so there is nothing to keep")
    place = folder / work.folder.name
    place.mkdir(parents=True, exist_ok=True)
    with alone(work.folder):
        put_json(place / "cells.json", recalled(place / "cells.json") | nameless(known, work.out))
    return kept
