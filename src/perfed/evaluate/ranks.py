"""Where every sample stands among its client's by the score of its own class: one sort for all clients and classes.

All that is found are whole numbers. So it does not matter who else is in the batch, nor in which order equals are sorted.
"""

from typing import NamedTuple

import numpy as np

from .measures import Array


class Ranks(NamedTuple):
    """One entry for each sample, ordered by lane (a client's class) and within a lane from the lowest score up."""

    lane: Array
    below: Array  # of the client's samples, those with a lower score
    own: Array  # of the lane's own samples, those with a lower score
    won: Array  # of the client's samples of other classes, those with a lower score, and half of those at its level


def ranks(values: Array, members: Array) -> Ranks:
    """Rank samples by values (lanes × samples), those of a lane's class being its members; padding is no member, and infinite."""
    most = values.shape[1]
    order = values.argsort(1)
    order += np.arange(0, values.size, most)[:, None]
    at = members.take(order).ravel().nonzero()[0]  # the members' places, over all lanes
    lane = at // most
    start, former = lane * most, lane.searchsorted(lane)
    ordered = values.take(order).ravel()
    same = np.zeros(values.size + 1, bool)  # whether a place is level with the one before it
    np.equal(ordered[1:], ordered[:-1], out=same[1:-1])
    if not np.count_nonzero(same.take(at) | same.take(at + 1)):
        below, own = at - start, np.arange(len(at)) - former
        return Ranks(lane, below, own, below - own)
    same[::most] = False  # no run of equals leaves its lane
    begins = np.flatnonzero(~same)
    run = begins.searchsorted(at, "right")
    first, end = begins[run - 1], begins[run]
    begin, stop = at.searchsorted(first), at.searchsorted(end)
    below, own = first - start, begin - former
    return Ranks(lane, below, own, below - own + ((end - first) - (stop - begin)) / 2)
