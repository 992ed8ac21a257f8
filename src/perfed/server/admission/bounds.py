"""Which answers of a round cannot be an honest client's: robust bounds from the round itself and from those before it.

All bounds are multiples of medians, so fewer than half of the answers cannot move them far:

- **length**: an update may be ``TIMES`` times as long as the round's median update or as the longest median of the rounds before:
  late in training most clients hardly move, and one that still learns takes a step as long as everybody's were at first. It may
  be e to the ``SPREAD`` robust deviations of the round's logarithms where that is more, but not over ``FURTHEST`` times either of
  them; and longer in proportion for a client that has more samples than the median client. Where fewer than three answered,
  the rounds before alone decide, and where there are none, what was sent: an update may be ``TIMES`` times as long.
- **direction from what was sent**: training moves a network, it does not replace it. The cosine between an answer and what
  was sent may not be below ``KEPT`` unless the round's answers are there too.
- **new leaves** (those that nobody was sent) are bounded in length as updates are.
- ``strict`` also compares the directions of updates with each other: see `against`.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .measure import Measured

TIMES = 20.0  # an update may be so many times as long as the median
FURTHEST = 100.0  # and so many times where clients are more unlike each other
SPREAD = 4.0  # robust deviations of log lengths, where clients are more unlike each other
KEPT = 0.1  # cosine with what was sent
SLACK = 5.0  # robust deviations of a round's cosines
EVEN = 0.1  # least deviation of cosines between updates that counts as spread
FEW = 3  # answers below which a round cannot say what is usual in it

_NORMAL = 1.4826  # a median deviation times this is a standard deviation, of normal numbers


class Usual(NamedTuple):
    """What was usual in a round: median lengths of updates and of new leaves, of answers of one form."""

    form: int
    length: float
    new: float

    def most(self, other: "Usual | None") -> "Usual":
        """Return the longer lengths of both."""
        return self if other is None else Usual(self.form, max(self.length, other.length), max(self.new, other.new))

    def plain(self) -> dict[str, Any]:
        """Return it as a line of a record has it."""
        return self._asdict()

    @staticmethod
    def of(form: int, found: Sequence[Measured]) -> "Usual":
        """Return it for the answers that were admitted; rounded, so that a record gives the same numbers back."""
        length, new = (statistics.median(getattr(own, name) for own in found) for name in ("length", "new"))
        return Usual(form, float(f"{length:.6g}"), float(f"{new:.6g}"))


def unusable(found: Measured) -> str:
    """Return why an answer says nothing at all, or nothing: it is all zeros where something was sent."""
    if found.sent > 0 and found.size < 1e-3 * found.sent:
        return "it is zero where something was sent"
    return ""


def outside(found: Sequence[Measured], sizes: Sequence[int], past: Usual | None, noised: bool = False) -> dict[int, str]:
    """Return, by its place, why an answer is outside of what is usual; all of them are finite and of one form.

    ``past`` has the longest lengths that were usual in a round before.
    Noise that clients add themselves may be longer than what was sent, so ``noised`` answers are only held against each other.
    """
    faults: dict[int, str] = {}
    middle = max(1.0, statistics.median(sizes)) if sizes else 1.0
    for name, what in (("length", "its update"), ("new", "what it adds")):
        own = [float(getattr(each, name)) for each in found]
        sent = [each.sent for each in found] if name == "length" and not noised else []
        most = _most(own, float(getattr(past, name)) if past else 0.0, sent)
        for place, length in enumerate(own):
            share = max(1.0, sizes[place] / middle)
            one, times, why = most[place]
            if length > one * times * share:
                said = f"{what} is {length / one:.3g} times as long as {why}, at most {times * share:.3g} fit"
                faults.setdefault(place, said)
    least = -math.inf if noised and len(found) < FEW else _least([each.kept for each in found if each.sent > 0])
    for place, each in enumerate(found):
        if each.sent > 0 and each.kept < least:
            why = f"it has a cosine of {each.kept:.2f} with what was sent, at least {least:.2f} fits"
            faults.setdefault(place, why)
    return faults


def _most(own: Sequence[float], before: float, sent: Sequence[float]) -> list[tuple[float, float, str]]:
    """Return, for each answer, a length, how many times it may be as long, and whose it is; infinite where nothing is known."""
    anything = (math.inf, 1.0, "any")
    if len(own) >= FEW and (middle := statistics.median(own)) > 0:
        logs = [abs(math.log(x / middle)) for x in own if x > 0]
        times = min(FURTHEST, max(TIMES, math.exp(SPREAD * _NORMAL * min(10.0, statistics.median(logs)))))
        if before > 0 and not TIMES * before < times * middle < FURTHEST * before:
            fits = TIMES if times * middle <= TIMES * before else FURTHEST
            return [(before, fits, "what was usual in a round before")] * len(own)
        return [(middle, times, "the median of the round")] * len(own)
    if before > 0:
        return [(before, TIMES, "what was usual in a round before")] * len(own)
    return [(length, TIMES, "what was sent") if length > 0 else anything for length in sent] or [anything] * len(own)


def _least(kept: Sequence[float]) -> float:
    """Return the smallest cosine with what was sent that fits: ``KEPT``, or less where the round's are low."""
    if len(kept) < FEW:
        return 0.0
    middle = statistics.median(kept)
    spread = _NORMAL * statistics.median(abs(x - middle) for x in kept)
    return min(KEPT, middle - SLACK * max(spread, EVEN))


def against(sketches: Mapping[int, Tensor]) -> dict[int, str]:
    """Return, by its place, which updates point away from the others: only ``strict`` asks.

    Each update has the median of its cosines with all others. One is against them if that is negative and lies more than
    ``SLACK`` robust deviations, of at least ``EVEN`` / ``SLACK`` · 2 each, below the round's median.
    """
    places = [place for place, sketch in sketches.items() if bool(sketch.any())]
    if len(places) < FEW:
        return {}
    rows = torch.stack([sketches[place].double() for place in places])
    rows = rows / rows.norm(dim=1, keepdim=True)
    cosines = (rows @ rows.T).tolist()
    middles = [statistics.median(row[:i] + row[i + 1 :]) for i, row in enumerate(cosines)]
    centre = statistics.median(middles)
    spread = _NORMAL * statistics.median(abs(x - centre) for x in middles)
    least = min(0.0, centre - max(SLACK * spread, 2 * EVEN))
    said = "its update points away from the others', with a median cosine of {:.2f} where {:.2f} is usual"
    return {place: said.format(own, centre) for place, own in zip(places, middles, strict=True) if own < least}
