"""What a run or a comparison came to, as values to look at: tables, curves, every client's accuracy and model, a page."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from .errors import InputError, RunError
from .evaluate.summary import curves as curves_of
from .evaluate.summary import rates
from .report import page, read, tables
from .report.frame import frame
from .report.names import title
from .runs.assemble import Assembled
from .runs.experiment import Experiment
from .runs.folder import CompareFolder, RunFolder
from .runs.run import digests, known, reshared, summed
from .runs.seed import Seed
from .runs.states import digest
from .serving.personal import PersonalModel, Trained

if TYPE_CHECKING:
    from pandas import DataFrame


class Run:
    """One experiment that was run: in a folder, or in memory.

    Args:
        experiment: what was asked for.
        folder: where it is recorded, if it is.
        seeds: every seed as it ended, for a run that is not recorded.

    Example:
        >>> import perfed
        >>> run = perfed.run(method="fedper", clients=3, rounds=2, progress=False)
        >>> run
        Run(FedPer on digits, 3 clients, 2 rounds, not recorded)
        >>> sorted(run.accuracies())
        ['client 0', 'client 1', 'client 2']
        >>> run.curves()["round"].tolist()
        [0, 1, 2]
    """

    def __init__(self, experiment: Experiment, folder: RunFolder | None = None, seeds: Mapping[int, Seed] | None = None) -> None:
        self.experiment, self.folder = experiment, folder
        self._seeds: dict[int, Seed] = dict(seeds or {})

    @property
    def path(self) -> Path | None:
        """The run's folder, where it is recorded."""
        return None if self.folder is None else self.folder.path

    @property
    def rounds(self) -> dict[int, list[dict[str, Any]]]:
        """What every round recorded, by seed."""
        if self.folder is None:
            return {number: seed.lines for number, seed in self._seeds.items()}
        return {number: self.folder.seed(number).lines.read() for number in self.experiment.seeds}

    @property
    def names(self) -> list[str]:
        """The clients' names."""
        return list(self._who(self.experiment.seeds[0])["names"])

    def _who(self, seed: int) -> dict[str, Any]:
        if self.folder is not None:
            return self.folder.seed(seed).clients
        from .runs.run import clients_of

        samples, split = self._seeds[seed].made.federation.source or (None, None)
        assert samples is not None and split is not None
        return clients_of(samples, split)

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The figures that ``perfed run --json`` prints."""
        if self.folder is not None:
            return self.folder.summary
        who = {number: self._who(number) for number in self._seeds}
        ended = {number: digest(seed.server, seed.store) for number, seed in self._seeds.items()}
        return {"method": self.experiment.method.name, **summed(self.experiment, self.rounds, who), **digests(ended)}

    @property
    def digest(self) -> str:
        """A SHA-256 over the states that the run ended in: equal digests are equal bits."""
        return str(self.summary["digest"])

    @property
    def accuracy(self) -> float:
        """The accuracy over all clients' test samples after the last round, averaged over seeds."""
        return float(self.summary["accuracy"]["last"]["weighted"]["mean"])

    def accuracies(self, part: str = "test", seed: int | None = None) -> dict[str, float]:
        """Return each client's accuracy after the last round, by name.

        Args:
            part: ``test`` or ``validation``.
            seed: one of the run's seeds; by default the first.
        """
        number = self._number(seed)
        last = next((line for line in reversed(self.rounds[number]) if line.get(part)), None)
        if last is None:
            raise InputError(f"there are no {part} scores in this run")
        return dict(zip(self._who(number)["names"], rates(last[part]).tolist(), strict=True))

    def table(self) -> "DataFrame":
        """Return the run's row of a table, beside guessing the most frequent class, as a data frame."""
        return frame_of([self.record])

    def curves(self, series: str = "test") -> "DataFrame":
        """Return the figures round by round, mean and deviation over seeds, as a data frame.

        Args:
            series: ``test``, ``validation`` or ``after``.
        """
        import pandas

        found = curves_of(self.rounds, series=series)
        columns = {"round": found.pop("round")}
        for name, both in found.items():
            columns |= {name: both["mean"], f"{name}_std": both["std"]}
        return pandas.DataFrame(columns)

    def frame(self) -> "DataFrame":
        """Return every client's numbers as a tidy data frame: method, seed, round, client, part, metric, value."""
        return frame([self.record])

    def model(self, client: int | str, seed: int | None = None, at: int | None = None) -> PersonalModel:
        """Return the model that a client takes home: an ordinary module with its own tensors.

        Args:
            client: its number, from 0, or its name.
            seed: one of the run's seeds; by default the first.
            at: after which round, where the run kept snapshots; by default the last.
        """
        return self.trained(seed, at).model(client)

    def trained(self, seed: int | None = None, at: int | None = None) -> Trained:
        """Return one seed's states after its last checkpoint, or after round ``at`` where that state was kept."""
        return self._seed(self._number(seed)).at(at)

    def _seed(self, number: int) -> Seed:
        if number not in self._seeds:
            assert self.folder is not None
            made: Assembled = reshared(self.folder, self.experiment).assemble(self.experiment, number)
            self._seeds[number] = Seed(made, self.folder.seed(number))
        return self._seeds[number]

    def _number(self, seed: int | None) -> int:
        seeds = self.experiment.seeds
        if seed is not None and seed not in seeds:
            raise InputError(f"this run has seeds {', '.join(map(str, seeds))}, not {seed}")
        return seeds[0] if seed is None else seed

    @property
    def record(self) -> read.Run:
        """The run as tables, figures and pages read it."""
        if self.folder is not None:
            return read.read(self.folder.path)
        who = {number: self._who(number) for number in self._seeds}
        return read.Run(Path(self.experiment.stem), self.experiment.plain(), {}, self.rounds, who)

    def report(self, out: Path | str | None = None) -> Path:
        """Write the page with table, curves and clients; return its path.

        Args:
            out: a file or a folder; by default the run's own folder.
        """
        target = out or (self.folder.page if self.folder else None)
        if target is None:
            raise InputError("this run has no folder; say where the page goes, such as report('page.html')")
        return page.put(page.render([self.record]), target)

    def __repr__(self) -> str:
        asked, where = self.experiment, "not recorded" if self.folder is None else f"in {self.folder.path}"
        seeds = f", {len(asked.seeds)} seeds" if len(asked.seeds) > 1 else ""
        name = title(asked.method.name)
        return f"Run({name} on {asked.data.name}, {len(self.names)} clients, {asked.rounds} rounds{seeds}, {where})"

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>{self.table().to_html(index=False)}"


