"""Client-steps: the batches that clients visit in training, counted before they are visited."""

from collections.abc import Sequence

from ...sampling import Sampling
from ..assemble import AnyMethod


class Meter:
    """Counts the client-steps of rounds on one federation: all that a method's passes multiply.

    A client-step is one batch that a client trains on. Passes before a test (FedAvg+FT tunes then) leave no trace in
    training; they are counted once, where a run is at its end and its models are served.
    """

    def __init__(self, sizes: Sequence[int], sampling: Sampling, seed: int, batch_size: int, even: bool) -> None:
        single = [even and size > 1 and size % batch_size == 1 for size in sizes]  # a batch that BatchNorm cannot train on
        self.batches = [-(-(size - alone) // batch_size) for size, alone in zip(sizes, single, strict=True)]
        self.sampling, self.seed = sampling, seed
        self._sums = [0]

    def visits(self, rounds: int) -> int:
        """Return the batches of one pass in each of so many rounds."""
        if self.sampling.ratio == 1 and self.sampling.ratio_min is None:
            return rounds * sum(self.batches)
        while len(self._sums) <= rounds:
            who = self.sampling.participants(self.seed, len(self._sums), len(self.batches))
            self._sums.append(self._sums[-1] + sum(self.batches[client] for client in who))
        return self._sums[rounds]

    def spent(self, method: AnyMethod, first: int, last: int, *, served: bool = False) -> int:
        """Return the client-steps of the rounds after ``first`` up to ``last``, and of tuning where models are served then."""
        return method.fitted * (self.visits(last) - self.visits(first)) + served * self.tuning(method)

    def tuning(self, method: AnyMethod) -> int:
        """Return the client-steps of tuning everybody's model."""
        return method.tuning * sum(self.batches)

    def rounds(self, method: AnyMethod, steps: float, first: int = 0, *, served: bool = False) -> int:
        """Return up to which round a run goes that spends so many client-steps after round ``first``, as nearly as can be."""
        return first + max(1, self.nearest((steps - served * self.tuning(method)) / method.fitted, first))

    def within(self, visits: float) -> int:
        """Return the most rounds of one pass that do not visit more than so many batches, at least one."""
        found = max(1, self.nearest(visits))
        return found - 1 if found > 1 and self.visits(found) > visits else found

    def nearest(self, visits: float, first: int = 0) -> int:
        """Return the number of rounds after ``first`` whose visits come nearest."""
        low, high = 0, 1
        while self.visits(first + high) - self.visits(first) < visits:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.visits(first + middle) - self.visits(first) < visits else (low, middle)
        below, above = (abs(self.visits(first + n) - self.visits(first) - visits) for n in (low, high))
        return low if below <= above else high
