"""What is known of a data set before it is read: the shape of an input, its classes and its kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from . import own
from .columns import Columns
from .entry import options_of
from .locate import locate
from .samples import Samples
from .sets import known

LENGTH = 200  # words of a text that a network sees unless text.length says otherwise
COARSE = 20  # classes of CIFAR-100 with labels=coarse


class DataFacts(NamedTuple):
    """A data set as a network sees it."""

    kind: str
    shape: tuple[int, ...]
    classes: int


def shape_of(samples: Samples) -> tuple[int, ...]:
    """Return the shape of an input; of a table that waits for training rows, as if all rows were such."""
    if samples.sheet is not None:
        return (len((samples.sheet.given or Columns.fit(samples.sheet)).names),)
    return (LENGTH,) if samples.texts is not None else samples.shape


def facts(name: str, options: Mapping[str, Any] | None = None) -> DataFacts:
    """Return the facts of a data set: from the catalogue, whether it is here or not, or by reading the user's own."""
    given = dict(options or {})
    scheme, colon, path = name.partition(":")
    if colon:
        found = own.load(scheme, path, given)
        return DataFacts(found.kind, shape_of(found), len(found.classes))
    entry = known(name)
    asked = options_of(name, given, entry.options, entry.size)
    here = locate(entry, None) if any(layout.shape for layout in entry.layouts) else None
    shape = (here.layout.shape if here else ()) or entry.shape
    if entry.kind == "image" and asked.size:
        shape = (shape[0], asked.size, asked.size)
    if name == "amazon":
        shape = (asked.features,)
    return DataFacts(entry.kind, shape, COARSE if asked.labels == "coarse" else entry.classes)
