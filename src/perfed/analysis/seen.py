"""What a server sees of a client: every uploaded leaf by its whole path, beside what the client was sent in its place."""

from typing import NamedTuple

from torch import Tensor

from .. import trees
from ..transport import Site
from ..trees import Params, Tree


class Seen(NamedTuple):
    """One uploaded leaf of a network: where it stood in the answer, and what was received in its place, from where."""

    path: str  # in the answer
    sent: Tensor
    origin: str  # its path in the message; empty where nothing of that name was sent
    received: Tensor


def last(path: str) -> str:
    """Return the name that a leaf has in its network."""
    return path.rpartition("/")[2]


def seen(site: Site, down: Tree, up: Tree) -> dict[str, Seen]:
    """Return what an answer shows of the network, by name, running state left out.

    A name may stand in several branches of a message: SCAFFOLD's control variates and FedCAC's masks are called as the
    parameters they belong to. Where answer and message have a leaf at the same path, that is the pair; otherwise the pair that
    differs least, because one round moves a parameter a little. What was never sent is held against the common start.
    """
    start = _start(site)
    answers, messages = _by_name(dict(site.withheld.crossing(up))), _by_name(dict(trees.named(down)))
    found: dict[str, Seen] = {}
    for name, candidates in answers.items():
        pairs = [
            Seen(path, leaf, origin, received)
            for path, leaf in candidates.items()
            for origin, received in messages.get(name, {}).items()
            if received.shape == leaf.shape
        ]
        if not pairs and name in start:
            pairs = [Seen(path, leaf, "", start[name]) for path, leaf in candidates.items() if leaf.shape == start[name].shape]
        if pairs:
            found[name] = min(pairs, key=lambda pair: (pair.path != pair.origin, _apart(pair)))
    return found


def _apart(pair: Seen) -> float:
    return float((pair.sent.detach().double() - pair.received.detach().double()).square().sum())


def _by_name(leaves: dict[str, Tensor]) -> dict[str, Params]:
    """Return parameters by the last part of their paths, and under each all that are called so, by whole path."""
    found: dict[str, Params] = {}
    for path, leaf in leaves.items():
        if leaf.is_floating_point() and not trees.is_state(path):
            found.setdefault(last(path), {})[path] = leaf
    return found


def _start(site: Site) -> Params:
    """Return where everything begins that a network or a method's own parts are made of."""
    start = site.task.params()
    for part in site.task.parts.values():
        start |= part.start
    return start
