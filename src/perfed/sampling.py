"""Who takes part in a round, who drops out of it after training, and what those may spend who come later."""

from dataclasses import dataclass

from . import keys
from .errors import InputError


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """Participation: how many clients train in a round, and how many of their answers arrive.

    Args:
        ratio: The share of the clients that take part in a round.
        ratio_min: If given, the share is drawn anew in every round between this one and ``ratio``.
        drop: The chance that a participant trains but its answer never arrives.

    Raises:
        InputError: If a share or a chance cannot be right.

    Example:
        >>> from perfed import Sampling
        >>> Sampling(ratio=0.5).participants(seed=0, number=1, clients=6)
        [2, 4, 5]
        >>> Sampling(ratio=2)
        Traceback (most recent call last):
        perfed.errors.InputError: sampling.ratio must be in (0, 1], got 2; 1 means all clients
    """

    ratio: float = 1.0  # C, share of the clients that take part in a round
    ratio_min: float | None = None  # the share is drawn anew in every round between this one and ratio
    drop: float = 0.0  # chance that a participant's answer is lost

    def __post_init__(self) -> None:
        if not 0 < self.ratio <= 1:
            raise InputError(f"sampling.ratio must be in (0, 1], got {self.ratio:g}; 1 means all clients")
        if self.ratio_min is not None and not 0 < self.ratio_min <= self.ratio:
            raise InputError(f"sampling.ratio_min must be in (0, {self.ratio:g}], got {self.ratio_min:g}")
        if not 0 <= self.drop < 1:
            raise InputError(f"sampling.drop must be in [0, 1), got {self.drop:g}")

    def fewest(self, clients: int) -> int:
        """Return the smallest number of participants a round can have.

        Args:
            clients: How many clients there are.

        Returns:
            A number of clients, at least 1.

        Example:
            >>> from perfed import Sampling
            >>> Sampling(ratio=0.5, ratio_min=0.1).fewest(20)
            2
        """
        return max(1, int((self.ratio if self.ratio_min is None else self.ratio_min) * clients + 1e-9))

    def participants(self, seed: int, number: int, clients: int) -> list[int]:
        """Return the clients that train in a round; they follow from the seed and the round alone.

        Args:
            seed: The run's seed.
            number: The round, from 1.
            clients: How many clients there are.

        Returns:
            Their numbers, in order.

        Example:
            >>> from perfed import Sampling
            >>> half = Sampling(ratio=0.5)
            >>> [half.participants(seed=0, number=number, clients=6) for number in (1, 2)]
            [[2, 4, 5], [0, 3, 5]]
        """
        most = max(1, int(self.ratio * clients + 1e-9))
        count = most
        if self.ratio_min is not None:
            fewest = self.fewest(clients)
            count = fewest + int(keys.bits(keys.key(seed, number, "how many"), 1)) % (most - fewest + 1)
        if count == clients:
            return list(range(clients))
        return sorted(keys.permutation(keys.key(seed, number, "who"), clients)[:count].tolist())

    def dropped(self, seed: int, number: int, ids: list[int]) -> set[int]:
        """Return the participants whose answer is lost; at least one always arrives.

        Args:
            seed: The run's seed.
            number: The round, from 1.
            ids: The participants' numbers.

        Returns:
            The numbers of those that are not heard.

        Example:
            >>> from perfed import Sampling
            >>> sorted(Sampling(drop=0.5).dropped(seed=0, number=1, ids=[0, 1, 2, 3]))
            [0, 1]
        """
        if not self.drop:
            return set()
        luck = keys.uniform(keys.key(seed, number, "drop"), (max(ids) + 1,))
        lost = {i for i in ids if luck[i] < self.drop}
        return lost if len(lost) < len(ids) else lost - {min(ids, key=lambda i: -float(luck[i]))}


@dataclass(frozen=True, kw_only=True)
class Join:
    """What a newcomer may spend on fitting its own parts, and how often clients kept out of training are tested so.

    Args:
        epochs: Passes over a newcomer's training samples.
        every: Rounds between tests of the unseen clients; 0 tests them after the last round only.

    Raises:
        InputError: If a number cannot be right.

    Example:
        >>> from perfed.sampling import Join
        >>> Join(epochs=5).due(number=10, last=10), Join(epochs=5).due(number=5, last=10)
        (True, False)
    """

    epochs: int = 10  # passes over a newcomer's training samples in which it fits its own parts
    every: int = 0  # rounds between tests of the unseen clients; 0: after the last round only

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.every < 0:
            raise InputError(f"join.epochs must be at least 1 and join.every not negative, got {self.epochs} and {self.every}")

    def due(self, number: int, last: int) -> bool:
        """Return whether the unseen join after a round.

        Args:
            number: The round, from 0, which is before any training.
            last: The last round of the run.

        Returns:
            Whether they do.

        Example:
            >>> from perfed.sampling import Join
            >>> [number for number in range(8) if Join(every=3).due(number, last=7)]
            [3, 6, 7]
        """
        return number > 0 and (number == last or (self.every > 0 and number % self.every == 0))
