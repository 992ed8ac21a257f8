"""What a partition is given, what it returns, and what all partitions check."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from .split import Indices


class SamplesLike(Protocol):
    """The part of ``data.Samples`` that a partition looks at."""

    @property
    def y(self) -> Any: ...
    @property
    def classes(self) -> Sequence[str]: ...
    @property
    def group(self) -> Any: ...
    @property
    def groups(self) -> Sequence[str] | None: ...
    @property
    def test(self) -> Any: ...
    def digest(self) -> str: ...


class Facts(NamedTuple):
    """Labels, groups and the official parts of a data set, and the fractions asked for."""

    y: Indices
    classes: int
    group: Indices | None
    groups: tuple[str, ...] | None
    official_test: npt.NDArray[np.bool_] | None
    validation: float
    test: float


@dataclass(frozen=True)
class Owned:
    """Who owns what: without ``test`` the client's ``train`` is still to be cut into three parts."""

    train: list[Indices]
    test: list[Indices] | None = None
    validation: list[Indices] | None = None
    names: list[str] | None = None
    notes: dict[str, Any] = field(default_factory=dict)  # what happened on the way, kept in the split's settings


@dataclass(frozen=True, kw_only=True)
class Partition:
    """A way to share a data set among clients."""

    name: ClassVar[str]
    by_group: ClassVar[bool] = False  # whether clients are the data's own groups, so that their number need not be said
    subset_of: int | None = None  # keep a random choice of the clients of a split over this many (FedCP's "10|50")

    def __post_init__(self) -> None:
        """Refuse values that cannot be right."""
        if self.subset_of is not None:
            whole(self, "subset_of", 1, "the number of clients to choose from")
        self.check()

    def check(self) -> None:
        """Refuse values of the partition's own fields that cannot be right."""

    def assign(self, facts: Facts, clients: int | None, rng: np.random.Generator) -> Owned:
        """Give every client its samples."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class PooledPartition(Partition):
    """A partition of one pool, each client's share being cut into train, validation and test afterwards."""

    pool: Literal["all", "train"] = "all"  # official training and test part together, or (Tiny-ImageNet) training only

    def __post_init__(self) -> None:
        """Refuse values that cannot be right."""
        choice(self, "pool", ("all", "train"))
        super().__post_init__()

    def pooled(self, facts: Facts) -> Indices:
        """Return the positions that are shared out, in the order of the data."""
        if self.pool == "train" and facts.official_test is not None:
            return np.flatnonzero(~facts.official_test)
        return np.arange(len(facts.y))


def whole(record: object, name: str, least: int, hint: str) -> None:
    """Require field ``name`` to be a whole number of at least ``least``."""
    value = getattr(record, name)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InputError(f"{name} must be a whole number of at least {least}, got {value!r}; it is {hint}")


def positive(record: object, name: str, hint: str) -> None:
    """Require field ``name`` to be a positive finite number, and make it a float."""
    value = getattr(record, name)
    number = not isinstance(value, bool) and isinstance(value, int | float)
    if not number or not math.isfinite(value) or value <= 0:
        shown = f"{value:g}" if number else repr(value)
        raise InputError(f"{name} must be positive, got {shown}; {hint}")
    object.__setattr__(record, name, float(value))


def choice(record: object, name: str, valid: Sequence[str]) -> None:
    """Require field ``name`` to be one of ``valid``."""
    value = getattr(record, name)
    if value not in valid:
        raise InputError(f"{name} must be one of {', '.join(valid)}, got {value!r}")


def demand(partition: Partition, clients: int | None, samples: int) -> int:
    """Return the number of clients, which must be given and can be no larger than the number of samples."""
    if clients is None:
        raise InputError(f"partition {partition.name} needs a number of clients, such as clients=20")
    if clients > samples:
        raise InputError(f"{clients} clients cannot share {samples} samples; take at most {samples} clients")
    return clients


def too_many_classes(wanted: int, classes: int) -> InputError:
    """Return the error for more classes per client than there are."""
    return InputError(f"classes_per_client is {wanted}, but the data has only {classes} classes; take at most {classes}")


def class_members(y: Indices, pool: Indices, classes: int) -> list[Indices]:
    """Return the positions of every class inside ``pool``, in the order of the data."""
    order = np.argsort(y[pool], kind="stable")
    counts = np.bincount(y[pool], minlength=classes)
    return np.split(pool[order], np.cumsum(counts)[:-1])


def gather(pieces: Sequence[Sequence[Indices]]) -> list[Indices]:
    """Join every client's pieces in ascending order."""
    return [np.sort(np.concatenate([np.zeros(0, np.int64), *mine])) for mine in pieces]
