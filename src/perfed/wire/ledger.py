"""What crossed in a round, in bytes per direction and field."""

from collections import Counter

from .. import trees
from ..trees import Tree
from .withhold import Withheld


class Ledger:
    """Adds up the payload of every message of a round."""

    def __init__(self, withheld: Withheld) -> None:
        self._withheld = withheld
        self._up: Counter[str] = Counter()
        self._down: Counter[str] = Counter()

    def up(self, tree: Tree, times: int = 1) -> None:
        """Count an answer, or so many that weigh the same."""
        self._up.update({name: times * size for name, size in fields(tree, self._withheld).items()})

    def down(self, tree: Tree, times: int = 1) -> None:
        """Count a message to a client, or so many that weigh the same."""
        self._down.update({name: times * size for name, size in fields(tree, self._withheld).items()})

    def close(self) -> tuple[dict[str, int], dict[str, int]]:
        """Return bytes up and down per field since the last call, and begin anew."""
        up, down = dict(sorted(self._up.items())), dict(sorted(self._down.items()))
        self._up.clear()
        self._down.clear()
        return up, down


def fields(tree: Tree, withheld: Withheld) -> dict[str, int]:
    """Return payload bytes per field: a NamedTuple's field, or the part of the network a plain dict's leaf is in."""
    out: Counter[str] = Counter()
    for path, leaf in withheld.crossing(tree):
        head = path.split("/")[0] if "/" in path else path.removeprefix(trees.STATE).split(".")[0]
        out[head] += trees.size_of(leaf)
    return dict(out)
