"""Figures of a run from the lines of its ``rounds.jsonl``: best, last and validated round, over clients and over seeds.

Figures of a metric in one round, over the clients that have samples and for which it is defined:

- ``weighted``: mean over clients, each weighted by its samples; for accuracy all right answers / all samples
- ``mean``: plain mean over clients
- ``std``: population deviation (ddof=0) over clients
- ``cv``: ``std / weighted``, ``None`` where ``weighted`` is not above 0

Three rounds are reported: ``best`` has the best test figure of the metric that chooses (what papers print; it looks at
the test data), ``last`` is the last one, ``validation`` has the best figure on validation data and is then scored on
test data. The earliest of equal rounds is taken. Round 0 is the model before any training: it is part of the curves and
is reported only where there is no other. All accuracies are fractions. ``accuracy`` stands for the main score where no
classes are learned: right labels, R², concordance.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, suggest
from .metrics import MAIN, known
from .refusals import lost
from .scores import Line, Scores, today

Moment = Literal["best", "last", "validation"]

Array = NDArray[np.float64]

FIGURES = ("weighted", "mean", "std", "cv")
MOMENTS: tuple[Moment, ...] = ("best", "last", "validation")
RUNAWAY = 10.0  # times the loss of the untrained model


def summarise(
    seeds: Mapping[int, Sequence[Line]],
    *,
    report: str = "weighted",
    best: str = "round",
    series: str = "test",
    choose: str = "accuracy",
    metric: str = "accuracy",
) -> dict[str, Any]:
    """Return the ``accuracy`` object of a run, or that of another ``metric``.

    ``choose`` is the metric by which the best and the validated round are chosen, ``report`` the average of it that
    counts (``weighted`` or ``mean``). ``best="per_client"`` lets every client keep its own best round before averaging;
    that is optimistic, since no single round reaches it. ``series`` is ``test`` (the model a client would serve) or
    ``after`` (right after local training, participants only).

    Each moment holds ``seeds`` (figures per seed, with the ``round``) and per figure ``{"mean", "std"}`` over seeds
    (ddof=0). ``validation`` is ``None`` if a seed has no validation data.
    """
    _check("report", report, ("weighted", "mean"))
    _check("best", best, ("round", "per_client"))
    _check("series", series, ("test", "after"))
    if not seeds:
        raise InputError("a summary needs at least one seed, got none")
    summary: dict[str, Any] = {"report": report, "series": series, "rule": best}
    for moment in MOMENTS:
        own = moment == "best" and best == "per_client"
        summary[moment] = over_seeds(
            {
                seed: _own_best(lines, series, choose, metric) if own else _at(lines, moment, report, series, choose, metric)
                for seed, lines in seeds.items()
            }
        )
    return summary


def majority(seeds: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the figures of guessing every client's most frequent training label, from each seed's ``clients.json``."""
    scored = {seed: figures(today(clients["majority"])) for seed, clients in seeds.items()}
    block = over_seeds({seed: {"round": None, **found} if found else None for seed, found in scored.items()})
    if block is None:
        raise InputError("a seed has no majority-class scores: none of its clients has test samples")
    return block


def curves(seeds: Mapping[int, Sequence[Line]], *, series: str = "test") -> dict[str, Any]:
    """Return the figures round by round with their mean and deviation over seeds, for the rounds that every seed has.

    ``{"round": […], "weighted": {"mean": […], "std": […]}, "mean": …, "std": …, "cv": …, "loss": …}``; ``loss`` is the
    mean of the clients' losses weighted by samples. A value that does not exist (or overflowed) is ``None``.
    """
    _check("series", series, ("test", "after", "validation"))
    found = {seed: {line["round"]: _with_loss(line[series]) for line in tested(lines, series)} for seed, lines in seeds.items()}
    shared = sorted(set.intersection(*(set(rounds) for rounds in found.values()))) if found else []
    result: dict[str, Any] = {"round": shared}
    for name in (*FIGURES, "loss"):
        points = [over([rounds[number][name] for rounds in found.values()]) for number in shared]
        result[name] = {key: [point[key] for point in points] for key in ("mean", "std")}
    return result


