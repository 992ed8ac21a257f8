"""Partitions along what the data says itself: its domains, subjects, writers or any column."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..errors import InputError, suggest
from .cut import part_sizes
from .owned import Facts, Owned, Partition, PooledPartition, whole
from .split import Indices


@dataclass(frozen=True, kw_only=True)
class Domains(Partition):
    """One client per domain, or several that share its training items equally and its whole test set (DualFed)."""

    name: ClassVar[str] = "domains"
    by_group: ClassVar[bool] = True
    samples: int | None = None  # only the first so many training items of every domain

    def check(self) -> None:
        """Refuse values that cannot be right."""
        if self.samples is not None:
            whole(self, "samples", 1, "the number of training items taken from every domain")

    def assign(self, facts: Facts, clients: int | None, rng: np.random.Generator) -> Owned:
        """Share every domain among its clients."""
        names, members = grouping(facts, self.name)
        each, rest = divmod(len(names) if clients is None else clients, len(names))
        if rest or not each:
            raise InputError(
                f"domains needs clients to be a multiple of the {len(names)} domains, got {clients}; "
                f"take {len(names)}, or partition.subset_of={len(names)} to keep some of them"
            )
        train: list[Indices] = []
        test: list[Indices] = []
        for domain, indices in zip(names, members, strict=True):
            held = self.held_out(facts, indices, rng)
            items = np.setdiff1d(indices, held)[: self.samples]
            if len(items) < each:
                raise InputError(f"domain {domain} has {len(items)} training items, too few for {each} clients")
            pieces = [items] if each == 1 else np.array_split(rng.permutation(items), each)
            train += [np.sort(piece) for piece in pieces]
            test += [held] * each
        labels = [domain if each == 1 else f"{domain} {place + 1}" for domain in names for place in range(each)]
        return Owned(train=train, test=test, names=labels)

    def held_out(self, facts: Facts, indices: Indices, rng: np.random.Generator) -> Indices:
        """Return a domain's official test items, or random ones of the asked fraction where the data has none."""
        if facts.official_test is not None:
            return indices[facts.official_test[indices]]
        wanted = round(len(indices) * facts.test)
        size = max(1, wanted) if facts.test and len(indices) > 1 else wanted
        return np.sort(rng.permutation(indices)[:size])


@dataclass(frozen=True, kw_only=True)
class Together(Domains):
    """One client per domain, each tested on its own items, but trained on everybody's or on one domain's: as if data were shared.

    With sampling.ratio small enough for one participant, a round of FedAvg is one training on the items of all.
    """

    name: ClassVar[str] = "together"
    of: str = "all"  # whose training items everybody trains on: all, or the name of a domain

    def assign(self, facts: Facts, clients: int | None, rng: np.random.Generator) -> Owned:
        """Give every domain its own test items, and the same training items."""
        own = super().assign(facts, clients, rng)
        names = own.names or []
        if self.of not in ("all", *names):
            raise suggest("domain", self.of, ["all", *names])
        chosen = [items for name, items in zip(names, own.train, strict=True) if self.of in ("all", name)]
        return Owned(train=[np.sort(np.concatenate(chosen))] * len(names), test=own.test, names=own.names)


@dataclass(frozen=True, kw_only=True)
class Natural(PooledPartition):
    """One client per subject, writer, domain or value of a column, cut into parts by fractions."""

    name: ClassVar[str] = "natural"
    by_group: ClassVar[bool] = True

    def assign(self, facts: Facts, clients: int | None, rng: np.random.Generator) -> Owned:
        """Give every group its own samples."""
        names, members = grouping(facts, self.name)
        if clients is not None and clients != len(names):
            raise InputError(
                f"{self.name} makes {len(names)} clients, one per group, got clients={clients}; leave the number out, "
                f"or set partition.subset_of={len(names)} for a random choice"
            )
        pool = self.pooled(facts)
        train = [indices[np.isin(indices, pool)] for indices in members] if len(pool) < len(facts.y) else members
        return Owned(train=train, names=names)


@dataclass(frozen=True, kw_only=True)
class Timeline(Natural):
    """One client as in natural, cut in the order of the data: the first samples train, the next validate, the last test."""

    name: ClassVar[str] = "timeline"

    def assign(self, facts: Facts, clients: int | None, rng: np.random.Generator) -> Owned:
        """Give every group its own samples, and cut them where they lie."""
        own = super().assign(facts, clients, rng)
        sizes = [part_sizes(len(samples), facts.validation, facts.test) for samples in own.train]
        cuts = [np.split(samples, np.cumsum(parts)[:-1]) for samples, parts in zip(own.train, sizes, strict=True)]
        train, validation, test = (list(part) for part in zip(*cuts, strict=True))
        return Owned(train=train, validation=validation, test=test, names=own.names)


def grouping(facts: Facts, name: str) -> tuple[list[str], list[Indices]]:
    """Return the names of the groups and their samples."""
    if facts.group is None:
        raise InputError(
            f"partition {name} needs groups (domains, subjects, a client column), and this data has none; "
            "iid, dirichlet and pathological do without"
        )
    values, inverse = np.unique(facts.group, return_inverse=True)
    known = facts.groups or ()
    names = [known[value] if 0 <= value < len(known) else str(value) for value in values.tolist()]
    return names, [np.flatnonzero(inverse == place) for place in range(len(values))]
