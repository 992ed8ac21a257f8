"""Partitions that draw each client's label shares and fixed numbers of samples, which clients may share (FedCAC)."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from .owned import (
    Facts,
    Owned,
    Partition,
    class_members,
    demand,
    gather,
    positive,
    too_many_classes,
    whole,
)
from .split import Indices

Weights = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Clientwise(Partition):
    """Fixed sizes per client: training samples from the official training part, test samples from the test part."""

    train_size: int = 500  # training samples of every client
    test_size: int = 100  # test samples of every client

    def check(self) -> None:
        """Refuse values that cannot be right."""
        whole(self, "train_size", 1, "the number of training samples of every client")
        whole(self, "test_size", 1, "the number of test samples of every client")

    def weights(self, present: Indices, clients: int, rng: np.random.Generator) -> Weights:
        """Return clients × present classes label shares."""
        raise NotImplementedError

    def assign(self, facts: Facts, clients: int | None, rng: np.random.Generator) -> Owned:
        """Draw every client's label shares, then its samples; validation comes on top of the training samples."""
        count = demand(self, clients, len(facts.y))
        held, notes = self.held_out(facts, rng)
        training = class_members(facts.y, np.flatnonzero(~held), facts.classes)
        testing = class_members(facts.y, np.flatnonzero(held), facts.classes)
        present = np.flatnonzero([len(a) > 0 < len(b) for a, b in zip(training, testing, strict=True)])
        if not len(present):
            raise InputError("no class has both training and test samples")
        spare = round(self.train_size * facts.validation)
        train: list[list[Indices]] = []
        validation: list[list[Indices]] = []
        test: list[list[Indices]] = []
        for shares in self.weights(present, count, rng):
            counts = [exact(shares, size) for size in (self.train_size, spare, self.test_size)]
            for parts in (train, validation, test):
                parts.append([])
            for label, wanted, checked, tested in zip(present, *counts, strict=True):
                fitted, kept = draw(training[label], wanted, checked, rng)
                train[-1].append(fitted)
                validation[-1].append(kept)
                test[-1].append(draw(testing[label], tested, 0, rng)[0])
        return Owned(train=gather(train), validation=gather(validation), test=gather(test), notes=notes)

    def held_out(self, facts: Facts, rng: np.random.Generator) -> tuple[npt.NDArray[np.bool_], dict[str, Any]]:
        """Return the official test part, or a random one of the asked fraction where the data has none."""
        if facts.official_test is not None:
            return facts.official_test, {}
        held = np.zeros(len(facts.y), dtype=np.bool_)
        held[rng.permutation(len(facts.y))[: max(1, round(len(facts.y) * facts.test))]] = True
        return held, {"test_part": "random"}


@dataclass(frozen=True, kw_only=True)
class ClientDirichlet(Clientwise):
    """Each client's label shares are one Dirichlet draw over the classes."""

    name: ClassVar[str] = "client_dirichlet"
    alpha: float = 0.1  # α, β in FedCP and GPFL, how even the labels are: 0.1 is very uneven, 100 nearly even

    def check(self) -> None:
        """Refuse values that cannot be right."""
        super().check()
        positive(self, "alpha", "0.1 is very uneven, 100 nearly even")

    def weights(self, present: Indices, clients: int, rng: np.random.Generator) -> Weights:
        """Draw the shares."""
        return rng.dirichlet(np.full(len(present), self.alpha), clients)


@dataclass(frozen=True, kw_only=True)
class ClientPathological(Clientwise):
    """Each client owns a few random classes in equal shares."""

    name: ClassVar[str] = "client_pathological"
    classes_per_client: int = 2  # s, classes that every client has

    def check(self) -> None:
        """Refuse values that cannot be right."""
        super().check()
        whole(self, "classes_per_client", 1, "the number of classes of every client")

    def weights(self, present: Indices, clients: int, rng: np.random.Generator) -> Weights:
        """Choose the classes of every client."""
        if self.classes_per_client > len(present):
            raise too_many_classes(self.classes_per_client, len(present))
        shares = np.zeros((clients, len(present)))
        for row in shares:
            row[rng.permutation(len(present))[: self.classes_per_client]] = 1 / self.classes_per_client
        return shares


def exact(shares: Weights, size: int) -> list[int]:
    """Round shares of ``size`` in class order, adding up exactly; the last class with a share takes what is left."""
    last = int(np.flatnonzero(shares)[-1])
    counts, left = [], size
    for label, share in enumerate(shares):
        count = left if label == last else min(left, round(size * float(share)))
        counts.append(count)
        left -= count
    return counts


def draw(pool: Indices, train: int, validation: int, rng: np.random.Generator) -> tuple[Indices, Indices]:
    """Draw training and validation samples of one class that have none in common.

    Samples repeat only where the class is too small for the training samples; validation takes what can be spared.
    """
    order = rng.permutation(pool)
    if len(pool) >= train:
        return order[:train], order[train : train + validation]
    spared = len(pool) * validation // (train + validation)
    return rng.choice(order[spared:], train), order[:spared]
