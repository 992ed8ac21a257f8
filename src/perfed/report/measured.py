"""Columns of a table for what was measured beside accuracy and loss."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..evaluate.metrics import ALWAYS, MAIN, known
from ..evaluate.others import listed, undefined
from ..evaluate.summary import MOMENTS, choose, summarise, tested
from .read import Record

UNDEFINED = "undefined"
ROUNDS = {"best": "best round", "last": "last round", "validation": "validated round"}


def names(runs: Sequence[Record], series: str = "test") -> list[str]:
    """Return the metrics that every run has a number of, beside accuracy and loss."""
    last = [found[-1][series] for run in runs for lines in run.rounds.values() if (found := tested(lines, series))]
    shared = [name for name in (last[0] if last else ()) if all(name in part for part in last)]
    return [name for name in shared if name not in ("count", *ALWAYS, *MAIN.values()) and not listed(last, name)]


def columns(runs: Sequence[Record], options: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the columns as what ``tables.Column`` takes: a group for each metric, a column for each moment."""
    found = []
    for name in names(runs, options["series"]):
        metric = known(name)
        for moment in MOMENTS:
            unit = f" {metric.unit}" if metric.unit else ""
            entry: dict[str, Any] = {"key": f"{name}.{moment}", "above": metric.title or name, "title": f"{ROUNDS[moment]}{unit}"}
            entry |= {"scale": metric.scale, "digits": metric.digits, "ranked": True, "higher": metric.higher}
            found.append(entry)
    return found


def values(run: Record, chosen: Sequence[str], options: Mapping[str, str]) -> dict[str, Any]:
    """Return a run's figure of each metric at each moment, the average being the one that is reported."""
    found: dict[str, Any] = {}
    for name in chosen:
        block, accuracy = summarise(run.rounds, metric=name, **options), run.summary(**options)
        found[name] = {
            moment: {"mean": None, "std": None, "said": UNDEFINED if accuracy[moment] else None}
            if block[moment] is None
            else block[moment][options["report"]]
            for moment in MOMENTS
        }
    return found


def notes(runs: Sequence[Record], options: Mapping[str, str]) -> list[str]:
    """Say by what rounds are chosen, which figures are means over clients, and for how many clients one is undefined."""
    by, chosen = options["choose"], names(runs, options["series"])
    said = [] if by == "accuracy" else [f"Best and validated rounds are chosen by {known(by).title or by}."]
    for name in chosen:
        lacking = max(_lacking(run, name, options) for run in runs)
        if lacking:
            clients = "client" if lacking == 1 else "clients"
            said.append(f"{known(name).title or name} is undefined for up to {lacking} {clients}, who leave its means.")
    return said


def _lacking(run: Record, name: str, options: Mapping[str, str]) -> int:
    last = [choose(lines, "last", series=options["series"]) for lines in run.rounds.values()]
    return max((undefined(line[options["series"]], name) for line in last if line is not None), default=0)
