"""Figures of a run from the lines of its ``rounds.jsonl``: best, last and validated round, over clients and over seeds.

Figures of one round, over the clients that have samples and were scored:

- ``weighted``: correct answers of all clients / samples of all clients
- ``mean``: plain mean of the clients' accuracies
- ``std``: population deviation (ddof=0) of the clients' accuracies
- ``cv``: ``std / weighted``, ``None`` where nothing at all was answered correctly

Three rounds are reported: ``best`` has the highest test figure (what papers print; it looks at the test data), ``last``
is the last one, ``validation`` has the highest figure on validation data and is then scored on test data. The earliest
of equal rounds is taken. Round 0 is the model before any training: it is part of the curves and is reported only where
there is no other. All accuracies are fractions.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from perfed.errors import InputError, suggest

Line = Mapping[str, Any]  # one line of rounds.jsonl
Scores = Mapping[str, Sequence[float | None]]  # {"correct": […], "count": […], "loss": […]}, one entry per client
Moment = Literal["best", "last", "validation"]

Array = NDArray[np.float64]

FIGURES = ("weighted", "mean", "std", "cv")
MOMENTS: tuple[Moment, ...] = ("best", "last", "validation")
RUNAWAY = 10.0  # times the loss of the untrained model


def summarise(
    seeds: Mapping[int, Sequence[Line]], *, report: str = "weighted", best: str = "round", series: str = "test"
) -> dict[str, Any]:
    """Return the ``accuracy`` object of a run.

    ``report`` is the average that chooses the best and the validated round (``weighted`` or ``mean``).
    ``best="per_client"`` lets every client keep its own highest accuracy before averaging; that is optimistic, since no
    single round reaches it. ``series`` is ``test`` (the model a client would serve) or ``after`` (right after local
    training, participants only).

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
            {seed: _own_best(lines, series) if own else _at(lines, moment, report, series) for seed, lines in seeds.items()}
        )
    return summary


def majority(seeds: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the figures of guessing every client's most frequent training label, from each seed's ``clients.json``."""
    scored = {seed: figures(clients["majority"]) for seed, clients in seeds.items()}
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
    found = {seed: {line["round"]: _with_loss(line[series]) for line in _scored(lines, series)} for seed, lines in seeds.items()}
    shared = sorted(set.intersection(*(set(rounds) for rounds in found.values()))) if found else []
    result: dict[str, Any] = {"round": shared}
    for name in (*FIGURES, "loss"):
        points = [over([rounds[number][name] for rounds in found.values()]) for number in shared]
        result[name] = {key: [point[key] for point in points] for key in ("mean", "std")}
    return result


def runaway(lines: Sequence[Line], *, series: str = "test") -> int | None:
    """Return the round since which a run has left every useful region, or ``None`` if it ends in one.

    There a client's loss is no finite number, or the mean is over ten times what it was before any training.
    """
    scored = _scored(lines, series)
    before = _whole_loss(scored[0][series]) if scored and scored[0]["round"] == 0 else math.inf
    since = None
    for line in reversed(scored):
        loss = _whole_loss(line[series])
        if math.isfinite(loss) and loss <= RUNAWAY * before:
            break
        since = line["round"]
    return since


def _whole_loss(scores: Scores) -> float:
    """The mean loss of all samples, ``nan`` if a client's is no finite number."""
    known = [
        (math.nan if loss is None else loss, count)
        for correct, count, loss in zip(scores["correct"], scores["count"], scores["loss"], strict=True)
        if correct is not None and count
    ]
    return float(sum(loss * count for loss, count in known) / sum(count for _, count in known))


def choose(lines: Sequence[Line], moment: Moment, *, report: str = "weighted", series: str = "test") -> Line | None:
    """Return the line of the round that ``moment`` names, or ``None`` where it does not exist (no validation data)."""
    scored = _scored(lines, series)
    trained = [line for line in scored if line["round"] > 0] or scored
    if moment == "last":
        return trained[-1] if trained else None
    chooser = series if moment == "best" else "validation"
    known = [line for line in trained if _seen(line.get(chooser))]
    # max keeps the first of equals, and lines are in the order of rounds
    return max(known, key=lambda line: _average(line[chooser], report)) if known else None


def rates(scores: Scores | None) -> Array:
    """Return every client's accuracy, ``nan`` for a client without samples or without a score."""
    if not scores:
        return np.empty(0)
    pairs = zip(scores["correct"], scores["count"], strict=True)
    return np.array([correct / count if correct is not None and count else np.nan for correct, count in pairs], float)


def figures(scores: Scores | None) -> dict[str, float | None] | None:
    """Return weighted, mean, std and cv of one round, or ``None`` if no client was scored."""
    accuracy = rates(scores)
    if scores is None or np.isnan(accuracy).all():
        return None
    return _figures(accuracy, np.array([count or 0 for count in scores["count"]], float))


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


def _at(lines: Sequence[Line], moment: Moment, report: str, series: str) -> dict[str, float | None] | None:
    line = choose(lines, moment, report=report, series=series)
    if line is None and moment != "validation":
        raise InputError(f"there is no round with scores under '{series}'; a run of at least one round has them")
    found = figures(line[series]) if line is not None else None
    return {"round": line["round"], **found} if line is not None and found is not None else None


def _own_best(lines: Sequence[Line], series: str) -> dict[str, float | None]:
    """Every client's own highest accuracy, weighted by the samples it was measured on."""
    scored = _scored(lines, series)
    trained = [line for line in scored if line["round"] > 0] or scored
    if not trained:
        raise InputError(f"there is no round with scores under '{series}'; a run of at least one round has them")
    table = np.stack([rates(line[series]) for line in trained])
    counts = np.array([[count or 0 for count in line[series]["count"]] for line in trained], float)
    own = np.where(np.isnan(table), -1.0, table).argmax(0)
    columns = np.arange(table.shape[1])
    return {"round": None, **_figures(table[own, columns], counts[own, columns])}


def _figures(accuracy: Array, counts: Array) -> dict[str, float | None]:
    seen = ~np.isnan(accuracy)
    accuracy, counts = accuracy[seen], counts[seen]
    # correct answers are whole numbers; rounding the product undoes the division, so that 12/13 of 13 is 12 again
    weighted = float(np.round(accuracy * counts, 6).sum() / counts.sum())
    std = float(accuracy.std())
    return {
        "weighted": weighted,
        "mean": float(accuracy.mean()),
        "std": std,
        "cv": std / weighted if weighted else None,
    }


def _with_loss(scores: Scores) -> dict[str, float | None]:
    loss = _whole_loss(scores)
    return {**(figures(scores) or {}), "loss": loss if math.isfinite(loss) else None}


def _scored(lines: Sequence[Line], series: str) -> list[Line]:
    return [line for line in lines if _seen(line.get(series))]


def _seen(scores: Scores | None) -> bool:
    """Whether a client with samples was scored."""
    if not scores:
        return False
    pairs = zip(scores["correct"], scores["count"], strict=True)
    return any(correct is not None and count for correct, count in pairs)


def _average(scores: Scores, report: str) -> float:
    """The figure that chooses a round, without the others: long runs ask for it thousands of times."""
    pairs = zip(scores["correct"], scores["count"], strict=True)
    known = [(correct, count) for correct, count in pairs if correct is not None and count]
    if report == "mean":
        return math.fsum(correct / count for correct, count in known) / len(known)
    return sum(correct for correct, _ in known) / sum(count for _, count in known)


def _check(option: str, value: str, valid: Sequence[str]) -> None:
    if value not in valid:
        raise suggest(option, value, valid)
