"""Data sets by name: load, fetch and list them."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from ..errors import DataError, suggest
from . import mapped, own
from .catalogue import CATALOGUE
from .download import Progress, cache, obtain, unpacked
from .entry import Entry, ReaderOptions, chosen, options_of
from .images import colour
from .locate import absent, below, how, locate, short
from .portion import portion, positions
from .samples import Samples

Root = str | os.PathLike[str] | None


def load(name: str, *, root: Root = None, **options: Any) -> Samples:
    """Return a data set of the catalogue, or your own as ``folder:PATH``, ``csv:PATH`` and the like.

    The files are looked for in ``root``, then in the folder PERFED_DATA, then in the cache of ``perfed data fetch``.
    """
    scheme, colon, path = name.partition(":")
    if colon:
        return own.load(scheme, path, options)
    entry = known(name)
    settings = options_of(name, options, entry.options, entry.size)
    samples = joined(entry, root, settings) if entry.parts else read(entry, root, settings)
    return portion(samples, settings.fraction)


def known(name: str) -> Entry:
    """Return the catalogue's entry, or say which name is nearest."""
    if name not in CATALOGUE:
        raise suggest("data set", name, CATALOGUE)
    return CATALOGUE[name]


def read(entry: Entry, root: Root, options: ReaderOptions) -> Samples:
    """Read a set from the first place that has it."""
    domains = chosen(entry, options) if "domains" in entry.options else ()
    found = locate(entry, root, domains)
    if found is None:
        raise absent(entry, root, domains)
    return found.layout.read(entry, found.paths, options)


def joined(entry: Entry, root: Root, options: ReaderOptions) -> Samples:
    """Return several sets as the domains of one, all in colour and of one size."""
    domains = chosen(entry, options)
    missing = [domain for domain in domains if locate(CATALOGUE[domain], root) is None]
    if missing:
        here = [domain for domain in entry.groups if locate(CATALOGUE[domain], root) is not None]
        ways = "; ".join(f"{domain}: {how(CATALOGUE[domain])}" for domain in missing)
        raise DataError(
            f"of {entry.name}, {' and '.join(missing)} are not here. {ways}. "
            f"Or take the domains that are here: domains={','.join(here)}"
        )
    parts = [read(CATALOGUE[domain], root, replace(options, domains=None)) for domain in domains]
    return Samples(
        mapped.joined([colour(part.x) for part in parts]),
        torch.cat([part.y for part in parts]),
        entry.labels,
        torch.cat([torch.full((len(part),), number) for number, part in enumerate(parts)]),
        domains,
        torch.cat([tested(part) for part in parts]),
        entry.kind,
        entry.name,
    )


def tested(part: Samples) -> torch.Tensor:
    """Return the official test part, or a fixed fifth of every class where there is none."""
    if part.test is not None:
        return part.test
    test = torch.zeros(len(part), dtype=torch.bool)
    test[positions(part, 0.2)] = True
    return test


def fetch(name: str, *, into: Root = None, accept: bool = False, progress: Progress | None = None) -> Path:
    """Download a set into the cache (or below ``into``) and return its folder.

    ``accept`` says that you have read and accept the publisher's terms, where there are any.
    """
    entry = known(name)
    place = Path(into).expanduser() if into else cache() / "data"
    if any(not layout.files for layout in entry.layouts):
        return place  # embedded: nothing to bring
    if entry.terms and not accept:
        raise DataError(f"{entry.title}: {entry.terms}. If you accept that, run: perfed data fetch {name} --accept")
    if entry.parts:
        return several(entry, place, progress)
    if not entry.remotes:
        raise DataError(f"{entry.title} cannot be fetched for you: {entry.by_hand}. Put it below {place}")
    folder = place / entry.folders[0]
    if not whole(entry, place):
        for remote in entry.remotes:
            obtain(remote, folder, progress)
    if not whole(entry, place):
        for remote in entry.remotes:
            unpacked(remote, folder).unlink(missing_ok=True)
        raise DataError(f"what was downloaded to {folder} lacks {short(entry.layouts[0].files)}; run it again")
    return folder


def whole(entry: Entry, place: Path) -> bool:
    """Return whether the published files are below ``place``."""
    found = below(entry, place)
    return found is not None and found.layout is entry.layouts[0]


def several(entry: Entry, place: Path, progress: Progress | None) -> Path:
    """Fetch the sets that make up one; those that must be got by hand are named at the end."""
    for part in entry.parts:
        if CATALOGUE[part].remotes:
            fetch(part, into=place, accept=True, progress=progress)
    left = [CATALOGUE[part] for part in entry.parts if below(CATALOGUE[part], place) is None]
    if left:
        ways = "; ".join(f"{part.title}: {part.by_hand}" for part in left)
        raise DataError(f"the rest of {entry.title} must be got by hand and put below {place}. {ways}")
    return place


def listing(root: Root = None) -> list[dict[str, Any]]:
    """Return one row per set of the catalogue: what it is, its licence, and whether it is here."""
    return [row(entry, root) for entry in CATALOGUE.values()]


def row(entry: Entry, root: Root) -> dict[str, Any]:
    """Return what is known of a set without reading it."""
    found = locate(entry, root)
    parts = [part for part in entry.parts if locate(CATALOGUE[part], root) is not None]
    edition = found.layout.edition if found else f"{len(parts)} of {len(entry.parts)} domains" if parts else ""
    return {
        "name": entry.name,
        "title": entry.title,
        "kind": entry.kind,
        "samples": entry.train + entry.test or None,
        "train": entry.train,
        "test": entry.test,
        "classes": entry.classes,
        "groups": list(entry.groups),
        "licence": entry.licence,
        "source": entry.source,
        "here": found is not None or (bool(parts) and len(parts) == len(entry.parts)),
        "edition": edition,
        "where": str(found.paths[0].parent) if found and found.paths else "",
        "get": "" if found else how(entry),
    }
