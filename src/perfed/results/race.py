"""What a race came to, as a value to look at: the winner, the table with intervals, the recommendation, a page."""

from functools import cached_property
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from ..report import page, race_page, raced, recommend
from ..runs.race.folder import RaceFolder
from ..runs.run import known
from .comparison import Comparison, conclude
from .run import Run

if TYPE_CHECKING:
    from pandas import DataFrame


class Race:
    """Methods that were raced on equal budgets, and the best setting of each on fresh seeds.

    Args:
        folder: where the race is recorded.
        temporary: the folder's owner, where it goes away with this value.

    Example:
        >>> import perfed
        >>> found = perfed.race("fedper", clients=3, rounds=2, candidates=2, seeds=(1,), progress=False)
        >>> sorted(found.table()["name"])
        ['fedavgft', 'fedper', 'local']
        >>> found.winner in {"fedavgft", "fedper", "local"}
        True
    """

    def __init__(self, folder: RaceFolder, temporary: TemporaryDirectory[str] | None = None) -> None:
        self.folder, self._temporary = folder, temporary

    @cached_property
    def _raced(self) -> raced.Raced:
        return raced.Raced(self.folder.path)

    @property
    def path(self) -> Path:
        """The race's folder; without ``out`` it is gone when this value is."""
        return self.folder.path

    @property
    def winner(self) -> str:
        """The name of the method that is best on validation data."""
        return self._raced.winner

    @property
    def setting(self) -> dict[str, Any]:
        """What the race set of the winner; what is not named is as the method comes."""
        return dict(self._raced.table[0].values)

    @property
    def recommendation(self) -> str:
        """The answer in words."""
        return recommend.recommendation(self._raced)

    @property
    def summary(self) -> dict[str, Any]:
        """What ``perfed race --json`` prints."""
        return self.folder.summary

    @property
    def run(self) -> Run:
        """The winner's run on fresh seeds, with every client's model."""
        found = next(run for run in self.folder.final.runs if run.path.name == self.winner)
        return Run(known(found), found)

    @property
    def final(self) -> Comparison:
        """The comparison on fresh seeds."""
        return Comparison(self.folder.final)

    def table(self) -> "DataFrame":
        """Return the answer: every method's best setting on fresh seeds, with intervals, the winner first.

        Returns:
            A data frame with a row per method; scores are fractions, ``test.low`` and ``test.high`` the interval.

        Example:
            >>> import perfed
            >>> found = perfed.race("fedper", clients=3, rounds=2, candidates=2, seeds=(1,), progress=False)
            >>> found.table()["name"].tolist()[0] == found.winner
            True
        """
        import pandas

        return pandas.DataFrame(raced.plain(self._raced))

    def report(self, out: Path | str | None = None) -> Path:
        """Write the page of the race.

        Args:
            out: a file or a folder; by default the race's own folder.

        Returns:
            The page's path.

        Raises:
            InputError: the race has no folder and none is given.

        Example:
            >>> import perfed, tempfile
            >>> found = perfed.race("fedper", clients=3, rounds=2, candidates=2, seeds=(1,), progress=False)
            >>> found.report(tempfile.mkdtemp()).name
            'report.html'
        """
        if out is None and self._temporary is not None:
            raise InputError("this race has no folder; say where the page goes, such as report('page.html')")
        return page.put(race_page.render(self._raced), out or self.folder.page)

    def __repr__(self) -> str:
        where = "not recorded" if self._temporary is not None else f"in {self.folder.path}"
        return f"Race({self._raced.table[0].title} ahead of {len(self._raced.table) - 1}; {where})"

    def _repr_html_(self) -> str:
        return f"<p>{escape(self.recommendation)}</p>{self.table().to_html(index=False)}"


def conclude_race(folder: RaceFolder, seconds: float) -> dict[str, Any]:
    """Write a race's summary and pages; return what ``perfed race`` shows."""
    found = raced.Raced(folder.path)
    conclude(folder.final, seconds)
    steps, apart = raced.equal(found)
    runs = {run.path.name: run.summary for run in folder.final.runs}
    digests = {run.path.name: _digest(run, found.plan.seed) for run in folder.runs if run.path.parent.name == "candidates"}
    chosen = recommend.own_choice(found)
    summary = {
        "race": str(folder.path),
        "winner": found.winner,
        "setting": dict(found.table[0].values),
        "recommendation": recommend.recommendation(found),
        "table": raced.plain(found),
        "own_choice": recommend.choice_plain(chosen),
        "rounds": found.plan.rounds,
        "candidates": found.plan.candidates,
        "seed": found.plan.seed,
        "seeds": list(found.plan.seeds),
        "steps": steps,
        "unequal": apart,
        "left_out": dict(found.plan.left_out),
        "seconds": round(seconds, 3),
        "repeat": race_page.repeat(found),
        "train": race_page.train(found),
        "digests": digests | {name: own["digest"] for name, own in runs.items()},
    }
    summary = folder.put_summary(summary)
    written = page.put(race_page.render(found), folder.page)
    head, rows = raced.columns(found)
    words = recommend.choice_said(found, chosen) if chosen is not None else ""
    return summary | {"report": str(written), "columns": head, "rows": rows, "choice": words}


def _digest(run: Any, seed: int) -> str:
    final = run.seed(seed).final
    return "" if final is None else str(final["digest"])