class Comparison:
    """Several methods that were run on the same data, splits and seeds.

    Args:
        folder: where the comparison is recorded.
        experiments: what was asked for, by the name of its run; objects among them are kept for ``model``.
        temporary: the folder's owner, where it goes away with this value.
    """

    def __init__(
        self, folder: CompareFolder, experiments: Sequence[Experiment] = (), temporary: TemporaryDirectory[str] | None = None
    ) -> None:
        self.folder, self._temporary = folder, temporary
        asked = dict(zip([found.path.name for found in folder.runs], experiments, strict=False))
        self.runs = {found.path.name: Run(asked.get(found.path.name) or known(found), found) for found in folder.runs}

    def __getitem__(self, name: str) -> Run:
        if name not in self.runs:
            from .errors import suggest

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
        """Return the table of all methods, with the majority class as its floor, as a data frame."""
        return frame_of(self._records())

    def _records(self) -> list[read.Run]:
        return read.gather([self.folder.path])

    def curves(self, series: str = "test") -> "DataFrame":
        """Return every method's figures round by round, one below the other, with a column ``method``."""
        import pandas

        return pandas.concat([run.curves(series).assign(method=name) for name, run in self.runs.items()], ignore_index=True)

    def frame(self) -> "DataFrame":
        """Return every client's numbers under every method as a tidy data frame."""
        return frame(self._records())

    def accuracies(self, part: str = "test", seed: int | None = None) -> "DataFrame":
        """Return each client's accuracy after the last round: a row per client, a column per method."""
        import pandas

        return pandas.DataFrame({name: run.accuracies(part, seed) for name, run in self.runs.items()})

    def model(self, client: int | str, method: str, seed: int | None = None) -> PersonalModel:
        """Return the model that a client takes home from one of the methods."""
        return self[method].model(client, seed)

    def report(self, out: Path | str | None = None) -> Path:
        """Write the page with table, curves and clients; return its path."""
        if out is None and self._temporary is not None:
            raise InputError("this comparison has no folder; say where the page goes, such as report('page.html')")
        return page.write([self.folder.path], out or self.folder.page)

    def __repr__(self) -> str:
        where = "not recorded" if self._temporary is not None else f"in {self.folder.path}"
        return f"Comparison({', '.join(self.runs)}; {where})"

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>{self.table().to_html(index=False)}"


def frame_of(runs: Sequence[read.Run]) -> "DataFrame":
    """Return the table of runs as a data frame, numbers as numbers: accuracies are fractions."""
    import pandas

    made = tables.comparison(runs, **read.options(runs))
    rows = []
    for row in tables.records(made):
        flat = {"method": row["name"]}
        for key, cell in row.items():
            if isinstance(cell, dict):
                flat |= {key: cell["mean"], f"{key}.std": cell["std"]}
        rows.append(flat)
    return pandas.DataFrame(rows)


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
    folder.put_summary(found)
    written = page.write([folder.path], folder.page)
    return found | {"report": str(written), "columns": head, "rows": rows}
