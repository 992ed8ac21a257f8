"""How one client's model did on one part of its data: a count and values by name; as columns of a line, and read back."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Value = float | list[Any] | None  # a number, a list of them (per class, a matrix), or nothing where it is undefined
Line = Mapping[str, Any]  # one line of rounds.jsonl
Scores = Mapping[str, Sequence[Any]]  # {"count": […], "accuracy": […], …}: one part of a line, one entry per client

PARTS = ("test", "validation", "after", "unseen")  # the last one has clients of its own: those kept out of training


@dataclass(frozen=True)
class Score:
    """How one client's model did on one part of its data."""

    count: int
    values: Mapping[str, Value] = field(default_factory=dict)  # None where a metric is undefined or no finite number

    def __getitem__(self, name: str) -> float:
        """Return a value as a number, ``nan`` where there is none."""
        found = self.values.get(name)
        if isinstance(found, list):
            raise TypeError(f"'{name}' is a list of numbers; take it from .values")
        return math.nan if found is None else found

    def plain(self) -> dict[str, Any]:
        """Return the score as a message or a file holds it."""
        return {"count": self.count, **self.values}

    @staticmethod
    def of(found: Mapping[str, Any]) -> "Score":
        """Return the score in plain values."""
        return Score(int(found["count"]), {name: value for name, value in found.items() if name != "count"})


UNSEEN = Score(0)  # of a client that did not answer


def columns(scores: Sequence[Score | None], decimals: Mapping[str, int] | None = None) -> dict[str, list[Any]]:
    """Return scores as a part of a line: the counts and each metric's values, ``None`` for a client without a score."""
    names = dict.fromkeys(name for score in scores if score is not None for name in score.values)
    found: dict[str, list[Any]] = {"count": [None if score is None else score.count for score in scores]}
    for name in names:
        own = [None if score is None else score.values.get(name) for score in scores]
        digits = (decimals or {}).get(name)
        found[name] = [round(v, digits) if digits is not None and isinstance(v, float) else v for v in own]
    return found


def rows(part: Scores) -> list[Score | None]:
    """Return the scores that a part of a line holds, client by client."""
    names = [name for name in part if name != "count"]
    return [
        None if count is None else Score(count, {name: part[name][i] for name in names}) for i, count in enumerate(part["count"])
    ]


def current(line: dict[str, Any]) -> dict[str, Any]:
    """Return a line of the record in today's form; version 0.1.0 wrote ``correct``, ``count`` and ``loss``."""
    return {name: today(value) if name in PARTS and value else value for name, value in line.items()}


def today(part: Scores) -> Scores:
    """Return a part of a line in today's form."""
    if "correct" not in part:
        return part
    pairs = list(zip(part["correct"], part["count"], strict=True))
    accuracy = [None if correct is None or not count else correct / count for correct, count in pairs]
    rest = {name: values for name, values in part.items() if name not in ("correct", "count")}
    return {"count": [None if correct is None else count for correct, count in pairs], "accuracy": accuracy, **rest}
