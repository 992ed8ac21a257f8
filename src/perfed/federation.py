"""Who has what: the samples, once in memory, and the rows of every client."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from . import keys
from .errors import DataError
from .local import Batch, Inputs, Shard
from .local.shard import at_once

if TYPE_CHECKING:
    from .data import Samples
    from .data.columns import Columns
    from .data.text import Vocabulary
    from .partition import Split

PARTS = ("train", "validation", "test")
SHOWN = 30  # clients in a notebook's table


@dataclass(frozen=True, repr=False)
class Federation:
    """All clients' data as row numbers into one store of samples.

    `federate` makes one; few people need to call this.

    Args:
        x: The samples of all clients, as they are stored.
        y: Their labels.
        train: For each client, the rows that it trains on.
        validation: For each client, the rows that rounds are chosen on.
        test: For each client, the rows that it is tested on.
        inputs: Turns stored samples into inputs of the network.
        classes: How many there are.
        names: The clients' names.
        seed: What the order of visits is drawn from.
        augment: Whether training samples are flipped, turned or cropped.
        numbers: What each client's randomness is drawn by, if not by its place.
        source: The samples and the split it was made of, where it was.
        vocabulary: The words of the training texts, where the data are texts.
        goal: What labels are: ``classification``, ``multilabel``, ``regression`` or ``survival``.
        columns: For each client, what was decided for the columns of a table, where there was something to decide.

    Example:
        >>> import perfed
        >>> clients = perfed.federate("digits", clients=3, partition="iid")
        >>> clients
        Federation of 3 clients with 599 to 599 samples (1×8×8, 10 classes)
        >>> len(clients), clients.names[0], clients.sizes
        (3, 'client 0', [389, 389, 389])
    """

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
    goal: str = "classification"
    columns: "tuple[Columns, ...] | None" = field(default=None, repr=False)  # every client's decisions for a table's columns

    @staticmethod
    def of(samples: "Samples", split: "Split", inputs: Inputs, *, seed: int = 0, augment: bool = False) -> "Federation":
        """Return the samples as a split shares them out.

        Args:
            samples: The data set.
            split: Who owns which sample.
            inputs: Turns stored samples into inputs of the network.
            seed: What the order of visits is drawn from.
            augment: Whether training samples are flipped, turned or cropped.

        Returns:
            The clients' data.

        Example:
            >>> import torch
            >>> from perfed import Federation, Samples, Split
            >>> samples = Samples.of(torch.rand(6, 2), [0, 1, 0, 1, 0, 1])
            >>> split = Split([[0, 1], [2, 3]], [[], []], [[4], [5]], ("Rome", "Oslo"), {}, samples.digest())
            >>> Federation.of(samples, split, lambda x, key: x)
            Federation of 2 clients with 3 to 3 samples (2, 2 classes)
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
            goal=samples.task,
        )

    def __repr__(self) -> str:
        sizes = [sum(len(getattr(self, part)[i]) for part in PARTS) for i in range(len(self))]
        shape = "×".join(map(str, self.x.shape[1:]))
        return f"Federation of {len(self)} clients with {min(sizes)} to {max(sizes)} samples ({shape}, {self._aim})"

    @property
    def _aim(self) -> str:
        return f"{self.classes} classes" if self.goal == "classification" else self.goal

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

    @property
    def words(self) -> "Vocabulary | int | None":
        """The words of texts, or how many there are at most where the data came as their numbers."""
        if self.vocabulary is None and getattr(self.inputs, "kind", None) == "tokens" and len(self.x):
            return int(self.x.max()) + 1
        return self.vocabulary

    def only(self, places: Sequence[int]) -> "Federation":
        """Return some of the clients as a federation of their own; each keeps what its randomness is drawn by.

        Args:
            places: Their numbers, from 0, in the order in which they shall stand.

        Returns:
            The same samples with fewer clients.

        Example:
            >>> import perfed
            >>> clients = perfed.federate("digits", clients=3, partition="iid")
            >>> clients.only([2, 0]).names
            ('client 2', 'client 0')
        """
        fewer = {part: tuple(getattr(self, part)[i] for i in places) for part in (*PARTS, "names")}
        numbers = tuple(i if self.numbers is None else self.numbers[i] for i in places)
        columns = None if self.columns is None else tuple(self.columns[i] for i in places)
        return replace(self, numbers=numbers, columns=columns, **fewer)  # type: ignore[arg-type]

    def shard(self, client: int, number: int, batch_size: int, even: bool) -> Shard:
        """Return a client's training data with its order of visits in a round.

        Args:
            client: Its number, from 0.
            number: The round, from 1.
            batch_size: Samples per step.
            even: Whether a batch of one is left out, which BatchNorm cannot train on.

        Returns:
            What the client trains on.

        Example:
            >>> import perfed
            >>> clients = perfed.federate("digits", clients=3, partition="iid")
            >>> len(clients.shard(client=0, number=1, batch_size=10, even=False))
            389
        """
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
        """Yield a client's samples as they are tested: in order, never augmented.

        Args:
            client: Its number, from 0.
            part: ``train``, ``validation`` or ``test``.
            size: Samples per batch; of very large samples there are fewer.

        Returns:
            The batches, one after another.

        Example:
            >>> import perfed
            >>> clients = perfed.federate("digits", clients=3, partition="iid")
            >>> [len(batch.y) for batch in clients.batches(0, "test", size=100)]
            [100, 50]
        """
        for rows in getattr(self, part)[client].split(at_once(self.x, size)):
            yield Batch(self.inputs(self.x[rows], None), self.y[rows], None, torch.zeros((), dtype=torch.int64))

    def some(self, client: int) -> tuple[Tensor, Tensor]:
        """Return samples of a client as they are stored: those it is tested on, or others where it has none.

        Args:
            client: Its number, from 0.

        Returns:
            The samples and their labels.

        Raises:
            DataError: If the client has no sample at all.

        Example:
            >>> import perfed
            >>> clients = perfed.federate("digits", clients=3, partition="iid")
            >>> x, y = clients.some(0)
            >>> x.shape, y.shape
            (torch.Size([150, 1, 8, 8]), torch.Size([150]))
        """
        rows = next((own for part in (self.test, self.validation, self.train) if len(own := part[client])), None)
        if rows is None:
            raise DataError(f"{self.names[client]} has no sample")
        return self.x[rows], self.y[rows]

    def counts(self) -> Tensor:
        """Return how many samples of every class each client has, over all three parts.

        Returns:
            A table: a row per client, a column per class.

        Example:
            >>> import perfed
            >>> clients = perfed.federate("digits", clients=3, partition="iid")
            >>> clients.counts()[0]
            tensor([64, 58, 70, 60, 66, 65, 51, 61, 48, 56])
        """
        rows = [torch.cat([getattr(self, part)[i] for part in PARTS]) for i in range(len(self))]
        if self.goal != "classification":  # there is nothing to count but samples, or those that have a label
            return torch.stack([self.y[r].sum(0).long() if self.goal == "multilabel" else torch.tensor([len(r)]) for r in rows])
        return torch.stack([torch.bincount(self.y[r], minlength=self.classes) for r in rows])

    def majority(self, part: str = "test") -> tuple[list[int], list[int]]:
        """Return how well each client would do by always guessing its most frequent training label.

        Args:
            part: What it guesses on: ``train``, ``validation`` or ``test``.

        Returns:
            For each client, how many guesses are right, and of how many.

        Example:
            >>> import perfed
            >>> clients = perfed.federate("digits", clients=3, partition="iid")
            >>> clients.majority()
            ([17, 14, 14], [150, 150, 150])
        """
        correct, count = [], []
        for own, rows in zip(self.train, getattr(self, part), strict=True):
            label = torch.bincount(self.y[own], minlength=self.classes).argmax()
            correct.append(int((self.y[rows] == label).sum()))
            count.append(len(rows))
        return correct, count

    def to(self, device: torch.device | str) -> "Federation":
        """Return this federation with its tensors on a device.

        Args:
            device: Such as ``cpu`` or ``cuda``.

        Returns:
            The same clients, elsewhere.

        Example:
            >>> import perfed
            >>> clients = perfed.federate("digits", clients=3, partition="iid")
            >>> clients.to("cpu").x.device
            device(type='cpu')
        """
        move = {part: tuple(rows.to(device) for rows in getattr(self, part)) for part in PARTS}
        return replace(self, x=self.x.to(device), y=self.y.to(device), **move)  # type: ignore[arg-type]


def guessed(federation: Federation, part: str = "test") -> list[float]:
    """Return each client's main score of a guess that has learned nothing: the commoner answer to every label, a mean, a coin."""
    if federation.goal != "multilabel":  # the mean explains nothing of the variance, a coin orders every second pair
        return [0.5 if federation.goal == "survival" else 0.0] * len(federation)
    found = []
    for own, rows in zip(federation.train, getattr(federation, part), strict=True):
        usual = (federation.y[own].mean(0) > 0.5).to(federation.y.dtype)
        found.append(float((federation.y[rows] == usual).float().mean()) if len(rows) else 0.0)
    return found
