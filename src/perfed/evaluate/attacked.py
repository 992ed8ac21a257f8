"""Figures of a run that was attacked: how the honest clients do, and how often a backdoor opens at them."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from .scores import Line, Scores
from .summary import average, over, tested

PART = "backdoor"


def attacked(seeds: Mapping[int, Sequence[Line]], report: str = "weighted") -> dict[str, Any] | None:
    """Return the honest clients' accuracy in the last tested round, and the share of marked samples taken for the target.

    Each figure is ``{"mean", "std"}`` over seeds, and per seed under ``seeds``; ``None`` where nobody attacked.
    """
    each: dict[str, dict[str, Any]] = {}
    for seed, lines in sorted(seeds.items()):
        found = [line for line in tested(lines, "test") if line.get("attackers")]
        if not found:
            return None
        last = found[-1]
        own = {"round": last["round"], "attackers": last["attackers"]}
        own["honest"] = average(honest(last["test"], last["attackers"]), report)
        own[PART] = average(honest(last[PART], last["attackers"]), "weighted") if last.get(PART) else None
        each[str(seed)] = own
    if not each:
        return None
    return {name: over([own[name] for own in each.values()]) for name in ("honest", PART)} | {"report": report, "seeds": each}


def honest(scores: Scores, attackers: Collection[int]) -> dict[str, list[Any]]:
    """Return a part of a line without the attackers."""
    return {name: [value for place, value in enumerate(values) if place not in attackers] for name, values in scores.items()}
