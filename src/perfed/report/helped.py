"""Who is helped and who is hurt: the worst clients, and those whose accuracy differs from a reference by more than chance.

A client's test samples are few, so its accuracy is uncertain. It counts as hurt against Local (or FedAvg) only where the
95 % interval of the difference of the two shares of right answers lies below 0, and as helped where it lies above. The
interval is Agresti and Caffo's: one right and one wrong answer are added to both shares, then the normal interval of a
difference of independent shares is taken. Both models answer the same samples, which makes the true difference rather
more certain than that: the count errs towards "no difference".
"""

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..evaluate.summary import Moment, average, choose, over, rates, tested
from .main_score import MainScore
from .names import title
from .read import Record

Array = NDArray[np.float64]

PROTOCOL = "pflbench"  # the setting that switches these columns on
REFERENCES = ("local", "fedavg")
SURE = 1.959963984540054  # normal deviations of a two-sided interval of 95 %
NEAR = 0.01  # a curve has converged where it is first within a point of its best
TITLES = {"worst": "worst client %", "decile": "worst tenth %", "std": "std over clients"}

SHORT = {  # headings of those columns that a terminal has room for
    "clients.worst": "worst",
    "clients.decile": "worst tenth",
    "clients.hurt_local": "hurt, Local",
    "clients.hurt_fedavg": "hurt, FedAvg",
    "pace.round": "converged",
    "pace.flops": "MFLOPs/step",
}


def wanted(runs: Sequence[Record]) -> bool:
    """Return whether the runs ask for these columns."""
    return any(run.settings.get("protocol") == PROTOCOL for run in runs)


def columns(runs: Sequence[Record]) -> list[dict[str, Any]]:
    """Return the columns as what ``tables.Column`` takes."""
    if not wanted(runs):
        return []
    above = "clients, validated round" if _moment(runs) == "validation" else "clients, last round"
    found = [{"key": f"clients.{key}", "above": above, "title": text, "ranked": key != "std"} for key, text in TITLES.items()]
    told = REFERENCES if MainScore.of(runs).counted else ()  # of other scores the number of samples says nothing
    for method in (name for name in told if any(run.method == name for run in runs)):
        for key, more in (("helped", True), ("hurt", False)):
            entry = {"key": f"clients.{key}_{method}", "above": above, "title": f"{key} against {title(method)} %"}
            found.append(entry | {"digits": 1, "ranked": True, "higher": more})
    pace = {"key": "pace.round", "above": "pace", "title": "converged in round", "scale": 1.0, "digits": 1}
    found.append(pace)
    if any(run.manifest.get("flops") for run in runs):
        found.append(pace | {"key": "pace.flops", "title": "MFLOPs a client-step", "scale": 1e-6, "digits": 2})
    return found


def values(run: Record, runs: Sequence[Record], options: Mapping[str, str]) -> dict[str, Any]:
    """Return a run's figures with mean and deviation over seeds."""
    if not wanted(runs):
        return {}
    moment = _moment(runs)
    shares = list(_shares(run, moment, options).values())
    seen = [own[~np.isnan(own)] for own, _ in shares]
    clients = {
        "worst": over([float(own.min()) for own in seen]),
        "decile": over([float(np.sort(own)[: ceil(len(own) / 10)].mean()) for own in seen]),
        "std": over([float(own.std()) for own in seen]),
    }
    for method in REFERENCES if MainScore.of(runs).counted else ():
        other = next((found for found in runs if found.method == method), None)
        verdicts = [] if other is None or other is run else against(run, other, moment, options)
        for key, sign in (("helped", 1), ("hurt", -1)):
            clients[f"{key}_{method}"] = over([float(np.mean(found == sign)) for found in verdicts])
    rounds = [converged(lines, options["report"], options["series"]) for lines in run.rounds.values()]
    flops = run.manifest.get("flops")
    return {"clients": clients, "pace": {"round": over(rounds), "flops": over([None if flops is None else float(flops)])}}


def against(run: Record, other: Record, moment: Moment, options: Mapping[str, str]) -> list[Array]:
    """Return for every shared seed who is helped (1), hurt (-1) or neither (0), of the clients that both tested alike."""
    ours, theirs = _shares(run, moment, options), _shares(other, moment, options)
    found = []
    for seed in (seed for seed in ours if seed in theirs):
        (own, counts), (their, others) = ours[seed], theirs[seed]
        if own.shape != their.shape or not np.array_equal(counts, others):
            continue  # other clients: nothing to compare
        both = ~np.isnan(own) & ~np.isnan(their)
        found.append(verdict(own[both], their[both], counts[both]))
    return found


def verdict(ours: Array, theirs: Array, count: Array) -> Array:
    """Return 1 where ours is above theirs beyond chance, -1 where it is below, else 0; shares of ``count`` samples each."""
    fair = [(share * count + 1) / (count + 2) for share in (ours, theirs)]
    margin = SURE * np.sqrt(sum(share * (1 - share) for share in fair) / (count + 2))
    gap = fair[0] - fair[1]
    return np.where(np.abs(gap) > margin, np.sign(gap), 0.0)


def converged(lines: Sequence[Mapping[str, Any]], report: str = "weighted", series: str = "test") -> int | None:
    """Return the first round whose main score is within a point of the run's best."""
    curve = [(int(line["round"]), average(line[series], report)) for line in tested(lines, series) if line["round"] > 0]
    best = max((value for _, value in curve), default=0.0)
    return next((number for number, value in curve if value >= best - NEAR), None)


def notes(runs: Sequence[Record]) -> list[str]:
    """Say what counts as hurt."""
    if not wanted(runs):
        return []
    score = MainScore.of(runs)
    helped = f"Helped and hurt: clients whose {score.name} differs by more than the 95 % interval that their test samples allow."
    if not score.counted:
        helped = f"Helped and hurt are not counted: {score.name} is no share of samples, so their number gives no interval."
    said = [helped, f"Converged: the first round within a point of the run's best {score.name}."]
    if score.counted and not any(run.method == "fedavg" for run in runs):
        said.append("FedAvg was not run; add it to the methods to see who is hurt against it.")
    if not any(run.settings.get("unseen") for run in runs):
        said.append("No client was kept out of training; unseen=0.2 shows how newcomers do.")
    return said


def _moment(runs: Sequence[Record]) -> Moment:
    """The validated round where every run has one, else the last: never one that was chosen on test data."""
    known = all(choose(lines, "validation") is not None for run in runs for lines in run.rounds.values())
    return "validation" if known else "last"


def _shares(run: Record, moment: Moment, options: Mapping[str, str]) -> dict[int, tuple[Array, Array]]:
    """Every client's accuracy and number of test samples, by seed."""
    series = options["series"]
    rest = {"report": options["report"], "series": series, "by": options["choose"]}
    lines = {seed: choose(found, moment, **rest) for seed, found in run.rounds.items()}
    return {
        seed: (rates(line[series]), np.array([count or 0 for count in line[series]["count"]], float))
        for seed, line in lines.items()
        if line is not None
    }
