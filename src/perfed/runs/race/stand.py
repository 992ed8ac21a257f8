"""How candidates stand: each one's score on validation data, who goes on, and who wins."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...evaluate.metrics import known
from ...evaluate.scores import Line
from ...evaluate.summary import average, choose, runaway
from ..experiment import Experiment
from .draw import Values


@dataclass
class Candidate:
    """A setting of a method in the race, and how it stands."""

    racer: str
    number: int  # 0 is the method's own setting
    values: Values
    rounds: int = 0  # that it has had
    steps: int = 0  # client-steps that it has had
    score: float | None = None  # its best on validation data so far; none where it ran away
    loss: float = math.inf  # in that round
    best: int = 0  # that round
    why: str = ""  # it has no score
    rung: int = -1  # the last one that it was in

    def plain(self) -> dict[str, Any]:
        """Return the candidate as JSON holds it."""
        return {
            "racer": self.racer,
            "number": self.number,
            "values": dict(self.values),
            "rounds": self.rounds,
            "steps": self.steps,
            "score": self.score,
            "loss": self.loss if math.isfinite(self.loss) else None,
            "best": self.best,
            "why": self.why,
        }

    @staticmethod
    def of(found: Mapping[str, Any]) -> "Candidate":
        """Return what `plain` made plain."""
        return Candidate(**{**found, "loss": math.inf if found["loss"] is None else found["loss"]})


def judge(one: Candidate, lines: Sequence[Line], asked: Experiment) -> None:
    """Write down how a candidate stands after its lines, all on validation data."""
    since = runaway(lines, series="validation")
    line = choose(lines, "best", report=asked.report, series="validation", by=asked.choose)
    if since is not None:
        one.score, one.loss, one.why = None, math.inf, f"ran away in round {since}"
    elif line is None or math.isnan(average(line["validation"], asked.report, asked.choose)):
        one.score, one.loss, one.why = None, math.inf, f"{asked.choose} is undefined for every client"
    else:
        part = line["validation"]
        one.score, one.loss = average(part, asked.report, asked.choose), average(part, "weighted", "loss")
        one.best, one.why = int(line["round"]), ""


def ranked(those: Sequence[Candidate], asked: Experiment) -> list[Candidate]:
    """Return candidates with a score, the best first; of equal scores the lower loss is better, then the lower number."""
    sign = 1 if known(asked.choose).higher else -1
    scored = [one for one in those if one.score is not None]
    return sorted(scored, key=lambda one: (-sign * (one.score or 0.0), one.loss, one.number))


def validated(lines: Mapping[int, Sequence[Line]], asked: Experiment) -> tuple[float, float] | None:
    """Return the mean over seeds of the best validation score, and of the loss there; nothing where a seed has none."""
    found = []
    for own in lines.values():
        line = choose(own, "validation", report=asked.report, by=asked.choose)
        if line is None or runaway(own, series="validation") is not None:
            return None
        part = line["validation"]
        found.append((average(part, asked.report, asked.choose), average(part, "weighted", "loss")))
    score, loss = (sum(values) / len(found) for values in zip(*found, strict=True))
    return score, loss


def first(scores: Mapping[str, tuple[float, float] | None], asked: Experiment) -> str | None:
    """Return the name with the best score, of equal ones that with the lower loss; nothing where nobody has any."""
    sign = 1 if known(asked.choose).higher else -1
    there = {name: both for name, both in scores.items() if both is not None}
    return min(there, key=lambda name: (-sign * there[name][0], there[name][1])) if there else None
