"""What the catalogue says of one data set, and the options a user may set on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError, suggest
from .download import RemoteFile
from .mapped import joined
from .samples import Samples

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class ReaderOptions:
    """The options of all readers; every set accepts some of them."""

    fraction: float = 1.0  # a fixed part of every class (within group and official part)
    size: int | None = None  # pixels of either side
    channels: int = 3  # colours of pictures: 3, or 1 for grey
    skip_corrupt: bool = False  # leave out pictures that cannot be read
    domains: tuple[str, ...] | None = None  # only these of its domains
    labels: str = "fine"  # CIFAR-100: or coarse
    features: int = 5000  # Amazon: the first so many words
    mixed: bool = False  # HAR: channels and time run into each other, as PFLlib's public code has them
    label: str = "label"  # csv: the column with the label
    client: str | None = None  # csv: the column with the owner of each row
    test: str | None = None  # csv: the column with 1 for test rows
    text: str | None = None  # csv: the column with a text instead of numbers
    task: str = "classification"  # tables: or multilabel, regression, survival; label= then names numbers, or columns with commas
    drop: tuple[str, ...] | None = None  # tables: columns that are left out
    categories: tuple[str, ...] | None = None  # tables: columns whose numbers are names of categories
    missing: tuple[str, ...] | None = None  # tables: words that stand for no value, instead of the usual ones
    decimal: str | None = None  # csv: the decimal mark, . or , where the numbers leave it open
    scale: str = "usual"  # tables: by client, federated or none; usual is federated where there are gaps or words, else none
    standardise: tuple[str, ...] | None = None  # heart_disease: as FLamby does, training and test rows: by hospital, or by all
    columns: str | None = None  # tables: a file with decisions that were made elsewhere, such as a run's columns.json


@dataclass(frozen=True)
class Layout:
    """Files that hold a data set, and who reads them."""

    files: tuple[str, ...]  # below one of the set's folders; .gz and .bz2 may follow
    read: Callable[[Entry, tuple[Path, ...], ReaderOptions], Samples]
    edition: str  # what the files are, for people
    sizes: tuple[int, int] | None = None  # training and test samples, where an edition has fewer than were published
    shape: tuple[int, ...] = ()  # of an input, where an edition's is not the published one


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A data set of the catalogue."""

    name: str
    title: str
    kind: str
    train: int  # published sizes; no test size where no official test part exists
    test: int = 0
    classes: int
    shape: tuple[int, ...]  # of one input as it was published, or as `size` makes it; of texts as many words as are read
    labels: tuple[str, ...] = ()  # the classes' names, where the files do not state them
    groups: tuple[str, ...] = ()
    licence: str
    source: str  # the publisher's page
    folders: tuple[str, ...] = ()
    layouts: tuple[Layout, ...] = ()
    remotes: tuple[RemoteFile, ...] = ()
    by_hand: str = ""  # why and how, where no download is possible
    terms: str = ""  # what must be accepted before downloading
    refused: Mapping[str, str] | None = None  # files that are recognised but not read: why
    options: tuple[str, ...] = ()  # besides fraction
    size: int | None = None  # default for pictures of different sizes, as in the papers
    parts: tuple[str, ...] = ()  # sets that make up this one
    overlap: str = ""  # what neighbouring samples share, where they do


def options_of(name: str, given: Mapping[str, Any], allowed: tuple[str, ...], size: int | None = None) -> ReaderOptions:
    """Return checked options, or say which one the set does not have."""
    known = ("fraction", *allowed)
    for key in given:
        if key not in known:
            raise suggest(f"option of data set {name}", key, known)
    made = ReaderOptions(size=size)
    for field in fields(ReaderOptions):
        if given.get(field.name) is not None:
            made = replace(made, **{field.name: CHECKS[field.name](field.name, given[field.name])})
    return made


def a_fraction(name: str, value: Any) -> float:
    """Return a number in (0, 1]."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
        raise InputError(f"{name} must be a number above 0 and at most 1, got {value!r}; 0.1 keeps a tenth")
    return float(value)


def a_count(name: str, value: Any) -> int:
    """Return a positive whole number."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputError(f"{name} must be a positive whole number, got {value!r}")
    return value


def a_switch(name: str, value: Any) -> bool:
    """Return a bool."""
    if not isinstance(value, bool):
        raise InputError(f"{name} must be true or false, got {value!r}")
    return value


def a_word(name: str, value: Any) -> str:
    """Return a text."""
    if not isinstance(value, str) or not value:
        raise InputError(f"{name} must be a name, got {value!r}")
    return value


def words(name: str, value: Any) -> tuple[str, ...]:
    """Return names from a list or from one text with commas."""
    found = tuple(v.strip() for v in value.split(",")) if isinstance(value, str) else tuple(str(v) for v in value)
    if not found or "" in found or len(set(found)) != len(found):
        raise InputError(f"{name} must be different names, such as mnist,usps, got {value!r}")
    return found


def marks(name: str, value: Any) -> tuple[str, ...]:
    """Return words of which the empty one is none, from a list, a text with commas, or one number."""
    found = value.split(",") if isinstance(value, str) else value if isinstance(value, list | tuple) else [value]
    return tuple(str(word).strip() for word in found)


CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "categories": words,
    "channels": a_count,
    "client": a_word,
    "columns": a_word,
    "decimal": a_word,
    "domains": words,
    "drop": words,
    "features": a_count,
    "fraction": a_fraction,
    "label": a_word,
    "labels": a_word,
    "missing": marks,
    "mixed": a_switch,
    "scale": a_word,
    "size": a_count,
    "skip_corrupt": a_switch,
    "standardise": marks,
    "task": a_word,
    "test": a_word,
    "text": a_word,
}


def chosen(entry: Entry, options: ReaderOptions) -> tuple[str, ...]:
    """Return the domains asked for, in the catalogue's order."""
    for domain in options.domains or ():
        if domain not in entry.groups:
            raise suggest(f"domain of {entry.name}", domain, entry.groups)
    return tuple(d for d in entry.groups if options.domains is None or d in options.domains)


def two_parts(entry: Entry, train: tuple[Tensor, Array], test: tuple[Tensor, Array], names: tuple[str, ...] = ()) -> Samples:
    """Return the official training and test parts as one set."""
    (x, y), (x_test, y_test) = train, test
    return Samples(
        joined([x, x_test]),
        torch.from_numpy(np.concatenate([y, y_test]).astype(np.int64)),
        names or entry.labels,
        test=torch.arange(len(x) + len(x_test)) >= len(x),
        kind=entry.kind,
        name=entry.name,
    )
