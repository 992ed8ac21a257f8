"""Whether one method beats another over the same seeds, where there are enough of them to say so."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .read import Record, labels

ENOUGH = 5  # fewer pairs cannot tell luck from skill


@dataclass(frozen=True)
class Paired:
    """The leader against one other run: mean difference over shared seeds and how likely chance alone is as large."""

    leader: str
    other: str
    seeds: int
    difference: float
    student: float  # two-sided p of the paired t test
    wilcoxon: float  # two-sided p of the signed-rank test; with 5 seeds it cannot fall below 0.0625
    holm: float  # p of the t test after Holm's correction for the number of comparisons


def paired(runs: Sequence[Record], *, figure: str = "best.weighted", **options: str) -> list[Paired]:
    """Compare the run with the highest mean with every other, seed by seed, where they share at least 5 seeds."""
    moment, name = figure.split(".")
    blocks = [run.summary(**options)[moment] for run in runs]
    names = labels(runs)
    known = [number for number, block in enumerate(blocks) if block is not None]
    if len(known) < 2:
        return []
    leader = max(known, key=lambda number: float(blocks[number][name]["mean"]))
    found = []
    for number in known:
        shared = [seed for seed in blocks[leader]["seeds"] if seed in blocks[number]["seeds"]]
        if number == leader or len(shared) < ENOUGH:
            continue
        differences = [blocks[leader]["seeds"][seed][name] - blocks[number]["seeds"][seed][name] for seed in shared]
        found.append((names[number], len(shared), float(np.mean(differences)), *probabilities(differences)))
    corrected = holm([student for *_, student, _ in found])
    return [
        Paired(names[leader], other, seeds, mean, student, rank, adjusted)
        for (other, seeds, mean, student, rank), adjusted in zip(found, corrected, strict=True)
    ]


def probabilities(differences: Sequence[float]) -> tuple[float, float]:
    """Return the two-sided p of the paired t test and of Wilcoxon's signed-rank test for paired differences."""
    values = np.asarray(differences, float)
    if not values.any():
        return 1.0, 1.0
    from scipy import stats  # comes with scikit-learn; only this needs it

    rank = float(stats.wilcoxon(values).pvalue)
    if np.ptp(values) == 0:  # the same gain everywhere: its deviation is 0 and t is infinite
        return 0.0, rank
    return float(stats.ttest_1samp(values, 0.0).pvalue), rank


def holm(probabilities: Sequence[float]) -> list[float]:
    """Return probabilities corrected for their number (Holm 1979): the k-th smallest of m times m - k + 1."""
    order = np.argsort(probabilities)
    corrected, floor = [0.0] * len(probabilities), 0.0
    for place, number in enumerate(order):
        floor = max(floor, min(1.0, probabilities[number] * (len(probabilities) - place)))
        corrected[number] = floor
    return corrected
