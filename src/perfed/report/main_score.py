"""What a table shows first, in words: accuracy for classes, another score for other tasks, and what a guess would have."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..evaluate.metrics import Metric, known
from ..evaluate.summary import main, tested
from .names import MAJORITY, title
from .read import Record

COUNTED = ("accuracy", "label_accuracy")  # shares of samples, of which a client's samples give an interval
_GUESS = {  # the row of a guess, and what it reaches in a sentence
    "label_accuracy": ("Majority labels", "guessing each client’s commoner answer to every label reaches"),
    "r2": ("Mean", "guessing the mean reaches"),
    "concordance": ("Coin", "tossing a coin reaches"),
}


@dataclass(frozen=True)
class MainScore:
    """The metric in the place of accuracy, and its words."""

    metric: Metric

    @staticmethod
    def of(runs: Sequence[Record], series: str = "test") -> "MainScore":
        """Return the main score of runs, as their records hold it."""
        return MainScore(main_metric(runs[0], series))

    @property
    def name(self) -> str:
        """As a sentence names it: accuracy, right labels, R², concordance."""
        return self.metric.title or self.metric.name

    @property
    def begins(self) -> str:
        """As a sentence begins with it."""
        return self.name[:1].upper() + self.name[1:]

    @property
    def before(self) -> str:
        """What stands before a column's heading: nothing for accuracy, which tables of classes show unless they say otherwise."""
        return "" if self.metric.name == "accuracy" else f"{self.name}, "

    @property
    def guess(self) -> str:
        """The row of what learned nothing."""
        return _GUESS[self.metric.name][0] if self.metric.name in _GUESS else title(MAJORITY)

    @property
    def guessing(self) -> str:
        """What learned nothing, in a sentence that goes on with its score."""
        return _GUESS.get(self.metric.name, ("", "guessing each client’s most frequent label reaches"))[1]

    @property
    def counted(self) -> bool:
        """Whether it is a share of samples, so that the number of samples says how certain it is."""
        return self.metric.name in COUNTED


def used(run: Record, name: str, value: Any) -> Any:
    """Return a setting as it was used: accuracy stands for the main score where no classes are learned."""
    own = main_metric(run, run.settings.get("series", "test")).name
    if own == "accuracy" or name not in ("choose", "metrics"):
        return value
    if name == "choose":
        return own if value == "accuracy" else value
    return [own, *(metric for metric in value if metric not in ("accuracy", own))]


def main_metric(run: Record, series: str = "test") -> Metric:
    """Return the metric that stands in the place of accuracy in a run's record."""
    line = next((found[-1] for lines in run.rounds.values() if (found := tested(lines, series))), None)
    return known(main(line[series]) if line is not None else "accuracy")
