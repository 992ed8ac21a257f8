"""Who owns which sample: the catalogue of partitions, and the one function that makes a split."""

from dataclasses import asdict, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import DataError, InputError, suggest
from .clientwise import ClientDirichlet, ClientPathological
from .cut import check_fractions, cut
from .grouped import Domains, Natural, Timeline, Together
from .owned import Facts, Partition, SamplesLike
from .pooled import Dirichlet, Iid, Pathological
from .split import Indices, Split

__all__ = [
    "PARTITIONS",
    "ClientDirichlet",
    "ClientPathological",
    "Dirichlet",
    "Domains",
    "Iid",
    "Natural",
    "Partition",
    "Pathological",
    "Split",
    "Timeline",
    "Together",
    "build",
    "split",
]

PARTITIONS: dict[str, type[Partition]] = {
    "client_dirichlet": ClientDirichlet,
    "client_pathological": ClientPathological,
    "dirichlet": Dirichlet,
    "domains": Domains,
    "iid": Iid,
    "natural": Natural,
    "pathological": Pathological,
    "timeline": Timeline,
    "together": Together,
}

ASSIGN, CUT, CHOOSE = 1, 2, 3  # purposes, so that no two draws share a stream


def build(name: str, **options: Any) -> Partition:
    """Return the partition ``name`` with its options, or say which name or option was probably meant."""
    if name not in PARTITIONS:
        raise suggest("partition", name, PARTITIONS)
    kind = PARTITIONS[name]
    known = [field.name for field in fields(kind)]
    for option in options:
        if option not in known:
            raise suggest(f"option of partition {name}", option, known)
    return kind(**options)


def split(
    samples: SamplesLike,
    partition: Partition,
    clients: int | None,
    seed: int,
    validation: float = 0.1,
    test: float = 0.25,
) -> Split:
    """Share ``samples`` among ``clients`` and cut each client's own data into train, validation and test.

    ``clients=None`` lets domains and natural make one client per group. The same arguments give the same split on
    every machine.
    """
    check_fractions(validation, test)
    if clients is not None and (isinstance(clients, bool) or not isinstance(clients, int) or clients < 1):
        raise InputError(f"clients must be a whole number of at least 1, got {clients!r}")
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise InputError(f"seed must be a whole number from 0, got {seed!r}")
    total = clients if partition.subset_of is None else partition.subset_of
    if clients is not None and total is not None and clients > total:
        raise InputError(f"{clients} clients cannot be chosen from subset_of={total}; take at most {total}")
    owned = partition.assign(_facts(samples, validation, test), total, _generator(seed, ASSIGN))
    _refuse_empty(owned.train, partition.name)
    train, checks, tests = cut(owned, validation, test, _generator(seed, CUT))
    settings = {"partition": partition.name, **asdict(partition), "clients": len(train), "seed": seed}
    settings |= {"validation": float(validation), "test": float(test), "notes": owned.notes}
    names = owned.names or [f"client {client}" for client in range(len(train))]
    whole = Split(tuple(train), tuple(checks), tuple(tests), tuple(names), settings, samples.digest())
    if partition.subset_of is None or clients is None:
        return whole
    chosen = np.sort(_generator(seed, CHOOSE).permutation(len(train))[:clients])
    return whole.subset(chosen.tolist())


def _generator(seed: int, purpose: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, purpose])))


def _facts(samples: SamplesLike, validation: float, test: float) -> Facts:
    y = np.asarray(getattr(samples, "strata", samples.y)).astype(np.int64)
    classes = len(samples.classes) if getattr(samples, "task", "classification") == "classification" else 1
    if not len(y):
        raise DataError("there are no samples to split")
    if y.min() < 0 or y.max() >= classes:
        raise DataError(f"labels run from {y.min()} to {y.max()}, but there are {classes} classes (0 to {classes - 1})")
    groups = None if samples.groups is None else tuple(str(name) for name in samples.groups)
    return Facts(y, classes, _array(samples.group, np.int64), groups, _array(samples.test, np.bool_), validation, test)


def _array(values: Any, kind: Any) -> npt.NDArray[Any] | None:
    return None if values is None else np.asarray(values).astype(kind)


def _refuse_empty(shares: list[Indices], name: str) -> None:
    empty = [client for client, share in enumerate(shares) if not len(share)]
    if empty:
        raise InputError(
            f"partition {name} leaves {len(empty)} of {len(shares)} clients without samples (the first is client "
            f"{empty[0]}); take fewer clients, or options that share more evenly"
        )
