"""Who has what: the samples, once in memory, and the rows of every client."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from . import keys
from .local import Batch, Inputs, Shard

if TYPE_CHECKING:
    from .data import Samples
    from .partition import Split

PARTS = ("train", "validation", "test")


@dataclass(frozen=True)
class Federation:
    """All clients' data as row numbers into one store of samples."""

    x: Tensor
    y: Tensor
    train: tuple[Tensor, ...]
    validation: tuple[Tensor, ...]
    test: tuple[Tensor, ...]
    inputs: Inputs
    classes: int
    names: tuple[str, ...]
    seed: int = 0
    augment: bool = False
    numbers: tuple[int, ...] | None = None  # what a client's randomness is drawn by, if not its place

    @staticmethod
    def of(samples: "Samples", split: "Split", inputs: Inputs, *, seed: int = 0, augment: bool = False) -> "Federation":
        """Return the samples as a split shares them out."""
        train, validation, test = (
            tuple(torch.tensor(rows) for rows in own) for own in (split.train, split.validation, split.test)
        )
        return Federation(
            samples.x,
            samples.y,
            train,
            validation,
            test,
            inputs,
            len(samples.classes),
            tuple(split.names),
            seed,
            augment,
        )

    def __len__(self) -> int:
        return len(self.train)

    @cached_property  # asked for at every client: counting anew would cost N² a round
    def sizes(self) -> list[int]:
        """Training samples per client."""
        return [len(rows) for rows in self.train]

    def shard(self, client: int, number: int, batch_size: int, even: bool) -> Shard:
        """Return the training data of ``client`` with the order of visits of round ``number``."""
        key = keys.key(self.seed, number, client if self.numbers is None else self.numbers[client]).to(self.x.device)
        return Shard(
            self.x,
            self.y,
            self.train[client],
            self.inputs,
            key,
            batch_size,
            self.classes,
            even=even,
            augment=self.augment,
        )

    def batches(self, client: int, part: str, size: int = 1000) -> Iterator[Batch]:
        """Yield a client's samples of ``part`` as they are tested."""
        for rows in getattr(self, part)[client].split(size):
            yield Batch(self.inputs(self.x[rows], None), self.y[rows], None, torch.zeros((), dtype=torch.int64))

    def counts(self) -> Tensor:
        """Return samples per client and class over all three parts."""
        rows = [torch.cat([getattr(self, part)[i] for part in PARTS]) for i in range(len(self))]
        return torch.stack([torch.bincount(self.y[r], minlength=self.classes) for r in rows])

    def majority(self, part: str = "test") -> tuple[list[int], list[int]]:
        """Return correct and count per client for guessing each client's most frequent training label."""
        correct, count = [], []
        for own, rows in zip(self.train, getattr(self, part), strict=True):
            label = torch.bincount(self.y[own], minlength=self.classes).argmax()
            correct.append(int((self.y[rows] == label).sum()))
            count.append(len(rows))
        return correct, count

    def to(self, device: torch.device | str) -> "Federation":
        """Return this federation with its tensors on ``device``."""
        move = {part: tuple(rows.to(device) for rows in getattr(self, part)) for part in PARTS}
        return replace(self, x=self.x.to(device), y=self.y.to(device), **move)  # type: ignore[arg-type]
