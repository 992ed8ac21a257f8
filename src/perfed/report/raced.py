"""What a race came to: every method's best setting on fresh seeds, with intervals, beside the winner and beside Local."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import RunError
from ..evaluate.metrics import Metric, known
from ..evaluate.newcomers import last as joined
from ..evaluate.scores import Line
from ..evaluate.summary import average, choose, rates, tested
from ..runs.experiment import Experiment
from ..runs.race.draw import said
from ..runs.race.folder import RaceFolder
from ..runs.race.plan import RacePlan, Racer
from ..runs.race.stand import Candidate, first, ranked, validated
from ..units import signed, weighed
from .bootstrap import Interval, draws, interval
from .helped import verdict
from .read import Record, read

Array = NDArray[np.float64]

PLAIN = "-plain"  # ends the name of a method's own setting, tested beside the tuned one


@dataclass(frozen=True)
class Placed:
    """A method's best setting on fresh seeds."""

    name: str  # of its run
    title: str
    values: Mapping[str, Any]  # what the race set
    validation: float | None  # by which the winner is chosen
    test: Interval  # on samples that nobody had looked at
    behind: Interval  # the winner less this one
    gain: Interval | None  # this one less Local
    clients: tuple[int, int]  # for how many it is better than Local, and worse
    sure: tuple[int, int]  # the same, beyond what a client's test samples leave to chance
    bytes: float  # up and down, of a full run
    seconds: float
    rounds: int
    steps: int  # client-steps of its race
    unseen: tuple[float, float] | None = None  # those kept out of training, once they have joined; and less the others

    @property
    def setting(self) -> str:
        """Its setting in words."""
        return said(self.values)


