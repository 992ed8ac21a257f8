"""The clients' answers of one round, in client order, taken in as they arrive."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

import torch
from torch import Tensor

Up = TypeVar("Up")
V = TypeVar("V")


def in_turn(ids: Sequence[int], coming: Iterable[tuple[int, Up]]) -> Iterator[tuple[int, Up]]:
    """Yield clients' answers in the order of ``ids``; those that come early wait."""
    early: dict[int, Up] = {}
    turn = iter(ids)
    due = next(turn, None)
    for client, up in coming:
        early[client] = up
        while due is not None and due in early:
            yield due, early.pop(due)
            due = next(turn, None)


class Uploads(Generic[Up]):
    """Who answered, with how many training samples, and what; iterating yields the answers in client order.

    Answers may still be on their way: a rule that needs one at a time (`mean`) never holds more than one, and
    ``trees`` collects them all for a rule that needs them together.

    Args:
        ids: The clients that answered, in order.
        sizes: Training samples of each.
        answers: What each answered; taken in as it arrives.

    Raises:
        RuntimeError: If answers are visited a second time without ``trees``.

    Example:
        >>> from perfed import Uploads
        >>> ups = Uploads([0, 3], [20, 10], ["a", "b"])
        >>> len(ups), ups.sizes.tolist(), list(ups)
        (2, [20.0, 10.0], ['a', 'b'])
    """

    def __init__(self, ids: Sequence[int], sizes: Sequence[int], answers: Iterable[Up]) -> None:
        self.ids, self._sizes = list(ids), list(sizes)
        self._coming: Iterator[Up] | None = iter(answers)
        self._all: list[Up] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[Up]:
        if self._all is not None:
            return iter(self._all)
        if self._coming is None:
            raise RuntimeError("these answers were already consumed; use `trees` to visit them more than once")
        coming, self._coming = self._coming, None
        return coming

    @property
    def sizes(self) -> Tensor:
        """Training samples per answer, float64."""
        return torch.tensor(self._sizes, dtype=torch.float64)

    @property
    def counts(self) -> list[int]:
        """Training samples per answer, as whole numbers."""
        return list(self._sizes)

    @property
    def trees(self) -> list[Up]:
        """All answers at once."""
        if self._all is None:
            self._all = list(self)
        return self._all

    def each(self, field: Callable[[Up], V]) -> "Uploads[V]":
        """Return the same uploads seen through ``field``.

        Args:
            field: What to take of each answer.

        Returns:
            Uploads of the same clients.

        Example:
            >>> from perfed import Uploads
            >>> list(Uploads([0, 3], [20, 10], [{"w": 1}, {"w": 2}]).each(lambda up: up["w"]))
            [1, 2]
        """
        return Uploads(self.ids, self._sizes, (field(tree) for tree in self))

    def drain(self) -> None:
        """Take in what nobody asked for, so that every client has finished.

        Example:
            >>> from perfed import Uploads
            >>> Uploads([0, 3], [20, 10], ["a", "b"]).drain()
        """
        if self._all is None and self._coming is not None:
            for _ in self:
                pass
