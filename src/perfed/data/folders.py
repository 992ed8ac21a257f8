"""Folders of pictures: by domain and class, Tiny-ImageNet, MNIST-M, and the user's own."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import torch

from ..errors import DataError
from . import images
from .entry import Entry, ReaderOptions, chosen, two_parts
from .portion import order
from .samples import Samples

SUFFIXES = {".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"}


def found(folder: Path) -> list[Path]:
    """Return the pictures below ``folder``, in the order of their paths; hidden files do not count."""
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder")
    below = (path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES)
    kept = [p for p in below if not any(part.startswith(".") for part in p.relative_to(folder).parts)]
    return sorted(kept, key=lambda path: path.relative_to(folder).as_posix())


def domains(entry: Entry, paths: tuple[Path, ...], options: ReaderOptions) -> Samples:
    """Read one folder per chosen domain, each with one folder of pictures per class; the order is fixed and mixed."""
    names = chosen(entry, options)
    labels = entry.labels or tuple(sorted({f.name for path in paths for f in path.iterdir() if f.is_dir()}))
    position = {label: number for number, label in enumerate(labels)}
    rows: list[tuple[Path, int, int]] = []
    for group, path in enumerate(paths):
        within = [p for p in found(path) if p.parent.name in position]
        if not within:
            raise DataError(f"{path} has no pictures in folders named {', '.join(labels[:3])} …")
        rows += [(within[i], position[within[i].parent.name], group) for i in order(len(within))]
    x, kept = images.files([r[0] for r in rows], size=options.size, skip_corrupt=options.skip_corrupt)
    rows = [rows[i] for i in kept]
    return Samples(
        x,
        torch.tensor([r[1] for r in rows]),
        labels,
        torch.tensor([r[2] for r in rows]),
        names,
        official(rows, paths),
        name=entry.name,
    )


def official(rows: list[tuple[Path, int, int]], paths: tuple[Path, ...]) -> torch.Tensor | None:
    """Return which pictures DomainNet's own lists ``<domain>_test.txt`` name, if all lists lie beside the folders."""
    lists = [path.with_name(f"{path.name}_test.txt") for path in paths]
    if not all(file.is_file() for file in lists):
        return None
    named = {line.rsplit(maxsplit=1)[0] for file in lists for line in file.read_text().splitlines() if line.strip()}
    return torch.tensor([p.relative_to(paths[group].parent).as_posix() in named for p, _, group in rows])


def tiny_imagenet(entry: Entry, paths: tuple[Path, ...], options: ReaderOptions) -> Samples:
    """Read ``wnids.txt``, ``words.txt``, the folder ``train`` and ``val/val_annotations.txt``."""
    ids, dictionary, training, annotations = paths
    wnids = sorted(ids.read_text().split())
    position = {wnid: number for number, wnid in enumerate(wnids)}
    train = [(p, position[p.parent.parent.name]) for p in found(training) if p.parent.parent.name in position]
    validation = []
    for number, line in enumerate(annotations.read_text().splitlines(), 1):
        fields = line.split("\t")
        if len(fields) < 2 or fields[1] not in position:
            raise DataError(f"{annotations}: line {number} does not name a picture and one of the {len(wnids)} classes")
        validation.append((annotations.parent / "images" / fields[0], position[fields[1]]))
    parts = []
    for rows in (train, validation):
        x, kept = images.files([r[0] for r in rows], size=options.size, skip_corrupt=options.skip_corrupt)
        parts.append((x, torch.tensor([rows[i][1] for i in kept]).numpy()))
    return two_parts(entry, parts[0], parts[1], spoken(wnids, dictionary))


def spoken(wnids: list[str], dictionary: Path) -> tuple[str, ...]:
    """Return the first word for each id of a synset; the id follows where two share a word."""
    lines = (line.partition("\t") for line in dictionary.read_text().splitlines())
    words = {wnid: meaning.split(",")[0].strip() for wnid, _, meaning in lines}
    names = [words.get(wnid) or wnid for wnid in wnids]
    times = Counter(names)
    return tuple(f"{name} ({wnid})" if times[name] > 1 else name for name, wnid in zip(names, wnids, strict=True))


def mnist_m(entry: Entry, paths: tuple[Path, ...], options: ReaderOptions) -> Samples:
    """Read the lists ``mnist_m_train_labels.txt`` and ``mnist_m_test_labels.txt`` and the pictures they name."""
    parts = []
    for listed in paths:
        folder = listed.with_name(listed.name.removesuffix("_labels.txt"))
        rows = [line.split() for line in listed.read_text().splitlines() if line.strip()]
        wrong = next((n for n, row in enumerate(rows, 1) if len(row) != 2 or not row[1].isdecimal()), None)
        if wrong is not None:
            raise DataError(f"{listed}: line {wrong} is not a picture's name and a digit")
        x, kept = images.files([folder / name for name, _ in rows], size=options.size, skip_corrupt=options.skip_corrupt)
        parts.append((x, torch.tensor([int(rows[i][1]) for i in kept]).numpy()))
    return two_parts(entry, parts[0], parts[1])
