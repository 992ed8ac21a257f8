"""How methods are written in tables and figures, and the order in which tables list them: the catalogue's."""

import re
from collections.abc import Sequence

from .. import methods

MAJORITY = "majority"  # no method: guessing each client's most frequent label, which tables list first


def title(method: str) -> str:
    """Return how ``method`` is written; a method of the reader's own keeps its name."""
    if method == MAJORITY:
        return "Majority class"
    return methods.title(method) if method in methods.CATALOGUE else method


def label(method: str, rule: str | None) -> str:
    """Return how ``method`` is written that averages by ``rule``, which is part of its name if it is not its own."""
    return methods.label(method, rule) if method in methods.CATALOGUE else title(method)


def position(method: str) -> int:
    """Return where ``method`` stands in a table; methods of the reader's own stand last."""
    order = [MAJORITY, *methods.CATALOGUE]
    return order.index(method) if method in order else len(order)


def shorten(clients: Sequence[str]) -> tuple[str, list[str]]:
    """Return what numbered names share and their numbers: ``client 0, client 1`` is ``client`` and ``0, 1``."""
    numbered = [re.fullmatch(r"(\D*?)[ _-]?(\d+)", name) for name in clients]
    found = [match.groups() for match in numbered if match]
    if len(found) == len(clients) and len({prefix for prefix, _ in found}) == 1:
        return found[0][0].strip() or "client", [number for _, number in found]
    return "", list(clients)
