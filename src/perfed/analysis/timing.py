"""Seconds per round."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from ..errors import RunError
from ..evaluate.scores import Line


@dataclass(frozen=True)
class Timing:
    """Seconds of the rounds that trained; ``rest`` is what is neither training nor testing."""

    rounds: int
    total: float
    mean: float
    median: float
    slowest: float
    train: float
    test: float
    rest: float


def timing(lines: Sequence[Line]) -> Timing:
    """Summarise the seconds of a run; the initial model (round 0) is only tested and does not count."""
    trained = [line for line in lines if int(line["round"]) > 0]
    if not trained:
        raise RunError("this run has no rounds yet, so there is nothing to time")
    seconds = [float(line["seconds"]) for line in trained]
    train = fmean(float(line["seconds_train"]) for line in trained)
    test = fmean(float(line["seconds_test"]) for line in trained)
    mean = fmean(seconds)
    return Timing(
        rounds=len(trained),
        total=sum(seconds),
        mean=mean,
        median=median(seconds),
        slowest=max(seconds),
        train=train,
        test=test,
        rest=max(mean - train - test, 0.0),
    )