def runaway(lines: Sequence[Line], *, series: str = "test") -> int | None:
    """Return the round since which a run has left every useful region, or ``None`` if it ends in one.

    There a client's loss is no finite number, or the mean is over ten times what it was before any training, or uploads were
    refused because their numbers were none.
    """
    scored = [line for line in tested(lines, series) if "loss" in line[series]]
    before = _whole_loss(scored[0][series]) if scored and scored[0]["round"] == 0 else math.inf
    since = None
    for line in reversed(scored):
        loss = _whole_loss(line[series])
        if math.isfinite(loss) and loss <= RUNAWAY * before and not lost(line):
            break
        since = line["round"]
    return since


def _whole_loss(scores: Scores) -> float:
    """The mean loss of all samples, ``nan`` if a client's is no finite number."""
    found = [(loss, count) for loss, count in zip(scores.get("loss", ()), scores["count"], strict=False) if count]
    total = sum((math.nan if loss is None else loss) * count for loss, count in found)
    return float(total / sum(count for _, count in found)) if found else math.nan


def choose(
    lines: Sequence[Line], moment: Moment, *, report: str = "weighted", series: str = "test", by: str = "accuracy"
) -> Line | None:
    """Return the line of the round that ``moment`` names, or ``None`` where it does not exist (no validation data)."""
    trained = _trained(lines, series)
    if moment == "last":
        return trained[-1] if trained else None
    chooser, sign = series if moment == "best" else "validation", 1 if known(by).higher else -1
    seen = [line for line in trained if _seen(line.get(chooser), by)]
    # max keeps the first of equals, and lines are in the order of rounds
    return max(seen, key=lambda line: sign * average(line[chooser], report, by)) if seen else None


def main(scores: Scores | None, metric: str = "accuracy") -> str:
    """Return the name of a metric in a line: accuracy stands for the main score where no classes are learned."""
    if metric != "accuracy" or not scores or metric in scores:
        return metric
    return next((name for name in scores if name in MAIN.values()), metric)


def rates(scores: Scores | None, metric: str = "accuracy") -> Array:
    """Return every client's value, ``nan`` for a client without samples, without a score, or where it is undefined."""
    metric = main(scores, metric)
    if not scores or metric not in scores:
        return np.full(len(scores["count"]) if scores else 0, np.nan)
    pairs = zip(scores[metric], scores["count"], strict=True)
    return np.array([value if value is not None and count else np.nan for value, count in pairs], float)


def figures(scores: Scores | None, metric: str = "accuracy") -> dict[str, float | None] | None:
    """Return weighted, mean, std and cv of one round, or ``None`` if no client was scored."""
    values = rates(scores, metric)
    if scores is None or np.isnan(values).all():
        return None
    return _figures(values, np.array([count or 0 for count in scores["count"]], float), main(scores, metric))


def average(scores: Scores, report: str = "weighted", metric: str = "accuracy") -> float:
    """Return one figure of a round without the others: long runs ask for it thousands of times."""
    metric = main(scores, metric)
    pairs = zip(scores.get(metric, ()), scores["count"], strict=False)
    found = [(value, count) for value, count in pairs if value is not None and count]
    if not found:
        return math.nan
    if report == "mean":
        return math.fsum(value for value, _ in found) / len(found)
    return _over_samples(found, metric)


