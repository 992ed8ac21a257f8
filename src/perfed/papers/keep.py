"""A table's runs without their states: small enough to keep for good, and enough to show the same digits again."""

import gzip
from pathlib import Path

from perfed.errors import RunError
from perfed.papers.run import Work, recalled
from perfed.record import put, put_json

OF_A_RUN = ("settings.yaml", "manifest.json", "summary.json")
OF_A_SEED = ("clients.json", "final.json", "transport.json")


def keep(work: Work, folder: Path) -> list[Path]:
    """Copy what ``--show`` reads of a table's runs to ``folder``; return the runs there."""
    if folder.resolve() == work.out.resolve():
        raise RunError(f"'{folder}' is where the runs are; --keep names another folder")
    known = recalled(work.folder / "cells.json")
    kept = []
    for run in sorted({entry["run"] for entry in known.values() if entry.get("run")}):
        source = (work.folder / run).resolve()
        if source.is_dir() and any(source.glob("seed-*/rounds.jsonl")):
            kept.append(_copy(source, folder / "cells" / source.name))
    if not kept:
        raise RunError(f"nothing of {work.recipe.name} has been run in '{work.out}' yet, so there is nothing to keep")
    place = folder / work.folder.name
    place.mkdir(parents=True, exist_ok=True)
    put_json(place / "cells.json", recalled(place / "cells.json") | known)
    return kept


def _copy(source: Path, target: Path) -> Path:
    target.mkdir(parents=True, exist_ok=True)
    for name in OF_A_RUN:
        _file(source / name, target / name)
    for seed in sorted(source.glob("seed-*")):
        lines = seed / "rounds.jsonl"
        if not lines.exists():
            continue
        (target / seed.name).mkdir(exist_ok=True)
        for name in (*OF_A_SEED, *(path.name for path in seed.glob("attack-*.json"))):
            _file(seed / name, target / seed.name / name)
        put(target / seed.name / "rounds.jsonl.gz", gzip.compress(lines.read_bytes(), mtime=0))
    return target


def _file(source: Path, target: Path) -> None:
    if source.exists():
        put(target, source.read_bytes())
