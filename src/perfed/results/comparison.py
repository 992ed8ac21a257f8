"""What a comparison came to, as a value to look at: table, curves, every client's accuracy, runs by name, a page."""

from collections.abc import Sequence
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from ..errors import InputError, RunError, suggest
from ..report import page, read, tables
from ..report.frame import frame
from ..runs.experiment import Experiment
from ..runs.folder import CompareFolder
from ..runs.run import known
from ..serving.personal import PersonalModel
from .run import Run
from .table import frame_of

if TYPE_CHECKING:
    from pandas import DataFrame


class Comparison:
    """Several methods that were run on the same data, splits and seeds.

    Args:
        folder: where the comparison is recorded.
        experiments: what was asked for, by the name of its run; objects among them are kept for ``model``.
        temporary: the folder's owner, where it goes away with this value.

    Example:
        >>> import perfed
        >>> found = perfed.compare("fedavg", clients=3, rounds=1, progress=False)
        >>> found
        Comparison(fedavg, local; not recorded)
        >>> found["local"].experiment.rounds
        1
    """

    def __init__(
        self, folder: CompareFolder, experiments: Sequence[Experiment] = (), temporary: TemporaryDirectory[str] | None = None
    ) -> None:
        self.folder, self._temporary = folder, temporary
        asked = dict(zip([found.path.name for found in folder.runs], experiments, strict=False))
        self.runs = {found.path.name: Run(asked.get(found.path.name) or known(found), found) for found in folder.runs}

    def __getitem__(self, name: str) -> Run:
        if name not in self.runs:
            raise suggest("run in this comparison", name, self.runs)
        return self.runs[name]

    @property
    def path(self) -> Path:
        """The comparison's folder; without ``out`` it is gone when this value is."""
        return self.folder.path

    @property
    def summary(self) -> dict[str, Any]:
        """The figures that ``perfed compare --json`` prints."""
        return self.folder.summary

    def table(self) -> "DataFrame":
        """Return the table of all methods, with the majority class as its floor.

        Returns:
            A data frame with a row per method; accuracies are fractions.

        Example:
            >>> import perfed
            >>> found = perfed.compare("fedavg", clients=3, rounds=1, progress=False)
            >>> found.table()["method"].tolist()
            ['Majority class', 'Local', 'FedAvg']
        """
        return frame_of(self._records())

    def _records(self) -> list[read.Record]:
        return read.gather([self.folder.path])

    def curves(self, series: str = "test") -> "DataFrame":
        """Return every method's figures round by round, one below the other.

        Args:
            series: ``test``, ``validation`` or ``after``.

        Returns:
            A data frame as that of a run, with a column ``method``.

        Raises:
            InputError: there is no such series.

        Example:
            >>> import perfed
            >>> found = perfed.compare("fedavg", clients=3, rounds=1, progress=False)
            >>> found.curves()[["method", "round"]].values.tolist()
            [['fedavg', 0], ['fedavg', 1], ['local', 0], ['local', 1]]
        """
        import pandas

        return pandas.concat([run.curves(series).assign(method=name) for name, run in self.runs.items()], ignore_index=True)

    def frame(self) -> "DataFrame":
        """Return every client's numbers under every method, one in a row.

        Returns:
            A tidy data frame.

        Example:
            >>> import perfed
            >>> found = perfed.compare("fedavg", clients=3, rounds=1, progress=False)
            >>> found.frame().columns.tolist()
            ['method', 'seed', 'round', 'client', 'part', 'metric', 'value']
        """
        return frame(self._records())

    def accuracies(self, part: str = "test", seed: int | None = None) -> "DataFrame":
        """Return each client's accuracy after the last round; for other tasks than classes the main score.

        Args:
            part: ``test`` or ``validation``.
            seed: one of the runs' seeds; by default the first.

        Returns:
            A data frame: a row per client, a column per method.

        Raises:
            InputError: there is no such seed, or there are no scores of that part.

        Example:
            >>> import perfed
            >>> found = perfed.compare("fedavg", clients=3, rounds=1, progress=False)
            >>> found.accuracies().round(1).loc["client 1"].to_dict()
            {'fedavg': 0.0, 'local': 0.6}
        """
        import pandas

        return pandas.DataFrame({name: run.accuracies(part, seed) for name, run in self.runs.items()})

    def model(self, client: int | str, method: str, seed: int | None = None) -> PersonalModel:
        """Return the model that a client takes home from one of the methods.

        Args:
            client: its number, from 0, or its name.
            method: the name of one of the runs.
            seed: one of the runs' seeds; by default the first.

        Returns:
            The model, in ``eval()``.

        Raises:
            InputError: there is no such client, method or seed.

        Example:
            >>> import perfed
            >>> found = perfed.compare("fedavg", clients=3, rounds=1, progress=False)
            >>> found.model(0, "local")
            PersonalModel(Local, client 0, after round 1, 4,810 parameters)
        """
        return self[method].model(client, seed)

    def report(self, out: Path | str | None = None) -> Path:
        """Write the page with table, curves and clients.

        Args:
            out: a file or a folder; by default the comparison's own folder.

        Returns:
            The page's path.

        Raises:
            InputError: the comparison has no folder and none is given.
            RunError: the page cannot be written.

        Example:
            >>> import perfed, tempfile
            >>> found = perfed.compare("fedavg", clients=3, rounds=1, progress=False)
            >>> found.report(tempfile.mkdtemp()).name
            'report.html'
        """
        if out is None and self._temporary is not None:
            raise InputError("this comparison has no folder; say where the page goes, such as report('page.html')")
        return page.write([self.folder.path], out or self.folder.page)

    def __repr__(self) -> str:
        where = "not recorded" if self._temporary is not None else f"in {self.folder.path}"
        return f"Comparison({', '.join(self.runs)}; {where})"

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>{self.table().to_html(index=False)}"


def conclude(folder: CompareFolder, seconds: float) -> dict[str, Any]:
    """Write a comparison's summary and page; return what ``perfed compare`` shows."""
    runs = read.gather([folder.path])
    if not runs:
        raise RunError(f"'{folder.path}' holds no runs")
    made = tables.comparison(runs, **read.options(runs))
    head, rows = tables.short(made)
    found = {
        "run": str(folder.path),
        "seconds": round(seconds, 3),
        "table": tables.records(made),
        "runs": {run.path.name: run.summary for run in folder.runs},
    }
    found = folder.put_summary(found)
    written = page.write([folder.path], folder.page)
    return found | {"report": str(written), "columns": head, "rows": rows}
