"""What the clients of a run have given away so far: steps counted client by client, ε of who gave most."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from .accountant import epsilon
from .settings import Privacy


@dataclass
class Spending:
    """Counts every client's noisy steps; ε never falls."""

    privacy: Privacy
    rates: Sequence[float]  # per client, the chance of a sample to take part in a step; 1 where answers are noised
    steps: Sequence[int]  # per client, of one round
    rounds: list[int] = field(default_factory=list)  # per client, in which it took part

    def __post_init__(self) -> None:
        self.rounds = self.rounds or [0] * len(self.rates)

    @staticmethod
    def of(privacy: Privacy, sizes: Sequence[int], batch_size: int, steps: Sequence[int]) -> "Spending":
        """Return nothing spent, by clients with so many samples who take so many steps a round."""
        if privacy.name == "client":
            return Spending(privacy, [1.0] * len(sizes), [1] * len(sizes))
        return Spending(privacy, [rate_of(size, batch_size) for size in sizes], list(steps))

    def took_part(self, clients: Iterable[int]) -> None:
        """Count a round, before its answers are used."""
        for client in clients:
            self.rounds[client] += 1

    def epsilon(self, more: Iterable[int] = ()) -> float:
        """Return ε of who has given most, and what it would be if these took part once more."""
        extra = set(more)
        kinds = {
            (rate, steps * (count + (client in extra)))
            for client, (rate, steps, count) in enumerate(zip(self.rates, self.steps, self.rounds, strict=True))
        }
        return max((epsilon([(rate, self.privacy.noise, count)], self.privacy.delta) for rate, count in kinds), default=0.0)


def rate_of(size: int, batch_size: int) -> float:
    """Return the chance of a sample to take part in a step, so that a batch has ``batch_size`` of them on average."""
    return min(1.0, batch_size / max(size, 1))
