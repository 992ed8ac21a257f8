"""Refused uploads in the lines of a record: whose, how many, since when, and why first."""

from collections.abc import Mapping, Sequence
from typing import Any

UNSOUND = "not finite"  # in the reason why an upload was refused whose numbers are none


def refusals(seeds: Mapping[int, Sequence[Mapping[str, Any]]]) -> dict[str, dict[str, dict[str, Any]]]:
    """Return, by seed and client, how many uploads were refused, the first such round and why; seeds without are left out."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for seed, lines in seeds.items():
        own: dict[str, dict[str, Any]] = {}
        for line in lines:
            for client, why in line.get("refused", {}).items():
                own.setdefault(client, {"count": 0, "round": line["round"], "why": why})["count"] += 1
        if own:
            found[str(seed)] = dict(sorted(own.items(), key=lambda item: int(item[0])))
    return found


def lost(line: Mapping[str, Any]) -> bool:
    """Whether a round brought nothing: half of its uploads or more were no numbers, or nobody was left to ask."""
    if not line.get("round"):
        return False
    bad = sum(UNSOUND in why for why in line.get("refused", {}).values())
    return not line.get("participants", True) or (bad > 0 and 2 * bad >= len(line["participants"]))
