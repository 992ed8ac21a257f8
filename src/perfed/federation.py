"""Who has what: the samples, once in memory, and the rows of every client."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from . import keys
from .errors import DataError
from .local import Batch, Inputs, Shard

if TYPE_CHECKING:
    from .data import Samples
    from .data.text import Vocabulary
    from .partition import Split

PARTS = ("train", "validation", "test")
SHOWN = 30  # clients in a notebook's table


@dataclass(frozen=True, repr=False)
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
    source: "tuple[Samples, Split] | None" = field(default=None, repr=False)  # what it was made of, where it was made of files
    vocabulary: "Vocabulary | None" = field(default=None, repr=False)  # of the training texts, where the data are texts

    @staticmethod
    def of(samples: "Samples", split: "Split", inputs: Inputs, *, seed: int = 0, augment: bool = False) -> "Federation":
        """Return the samples as a split shares them out.

        Args:
            samples: the data set.
            split: who owns which sample.
            inputs: what makes network inputs of stored samples.
            seed: what the order of visits is drawn from.
            augment: whether training samples are augmented.
        """
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
            source=(samples, split),
        )

    def __repr__(self) -> str:
        sizes = [sum(len(getattr(self, part)[i]) for part in PARTS) for i in range(len(self))]
        shape = "×".join(map(str, self.x.shape[1:]))
        return f"Federation of {len(self)} clients with {min(sizes)} to {max(sizes)} samples ({shape}, {self.classes} classes)"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{escape(name)}</td>{''.join(f'<td>{len(getattr(self, part)[i])}</td>' for part in PARTS)}</tr>"
            for i, name in enumerate(self.names[:SHOWN])
        )
        more = f"<p>and {len(self) - SHOWN} more</p>" if len(self) > SHOWN else ""
        head = "".join(f"<th>{part}</th>" for part in PARTS)
        return f"<p>{escape(repr(self))}</p><table><tr><th>client</th>{head}</tr>{rows}</table>{more}"

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

    def some(self, client: int) -> tuple[Tensor, Tensor]:
        """Return a client's test samples as they are stored, or others of its own where it has none, and their labels."""
        rows = next((own for part in (self.test, self.validation, self.train) if len(own := part[client])), None)
        if rows is None:
            raise DataError(f"{self.names[client]} has no sample")
        return self.x[rows], self.y[rows]

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
