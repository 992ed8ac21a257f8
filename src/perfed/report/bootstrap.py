"""How far chance alone reaches: clients and seeds drawn anew, the same ones for every method that is compared."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import keys

Array = NDArray[np.float64]

DRAWS = 4000
SURE = (2.5, 97.5)  # per cent: an interval of 95 %


class Interval(NamedTuple):
    """A figure, and where 95 % of the draws lie."""

    value: float
    low: float
    high: float

    @property
    def sure(self) -> bool:
        """Whether it is a difference that chance does not explain: 0 lies outside."""
        return not self.low <= 0 <= self.high

    def scaled(self, factor: float) -> "Interval":
        """Return the interval in other units."""
        return Interval(*(factor * value for value in self))


def draws(values: Array, counts: Array, seed: int = 0) -> tuple[Array, Array]:
    """Return the mean of every method, and that of every draw of clients and seeds (draws × methods).

    Args:
        values: methods × seeds × clients; ``nan`` where there is no value.
        counts: what a client weighs: its test samples, or 1.
        seed: what is drawn from.
    """
    _, seeds, clients = values.shape
    key = keys.key(seed, "bootstrap")
    often = [_often(keys.bits(keys.fold(key, place), DRAWS * n).numpy() % n, n) for place, n in enumerate((seeds, clients))]
    known = ~np.isnan(values)
    weight = known * counts[None, None, :]
    worth = weight * np.where(known, values, 0.0)
    whole = worth.sum((1, 2)) / weight.sum((1, 2))
    total = np.einsum("ds,dc,msc->dm", *often, worth, optimize=True)
    of = np.einsum("ds,dc,msc->dm", *often, weight, optimize=True)
    return whole, total / np.where(of > 0, of, np.nan)


def _often(drawn: NDArray[np.int64], kinds: int) -> Array:
    """Return how often each of some kinds is in every draw (draws × kinds)."""
    rows = drawn.reshape(DRAWS, kinds)
    found: Array = (rows[:, :, None] == np.arange(kinds)).sum(1).astype(float)
    return found


def interval(value: float, drawn: Array) -> Interval:
    """Return a figure with the interval of its draws."""
    low, high = np.nanpercentile(drawn, SURE)
    return Interval(float(value), float(low), float(high))
