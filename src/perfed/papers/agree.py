"""How far a column of a table agrees with the published one: the order of its rows, and which differences hold.

A published difference between two rows is told apart from chance where it is larger than the deviation of such a
difference over our seeds (pooled over all pairs of rows, seed by seed, since rows share their seeds' splits). It
holds if ours has the same sign and is larger than that deviation too, it is reversed if ours is as large with the other
sign, and open in between.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..units import minus, signed

if TYPE_CHECKING:
    from .show import Shown

Array = NDArray[np.float64]

LEAST = 3  # rows that have an order
DRAWS = 2000
SHOWN = 3  # reversed differences that are named


class Point(NamedTuple):
    """A row of a column that has a published value and ours."""

    label: str
    theirs: float
    ours: float
    each: Mapping[int, float]  # ours, seed by seed


class Difference(NamedTuple):
    """Two rows: the one that is published higher, the other, and how far the first is above, there and here."""

    above: str
    below: str
    theirs: float
    ours: float

    def verdict(self, noise: float) -> str:
        """Say what becomes here of a published difference that is larger than ``noise``."""
        if abs(self.ours) <= noise:
            return "open"
        return "holds" if self.ours > 0 else "reversed"


def agreement(found: Sequence["Shown"]) -> list[dict[str, Any]]:
    """Return, column by column, the rank correlation with its interval, the mean difference, and what holds."""
    out = []
    for column in dict.fromkeys(a.column.id for a in found):
        points = _points([a for a in found if a.column.id == column])
        if len(points) < LEAST:
            continue
        ours, theirs = (np.array([getattr(p, side) for p in points], dtype=np.float64) for side in ("ours", "theirs"))
        rank = spearman(ours, theirs)
        if rank is None:
            continue
        entry = {"column": column, "rows": len(points), "spearman": rank, "interval": interval(points)}
        out.append(entry | {"difference": float((ours - theirs).mean()), **_differences(points)})
    return out


def spearman(first: Array, second: Array) -> float | None:
    """Return Spearman's rank correlation, equal values sharing the middle of their places; None where all are equal."""
    a, b = _ranks(first), _ranks(second)
    return float(np.corrcoef(a, b)[0, 1]) if a.std() and b.std() else None


def interval(points: Sequence[Point]) -> list[float]:
    """Return the middle 95 % of the rank correlations of resampled rows, each with its seeds resampled."""
    draw = np.random.default_rng(0)
    theirs = np.array([p.theirs for p in points], dtype=np.float64)
    seeds = [np.array(list(p.each.values()) or [p.ours], dtype=np.float64) for p in points]
    found = []
    for _ in range(DRAWS):
        rows = draw.integers(len(points), size=len(points))
        ours = np.array([draw.choice(own, len(own)).mean() for own in seeds], dtype=np.float64)
        rank = spearman(ours[rows], theirs[rows])
        if rank is not None:
            found.append(rank)
    low, high = np.percentile(found, [2.5, 97.5])
    return [float(low), float(high)]


def sentence(entry: Mapping[str, Any]) -> str:
    """Say in words how far a column agrees with the paper."""
    found, low, high = (minus(value, 2) for value in (entry["spearman"], *entry["interval"]))
    said = (
        f"rank correlation with the paper {found} (95 % interval {low} to {high}, {entry['rows']} rows), "
        f"ours {signed(entry['difference'], 2)} on average; "
    )
    if entry["deviation"] is None:
        return f"{said}{entry['same']} of {entry['pairs']} differences have the paper's sign (with one seed, chance is not known)"
    said += (
        f"of {entry['pairs']} published differences {entry['told']} are larger than our seeds' deviation "
        f"({entry['deviation']:.2f}): {_counted(entry['holds'], 'holds', 'hold')}, "
        f"{_counted(entry['reversed'], 'is reversed', 'are reversed')}, {_counted(entry['open'], 'is open', 'are open')}"
    )
    worst = [f"{p['below']} above {p['above']} by {-p['ours']:.2f} (paper: below by {p['theirs']:.2f})" for p in entry["against"]]
    return said + (f"; most clearly reversed: {', '.join(worst)}" if worst else "")


def _counted(count: int, one: str, more: str) -> str:
    return f"{count} {one if count == 1 else more}"


def _points(column: Sequence["Shown"]) -> list[Point]:
    """Return what can be compared; a run under way has its number shown, but no place in an order yet."""
    ended = [a for a in column if a.ours.stopped or a.ours.rounds >= a.ours.planned]
    return [
        Point(a.row.label, a.published.mean, a.ours.mean, a.ours.each)
        for a in ended
        if a.difference is not None and a.published is not None and a.published.mean is not None and a.ours.mean is not None
    ]


def _differences(points: Sequence[Point]) -> dict[str, Any]:
    pairs, noise = list(_pairs(points)), _deviation(points)
    same = sum(pair.ours > 0 for pair in pairs)
    if noise is None:
        return {"pairs": len(pairs), "same": same, "deviation": None}
    told = [pair for pair in pairs if pair.theirs > noise]
    verdicts = [pair.verdict(noise) for pair in told]
    against = sorted((pair for pair in told if pair.verdict(noise) == "reversed"), key=lambda pair: pair.ours)
    counts = {word: verdicts.count(word) for word in ("holds", "reversed", "open")}
    return {
        "pairs": len(pairs),
        "same": same,
        "deviation": noise,
        "told": len(told),
        **counts,
        "against": [pair._asdict() for pair in against[:SHOWN]],
    }


def _pairs(points: Sequence[Point]) -> Iterator[Difference]:
    """Yield every two rows whose published values differ."""
    for one, other in combinations(points, 2):
        above, below = (one, other) if one.theirs > other.theirs else (other, one)
        if above.theirs > below.theirs:
            yield Difference(above.label, below.label, above.theirs - below.theirs, above.ours - below.ours)


def _deviation(points: Sequence[Point]) -> float | None:
    """Return how far the difference of two rows varies over seeds, pooled over pairs; None with one seed."""
    variances = []
    for one, other in combinations(points, 2):
        shared = sorted(set(one.each) & set(other.each))
        if len(shared) > 1:
            variances.append(float(np.var([one.each[seed] - other.each[seed] for seed in shared], ddof=1)))
    return float(np.sqrt(np.mean(variances))) if variances else None


def _ranks(values: Array) -> Array:
    return np.array([(values < v).sum() + ((values == v).sum() + 1) / 2 for v in values], dtype=np.float64)