def over(values: Sequence[float | None]) -> dict[str, float | None]:
    """Return mean and population deviation of a figure over seeds, ``None`` where a seed lacks it."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return {"mean": None, "std": None}
    return {"mean": float(np.mean(known)), "std": float(np.std(known))}


def over_seeds(found: Mapping[int, Mapping[str, float | None] | None]) -> dict[str, Any] | None:
    """Return ``{"seeds": …, figure: {"mean", "std"}}``, or ``None`` if a seed has no figures."""
    if any(entry is None for entry in found.values()):
        return None
    seeds = {str(seed): dict(entry) for seed, entry in sorted(found.items()) if entry is not None}
    return {
        **{name: over([entry[name] for entry in seeds.values()]) for name in ("round", *FIGURES)},
        "seeds": seeds,
    }


def _at(lines: Sequence[Line], moment: Moment, report: str, series: str, by: str, metric: str) -> dict[str, float | None] | None:
    line = choose(lines, moment, report=report, series=series, by=by)
    if line is None and moment != "validation":
        raise _nothing(lines, series, by)
    found = figures(line[series], metric) if line is not None else None
    return {"round": line["round"], **found} if line is not None and found is not None else None


def _nothing(lines: Sequence[Line], series: str, by: str) -> InputError:
    if (since := runaway(lines, series=series)) is not None:
        advice = "a smaller budget.lr may help, and for regression labels in a larger unit, such as thousands"
        return InputError(f"the loss is no number since round {since}, so there is no score to choose a round by; {advice}")
    if tested(lines, series):
        return InputError(f"'{by}' is undefined for every client in every round, so it cannot choose one; choose=loss can")
    return InputError(f"there is no round with scores under '{series}'; a run of at least one round has them")


def _own_best(lines: Sequence[Line], series: str, by: str, metric: str) -> dict[str, float | None] | None:
    """Every client in its own best round, weighted by the samples it was measured on."""
    trained = _trained(lines, series)
    choosers = np.stack([rates(line[series], by) for line in trained]) if trained else np.empty(0)
    if np.isnan(choosers).all():
        raise _nothing(lines, series, by)
    table = np.stack([rates(line[series], metric) for line in trained])
    counts = np.array([[count or 0 for count in line[series]["count"]] for line in trained], float)
    signed = choosers if known(by).higher else -choosers
    own = np.where(np.isnan(signed), -np.inf, signed).argmax(0)
    columns = np.arange(table.shape[1])
    values = table[own, columns]
    return None if np.isnan(values).all() else {"round": None, **_figures(values, counts[own, columns], metric)}


def _figures(values: Array, counts: Array, metric: str) -> dict[str, float | None]:
    seen = ~np.isnan(values)
    values, counts = values[seen], counts[seen]
    weighted = _over_samples(list(zip(values.tolist(), counts.tolist(), strict=True)), metric)
    std = float(values.std())
    return {
        "weighted": weighted,
        "mean": float(values.mean()),
        "std": std,
        "cv": std / weighted if weighted > 0 else None,
    }


def _over_samples(found: Sequence[tuple[float, float]], metric: str) -> float:
    """The mean weighted by samples; right answers are whole numbers, and rounding undoes their division: 12/13 of 13 is 12."""
    if known(metric).whole:
        return float(sum(round(value * count) for value, count in found) / sum(count for _, count in found))
    return math.fsum(value * count for value, count in found) / math.fsum(count for _, count in found)


def _with_loss(scores: Scores) -> dict[str, float | None]:
    loss = _whole_loss(scores)
    return {**(figures(scores) or {}), "loss": loss if math.isfinite(loss) else None}


def _trained(lines: Sequence[Line], series: str) -> list[Line]:
    found = tested(lines, series)
    return [line for line in found if line["round"] > 0] or found


def tested(lines: Sequence[Line], series: str) -> list[Line]:
    """Return the lines in which a client with samples was scored."""
    return [line for line in lines if _seen(line.get(series))]


def _seen(scores: Scores | None, metric: str | None = None) -> bool:
    """Whether a client with samples was scored, and where a metric is named, whether it is defined for one."""
    metric = None if metric is None else main(scores, metric)
    if not scores or (metric is not None and metric not in scores):
        return False
    values = scores["count"] if metric is None else scores[metric]
    return any(value is not None and count for value, count in zip(values, scores["count"], strict=True))


def _check(option: str, value: str, valid: Sequence[str]) -> None:
    if value not in valid:
        raise suggest(option, value, valid)