class Raced:
    """A finished race, read back."""

    def __init__(self, path: Path | str) -> None:
        self.folder = RaceFolder(path)
        if not self.folder.there(path):
            raise RunError(f"'{path}' is no race; `perfed race` makes one")
        self.plan = RacePlan.of(self.folder.noted["plan"])
        self.standings = self.folder.standings

    @property
    def asked(self) -> Experiment:
        """What all methods have in common."""
        return self.plan.racers[0].experiment

    @property
    def metric(self) -> Metric:
        """By what settings and the winner are chosen."""
        return known(self.asked.choose)

    @cached_property
    def records(self) -> dict[str, Record]:
        """The runs on fresh seeds, by name."""
        return {run.path.name: read(run.path) for run in self.folder.final.runs}

    @property
    def racers(self) -> dict[str, Racer]:
        """Every method that raced, by name."""
        return {racer.name: racer for racer in self.plan.racers}

    @cached_property
    def lines(self) -> dict[str, dict[int, Line]]:
        """The validated round of every run and seed."""
        options = {"report": self.asked.report, "by": self.asked.choose}
        found = {
            name: {seed: choose(own, "validation", **options) for seed, own in run.rounds.items()}
            for name, run in self.records.items()
        }
        return {name: {s: line for s, line in own.items() if line is not None} for name, own in found.items()}

    @cached_property
    def winner(self) -> str:
        """The name of the method that is best on validation data of the fresh seeds; no test sample is looked at."""
        scores = {n: validated(run.rounds, self.asked) for n, run in self.records.items() if not n.endswith(PLAIN)}
        found = first(scores, self.asked)
        if found is None:
            raise RunError(f"no method of '{self.folder.path}' has a score on the validation data of its fresh seeds")
        return found

    def values(self, name: str, part: str = "test", metric: str | None = None) -> Array:
        """Return the score of every client in every seed's validated round (seeds × clients)."""
        by = metric or self.asked.choose
        return np.stack([rates(line[part], by) for _, line in sorted(self.lines[name].items())])

    @cached_property
    def weights(self) -> Array:
        """What every client weighs: its test samples, or 1 where the mean over clients is reported."""
        line = next(iter(self.lines[self.winner].values()))
        counts = np.array([count or 0 for count in line["test"]["count"]], float)
        return counts if self.asked.report == "weighted" else (counts > 0).astype(float)

    @cached_property
    def table(self) -> list[Placed]:
        """Every method, the best on validation data first."""
        names = [name for name, own in self.lines.items() if len(own) == len(self.plan.seeds)]
        whole, drawn = draws(np.stack([self.values(name) for name in names]), self.weights, self.plan.seed)
        place = {name: number for number, name in enumerate(names)}
        found = [self._placed(name, place, whole, drawn) for name in names]
        sign = 1 if self.metric.higher else -1
        return sorted(found, key=lambda row: (row.name != self.winner, -sign * (row.validation or 0.0)))

    def _placed(self, name: str, place: Mapping[str, int], whole: Array, drawn: Array) -> Placed:
        at, top, base = place[name], place[self.winner], place.get("local")
        run, scored = self.records[name], validated(self.records[name].rounds, self.asked)
        racer = self.racers[name.removesuffix(PLAIN)]
        own = [one for rung in self.standings["rungs"] for one in rung["standings"] if one["racer"] == racer.name]
        steps = {one["number"]: one["steps"] for one in own}
        better, sure = self._against(name, "local") if base is not None and name != "local" else ((0, 0), (0, 0))
        return Placed(
            name,
            f"{racer.title} as it comes" if name.endswith(PLAIN) else racer.title,
            {} if name.endswith(PLAIN) else self.best[racer.name]["values"],
            None if scored is None else scored[0],
            interval(whole[at], drawn[:, at]),
            interval(whole[top] - whole[at], drawn[:, top] - drawn[:, at]),
            None if base is None or name == "local" else interval(whole[at] - whole[base], drawn[:, at] - drawn[:, base]),
            better,
            sure,
            float(np.mean(run.total("bytes_up")) + np.mean(run.total("bytes_down"))),
            float(np.mean(run.total("seconds"))),
            int(run.settings["rounds"]),
            0 if name.endswith(PLAIN) else sum(steps.values()),
            self._unseen(run),
        )

    def _unseen(self, run: Record) -> tuple[float, float] | None:
        """Return how clients that were kept out do once they have joined after the last round; and that less the others."""
        found = [joined(lines) for lines in run.rounds.values()]
        if not found or any(line is None for line in found):
            return None
        report, by = self.asked.report, self.asked.choose
        both = [[average(line[part], report, by) for line in found if line] for part in ("unseen", "test")]
        unseen, seen = (sum(values) / len(values) for values in both)
        return unseen, unseen - seen

    @cached_property
    def best(self) -> dict[str, dict[str, Any]]:
        """The candidate of every method that came through: of those in the last rung the one that fresh seeds tested."""
        there = [Candidate.of(one) for one in self.standings["rungs"][-1]["standings"]]
        found: dict[str, dict[str, Any]] = {}
        for one in ranked(there, self.asked):
            found.setdefault(one.racer, one.plain())
        return found

    def _against(self, name: str, other: str) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return for how many clients a run is better and worse than another, on average over seeds; and beyond chance."""
        sign = 1 if self.metric.higher else -1
        gap = sign * np.nanmean(self.values(name) - self.values(other), axis=0)
        ours, theirs = (np.nanmean(self.values(run, metric="accuracy"), axis=0) for run in (name, other))
        line = next(iter(self.lines[name].values()))
        counts = np.array([count or 0 for count in line["test"]["count"]], float)
        beyond = verdict(ours, theirs, counts) if self.asked.choose == "accuracy" else np.zeros(len(gap))
        seen = ~np.isnan(gap) & (counts > 0)
        tiny = 1e-12  # a mean over seeds of equal scores is not quite equal
        return (
            (int((gap[seen] > tiny).sum()), int((gap[seen] < -tiny).sum())),
            (int((beyond[seen] > 0).sum()), int((beyond[seen] < 0).sum())),
        )

    @property
    def clients(self) -> int:
        """How many clients have test samples."""
        return int((self.weights > 0).sum())

    def curve(self, racer: str, number: int) -> tuple[list[int], list[float]]:
        """Return the validation score of a candidate round by round."""
        lines = tested(self.folder.candidate(racer, number).seed(self.plan.seed).lines.read(), "validation")
        by, report = self.asked.choose, self.asked.report
        return [line["round"] for line in lines], [average(line["validation"], report, by) for line in lines]


def columns(raced: Raced) -> tuple[list[str], list[list[str]]]:
    """Return headings and rows of the answer, as text."""
    scale, digits, unit = raced.metric.scale, raced.metric.digits, raced.metric.unit
    tuned = raced.plan.plainly
    name = raced.metric.title + (f" {unit}" if unit else "")
    head = ["method", "setting", "validation", f"test {name}", "95 %", "behind the winner"]
    head += [] if tuned else ["over Local", "better / worse"]
    apart = all(row.unseen is not None for row in raced.table)
    head += ["unseen", "− seen"] if apart else []
    rows = []
    for row in raced.table:
        test, behind = row.test.scaled(scale), row.behind.scaled(scale)
        cells = [row.title, row.setting, "–" if row.validation is None else f"{row.validation * scale:.{digits}f}"]
        cells += [f"{test.value:.{digits}f}", f"{test.low:.{digits}f} to {test.high:.{digits}f}"]
        cells.append("–" if row.name == raced.winner else spanned(behind, digits))
        if not tuned:
            cells += ["–" if row.gain is None else spanned(row.gain.scaled(scale), digits)]
            cells += ["–" if row.gain is None else f"{row.clients[0]} / {row.clients[1]} of {raced.clients}"]
        if apart and row.unseen is not None:
            cells += [f"{row.unseen[0] * scale:.{digits}f}", signed(row.unseen[1] * scale, digits)]
        rows.append([*cells, _bytes(row.bytes), str(row.rounds), f"{row.seconds:.1f}"])
    return [*head, "sent", "rounds", "s"], rows


def _bytes(count: float) -> str:
    return weighed(count) if count else "nothing"


def spanned(gap: Interval, digits: int) -> str:
    """Return a difference and its interval, signed."""
    return f"{signed(gap.value, digits)} [{signed(gap.low, digits)}, {signed(gap.high, digits)}]"


def plain(raced: Raced) -> list[dict[str, Any]]:
    """Return one object per method with unrounded values, for JSON and data frames."""
    found = []
    for row in raced.table:
        entry: dict[str, Any] = {"method": row.title, "name": row.name, "setting": dict(row.values), "validation": row.validation}
        for key, span in (("test", row.test), ("behind", row.behind), ("gain", row.gain)):
            entry |= {key: None, f"{key}.low": None, f"{key}.high": None}
            if span is not None:
                entry |= {key: span.value, f"{key}.low": span.low, f"{key}.high": span.high}
        entry |= {"better": row.clients[0], "worse": row.clients[1], "surely_better": row.sure[0], "surely_worse": row.sure[1]}
        if row.unseen is not None:
            entry |= {"unseen": row.unseen[0], "unseen.gap": row.unseen[1]}
        found.append(entry | {"bytes": row.bytes, "seconds": row.seconds, "rounds": row.rounds, "steps": row.steps})
    return found


def equal(raced: Raced) -> tuple[dict[str, int], float]:
    """Return the client-steps of every method's race, and by how much the most unequal one departs from their share."""
    steps = {row.name: row.steps for row in raced.table if not row.name.endswith(PLAIN)}
    mean = sum(steps.values()) / len(steps)
    return steps, max(abs(own / mean - 1) for own in steps.values())


def rungs(raced: Raced) -> list[tuple[str, int, Sequence[dict[str, Any]]]]:
    """Return who stood how in each rung: method, rung, candidates."""
    return [
        (racer.name, rung["rung"], [one for one in rung["standings"] if one["racer"] == racer.name])
        for racer in raced.plan.racers
        for rung in raced.standings["rungs"]
    ]
