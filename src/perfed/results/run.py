"""What a run came to, as a value to look at: its table, curves, every client's accuracy and model, a page."""

from collections.abc import Mapping
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from ..evaluate.summary import curves as curves_of
from ..evaluate.summary import rates
from ..report import page, read
from ..report.frame import frame
from ..report.names import title
from ..runs.assemble import Assembled
from ..runs.experiment import Experiment
from ..runs.folder import RunFolder
from ..runs.run import digests, reshared, summed
from ..runs.seed import Seed
from ..runs.states import digest
from ..serving.personal import PersonalModel, Trained
from .table import frame_of

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

    @property
    def classes(self) -> list[str]:
        """The labels' names, in order."""
        return list(self._who(self.experiment.seeds[0])["classes"])

    @property
    def everyone(self) -> list[str]:
        """The names of the clients, and of those that were kept out of training."""
        return [*self.names, *self._who(self.experiment.seeds[0]).get("unseen", {"names": []})["names"]]

    def _who(self, seed: int) -> dict[str, Any]:
        if self.folder is not None:
            return self.folder.seed(seed).clients
        from ..runs.unseen import clients_of, kept_out

        samples, split = self._seeds[seed].made.federation.source or (None, None)
        assert samples is not None and split is not None
        return clients_of(samples, split, kept_out(self.experiment, split.names, seed))

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
        """The accuracy over all clients' test samples after the last round, averaged over seeds.

        Where no classes are learned it is the main score, which `main` names.
        """
        return float(self.summary["accuracy"]["last"]["weighted"]["mean"])

    @property
    def main(self) -> str:
        """The metric that tables show first: ``accuracy``, or ``label_accuracy``, ``r2`` or ``concordance`` for other tasks."""
        return str(self.summary.get("main", "accuracy"))

    def accuracies(self, part: str = "test", seed: int | None = None) -> dict[str, float]:
        """Return each client's accuracy after the last round, by name; for other tasks than classes the main score.

        Args:
            part: ``test`` or ``validation``; ``unseen`` for clients that were kept out of training.
            seed: one of the run's seeds; by default the first.

        Returns:
            Fractions from 0 to 1; R² may be below 0.

        Raises:
            InputError: the run has no such seed, or no scores of that part.

        Example:
            >>> import perfed
            >>> run = perfed.run(method="fedper", clients=3, rounds=1, progress=False)
            >>> found = run.accuracies()
            >>> max(found, key=found.get)
            'client 1'
        """
        number = self._number(seed)
        last = next((line for line in reversed(self.rounds[number]) if line.get(part)), None)
        if last is None:
            raise InputError(f"there are no {part} scores in this run")
        who = self._who(number)
        return dict(zip((who["unseen"] if part == "unseen" else who)["names"], rates(last[part]).tolist(), strict=True))

    def table(self) -> "DataFrame":
        """Return the run's row of a table, beside guessing the most frequent class.

        Returns:
            A data frame with a row each; accuracies are fractions.

        Example:
            >>> import perfed
            >>> run = perfed.run(method="fedper", clients=3, rounds=1, progress=False)
            >>> run.table()["method"].tolist()
            ['Majority class', 'FedPer']
        """
        return frame_of([self.record])

    def curves(self, series: str = "test") -> "DataFrame":
        """Return the figures round by round, with mean and deviation over seeds.

        Args:
            series: ``test``, ``validation`` or ``after``.

        Returns:
            A data frame with a row per round; round 0 is before any training.

        Raises:
            InputError: there is no such series.

        Example:
            >>> import perfed
            >>> run = perfed.run(method="fedper", clients=3, rounds=1, progress=False)
            >>> run.curves()[["round", "mean"]].round(1).values.tolist()
            [[0.0, 0.1], [1.0, 0.5]]
        """
        import pandas

        found = curves_of(self.rounds, series=series)
        columns = {"round": found.pop("round")}
        for name, both in found.items():
            columns |= {name: both["mean"], f"{name}_std": both["std"]}
        return pandas.DataFrame(columns)

    def frame(self) -> "DataFrame":
        """Return every client's numbers, one in a row.

        Returns:
            A tidy data frame.

        Example:
            >>> import perfed
            >>> run = perfed.run(method="fedper", clients=3, rounds=1, progress=False)
            >>> run.frame().columns.tolist()
            ['method', 'seed', 'round', 'client', 'part', 'metric', 'value']
        """
        return frame([self.record])

    def model(self, client: int | str, seed: int | None = None, at: int | None = None) -> PersonalModel:
        """Return the model that a client takes home: an ordinary module with its own tensors.

        Args:
            client: its number, from 0, or its name.
            seed: one of the run's seeds; by default the first.
            at: after which round, where the run kept snapshots; by default the last.

        Returns:
            The model, in ``eval()``.

        Raises:
            InputError: there is no such client or seed.
            RunError: the state after that round was not kept.

        Example:
            >>> import perfed
            >>> run = perfed.run(method="fedper", clients=3, rounds=1, progress=False)
            >>> run.model("client 2")
            PersonalModel(FedPer, client 2, after round 1, 4,810 parameters)
        """
        return self.trained(seed, at).model(client)

    def trained(self, seed: int | None = None, at: int | None = None) -> Trained:
        """Return one seed's states: the server's, and every client's own.

        Args:
            seed: one of the run's seeds; by default the first.
            at: after which round, where the run kept snapshots; by default the last.

        Returns:
            The states, which also make models.

        Raises:
            InputError: there is no such seed.
            RunError: the state after that round was not kept.

        Example:
            >>> import perfed
            >>> run = perfed.run(method="fedper", clients=3, rounds=1, progress=False)
            >>> run.trained().number
            1
        """
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
    def record(self) -> read.Record:
        """The run as tables, figures and pages read it."""
        if self.folder is not None:
            return read.read(self.folder.path)
        who = {number: self._who(number) for number in self._seeds}
        return read.Record(Path(self.experiment.stem), self.experiment.plain(), {}, self.rounds, who)

    def report(self, out: Path | str | None = None) -> Path:
        """Write the page with table, curves and clients.

        Args:
            out: a file or a folder; by default the run's own folder.

        Returns:
            The page's path.

        Raises:
            InputError: the run has no folder and none is given.
            RunError: the page cannot be written.

        Example:
            >>> import perfed, tempfile
            >>> run = perfed.run(method="fedper", clients=3, rounds=1, progress=False)
            >>> run.report(tempfile.mkdtemp()).name
            'report.html'
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
