"""Partitions that share one pool among clients without overlap: evenly, by whole classes, or by Dirichlet shares."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from ..errors import InputError
from .owned import (
    Facts,
    Owned,
    PooledPartition,
    choice,
    class_members,
    demand,
    gather,
    positive,
    too_many_classes,
    whole,
)
from .split import Indices

FALLBACK = 3  # two samples to train on and one to test on
TOPPED_UP = 50  # at most one client in so many may be given samples that the draw did not


@dataclass(frozen=True, kw_only=True)
class Iid(PooledPartition):
    """Every client gets an equal random share."""

    name: ClassVar[str] = "iid"

    def assign(self, facts: Facts, clients: int | None, rng: np.random.Generator) -> Owned:
        """Shuffle the pool and cut it into equal pieces."""
        pool = self.pooled(facts)
        count = demand(self, clients, len(pool))
        return Owned(train=[np.sort(piece) for piece in np.array_split(rng.permutation(pool), count)])


@dataclass(frozen=True, kw_only=True)
class Pathological(PooledPartition):
    """Every client owns a few classes; consecutive clients share them (FedCP, GPFL)."""

    name: ClassVar[str] = "pathological"
    classes_per_client: int = 2  # s, classes that every client has
    balanced: bool = False  # equal shares of a class instead of random ones
    minimum: int = 40  # what a client should own at least; over the classes it bounds the random shares below
    rounding: Literal["even", "ceil", "floor"] = "even"  # of the number of owners of a class

    def check(self) -> None:
        """Refuse values that cannot be right."""
        whole(self, "classes_per_client", 1, "the number of classes of every client")
        whole(self, "minimum", 0, "the number of samples a client should own at least")
        choice(self, "rounding", ("even", "ceil", "floor"))
        if not isinstance(self.balanced, bool):
            raise InputError(f"balanced must be true or false, got {self.balanced!r}")

    def assign(self, facts: Facts, clients: int | None, rng: np.random.Generator) -> Owned:
        """Go through the classes and hand each to the first clients that may still take one."""
        pool = self.pooled(facts)
        count = demand(self, clients, len(pool))
        members = class_members(facts.y, pool, facts.classes)
        if self.classes_per_client > facts.classes:
            raise too_many_classes(self.classes_per_client, facts.classes)
        mine: list[list[Indices]] = [[] for _ in range(count)]
        unowned = []
        for label, owners in enumerate(self.owners(count, facts.classes)):
            if not owners:
                unowned.append(label)
                continue
            sizes = self.shares(len(members[label]), len(owners), facts.classes, rng)
            for client, piece in zip(owners, np.split(members[label], np.cumsum(sizes)[:-1]), strict=True):
                mine[client].append(piece)
        notes: dict[str, Any] = {"unowned_classes": unowned} if unowned else {}
        return Owned(train=gather(mine), notes=notes)

    def owners(self, clients: int, classes: int) -> list[list[int]]:
        """Return the clients that own each class.

        ``ceil`` and ``floor`` are the published procedure (now and earlier): they can leave the last classes to nobody,
        or clients without a class. ``even`` is the same where classes_per_client divides classes and the owners per
        class are an integer, as in every published setting; elsewhere every client still gets exactly its number of
        classes, and every class has an owner if there are enough clients.
        """
        slots = clients * self.classes_per_client
        per_class, rest = divmod(slots, classes)
        quota = [self.classes_per_client] * clients
        result = []
        for label in range(classes):
            left = classes - label
            wanted = per_class + {"even": label < rest, "ceil": rest > 0, "floor": False}[self.rounding]
            open_clients = [client for client in range(clients) if quota[client]]
            # A client that needs every class still to come must be served now, or it ends with too few.
            urgent = [client for client in open_clients if quota[client] == left] if self.rounding == "even" else []
            others = [client for client in open_clients if self.rounding != "even" or quota[client] < left]
            chosen = sorted(urgent + others[: max(0, wanted - len(urgent))])
            for client in chosen:
                quota[client] -= 1
            result.append(chosen)
        return result

    def shares(self, samples: int, owners: int, classes: int, rng: np.random.Generator) -> list[int]:
        """Return how many samples of one class each of its owners gets."""
        mean = samples / owners
        low, high = int(max(mean / 10, self.minimum / classes)), int(mean)
        if self.balanced or low >= high:  # no room for chance: nearly equal shares
            return [samples // owners + (place < samples % owners) for place in range(owners)]
        drawn = rng.integers(low, high, owners - 1).tolist()
        return [*drawn, samples - sum(drawn)]


@dataclass(frozen=True, kw_only=True)
class Dirichlet(PooledPartition):
    """Each class is shared by Dirichlet weights, and clients that own enough get no more (MOON, FedCP, GPFL)."""

    name: ClassVar[str] = "dirichlet"
    alpha: float = 0.1  # α, β in FedCP and GPFL, how even the labels are: 0.1 is very uneven, 100 nearly even
    minimum: int = 40  # what every client should own, at most half of the mean share
    tries: int = 500  # how often sizes are drawn before the minimum is lowered

    def check(self) -> None:
        """Refuse values that cannot be right."""
        positive(self, "alpha", "0.1 is very uneven, 100 nearly even")
        whole(self, "minimum", 1, "the number of samples every client should own")
        whole(self, "tries", 1, "how often sizes are drawn before the minimum is lowered")

    def assign(self, facts: Facts, clients: int | None, rng: np.random.Generator) -> Owned:
        """Draw sizes until every client owns enough, then fill them with shuffled samples."""
        pool = self.pooled(facts)
        count = demand(self, clients, len(pool))
        members = class_members(facts.y, pool, facts.classes)
        sizes, notes = self.draw([len(indices) for indices in members], count, rng)
        mine: list[list[Indices]] = [[] for _ in range(count)]
        for indices, row in zip(members, sizes, strict=True):
            for client, piece in enumerate(np.split(rng.permutation(indices), np.cumsum(row)[:-1])):
                mine[client].append(piece)
        return Owned(train=gather(mine), notes=notes)

    def draw(self, class_sizes: list[int], clients: int, rng: np.random.Generator) -> tuple[Indices, dict[str, Any]]:
        """Return classes × clients counts and how they were found."""
        total = sum(class_sizes)
        target = max(1, min(self.minimum, total // clients // 2))
        least = min(FALLBACK, target)
        best, rank = np.zeros((0, 0), dtype=np.int64), (clients + 1, 0)
        for attempt in range(1, self.tries + 1):
            sizes = self.once(class_sizes, clients, rng)
            owned = sizes.sum(axis=0)
            if owned.min() >= target:
                return sizes, {"minimum": target, "attempts": attempt}
            now = (int((owned < least).sum()), -int(owned.min()))
            if now < rank:
                best, rank = sizes, now
        fewest = rank[0]
        if fewest > clients / TOPPED_UP:
            raise InputError(
                f"no Dirichlet split with alpha={self.alpha:g} of {total} samples over {clients} clients in "
                f"{self.tries} tries: at best {fewest} clients own fewer than {least} samples; use fewer clients, "
                "a larger alpha or more tries"
            )
        notes: dict[str, Any] = {"minimum": least, "wanted_minimum": target, "attempts": self.tries}
        return top_up(best, least), notes | ({"topped_up": fewest} if fewest else {})

    def once(self, class_sizes: list[int], clients: int, rng: np.random.Generator) -> Indices:
        """Draw one classes × clients table of counts."""
        sizes = np.zeros((len(class_sizes), clients), dtype=np.int64)
        held = np.zeros(clients, dtype=np.int64)
        full = sum(class_sizes) / clients
        for label, samples in enumerate(class_sizes):
            # A Dirichlet vector with entries set to zero and renormalised is a Dirichlet vector over the others:
            # drawing it directly is the same and never divides by zero.
            open_clients = np.flatnonzero(held < full)
            if not samples or not len(open_clients):
                continue
            weights = rng.dirichlet(np.full(len(open_clients), self.alpha))
            cuts = np.floor(np.cumsum(weights)[:-1] * samples).astype(np.int64)
            sizes[label, open_clients] = np.diff(np.concatenate([[0], np.minimum(cuts, samples), [samples]]))
            held += sizes[label]
        return sizes


def top_up(sizes: Indices, least: int) -> Indices:
    """Return counts in which clients below ``least`` take what they lack from the largest client's largest class."""
    sizes = sizes.copy()
    for client in np.flatnonzero(sizes.sum(axis=0) < least):
        while sizes[:, client].sum() < least:
            giver = int(sizes.sum(axis=0).argmax())
            label = int(sizes[:, giver].argmax())
            sizes[label, giver] -= 1
            sizes[label, client] += 1
    return sizes
