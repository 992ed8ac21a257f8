"""Where the files of a data set lie."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import DataError
from .download import cache
from .entry import Entry, Layout

SUFFIXES = ("", ".gz", ".bz2")


@dataclass(frozen=True)
class Found:
    """The files of a set, and the layout that they follow."""

    layout: Layout
    paths: tuple[Path, ...]


def roots(root: str | os.PathLike[str] | None) -> list[Path]:
    """Return where to look, in this order: ``root``, PERFED_DATA, the cache."""
    given = [root, os.environ.get("PERFED_DATA")]
    return [*(Path(place).expanduser() for place in given if place), cache() / "data"]


def locate(entry: Entry, root: str | os.PathLike[str] | None, domains: Sequence[str] = ()) -> Found | None:
    """Return the first layout whose files are all there; of a set in folders by domain, only ``domains`` are needed."""
    for place in roots(root):
        found = below(entry, place, domains)
        if found is None and root is not None and place == Path(root).expanduser() and place.name not in foreign(entry):
            found = inside(entry, place, domains)  # the user may name the set's own folder
        if found is not None:
            return found
    return next((Found(layout, ()) for layout in entry.layouts if not layout.files), None)


def below(entry: Entry, place: Path, domains: Sequence[str] = ()) -> Found | None:
    """Return what one of the set's folders below ``place`` holds of it."""
    looked = (inside(entry, place / folder, domains) for folder in entry.folders)
    return next((found for found in looked if found is not None), None)


def inside(entry: Entry, folder: Path, domains: Sequence[str]) -> Found | None:
    """Return what ``folder`` itself holds of the set."""
    for layout in entry.layouts:
        paths = [present(folder / name) for name in needed(entry, layout, domains)]
        if paths and all(paths):
            return Found(layout, tuple(path for path in paths if path is not None))
    return None


def foreign(entry: Entry) -> set[str]:
    """Return the folder names that other sets use: MNIST and Fashion-MNIST have the same file names."""
    from .catalogue import CATALOGUE

    theirs = {Path(folder).name for other in CATALOGUE.values() for folder in other.folders if other is not entry}
    return theirs - {Path(folder).name for folder in entry.folders}


def needed(entry: Entry, layout: Layout, domains: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the files that must be there."""
    if domains and len(layout.files) == len(entry.groups):  # one folder per domain
        return tuple(f for f, group in zip(layout.files, entry.groups, strict=True) if group in domains)
    return layout.files


def present(path: Path) -> Path | None:
    """Return the file or folder at ``path``, or its compressed form."""
    return next((p for p in (path.with_name(path.name + suffix) for suffix in SUFFIXES) if p.exists()), None)


def absent(entry: Entry, root: str | os.PathLike[str] | None, domains: Sequence[str] = ()) -> DataError:
    """Return the error that says which files were looked for, where, and how to get them."""
    looked = roots(root)
    for folder in (folder for place in looked for folder in (place, *(place / f for f in entry.folders))):
        for name, why in (entry.refused or {}).items():
            if (folder / name).exists():
                return DataError(f"{folder / name} is not read: {why}; {how(entry)}")
    files = "; or ".join(short(needed(entry, layout, domains)) for layout in entry.layouts)
    return DataError(
        f"no files of {entry.name} in {', '.join(str(place) for place in looked)}. "
        f"Looked for {files} in a folder {' or '.join(entry.folders)}; {how(entry)}"
    )


def short(files: Sequence[str]) -> str:
    """Return a list of names that fits into a sentence."""
    return ", ".join(files) if len(files) <= 4 else f"{', '.join(files[:3])} … {files[-1]}"


def how(entry: Entry) -> str:
    """Return how a user gets the set."""
    return entry.by_hand or f"get it with: perfed data fetch {entry.name}"
