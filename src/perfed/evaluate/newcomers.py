"""Figures of clients that were kept out of training: how they do once they have joined, beside those who trained."""

from collections.abc import Mapping, Sequence
from typing import Any

from .scores import Line
from .summary import average, figures, over

PART = "unseen"


def last(lines: Sequence[Line]) -> Line | None:
    """Return the last line in which the unseen were tested."""
    return next((line for line in reversed(lines) if line.get(PART)), None)


def newcomers(seeds: Mapping[int, Sequence[Line]], report: str = "weighted") -> dict[str, Any] | None:
    """Return the accuracy of the unseen after they joined, of the seen in the same round, and the difference.

    ``report`` is the average that counts (``weighted`` or ``mean``). Each figure is ``{"mean", "std"}`` over seeds, and per
    seed under ``seeds``. ``None`` where no client was kept out, or none has joined yet in one of the seeds.
    """
    found = {seed: last(lines) for seed, lines in seeds.items()}
    if not found or any(line is None for line in found.values()):
        return None
    each = {str(seed): _figures(line, report) for seed, line in sorted(found.items()) if line is not None}
    names = ("accuracy", "seen", "gap", "std")
    return {name: over([own[name] for own in each.values()]) for name in names} | {"report": report, "seeds": each}


def _figures(line: Line, report: str) -> dict[str, float | None]:
    own, seen = figures(line[PART]), average(line["test"], report) if line.get("test") else None
    accuracy = None if own is None else own[report]
    gap = None if accuracy is None or seen is None else accuracy - seen
    return {"round": line["round"], "accuracy": accuracy, "seen": seen, "gap": gap, "std": None if own is None else own["std"]}
