"""A newcomer to a run that is over: its data, how it does before and after it fitted its own parts, and its model."""

from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from ..data import Samples
from ..data import load as load_samples
from ..data.columns import Columns, ColumnSums, own_scale
from ..data.sheet import Sheet
from ..disk import put_json
from ..errors import DataError, InputError
from ..federation import Federation
from ..partition import build as build_partition
from ..partition import split as make_split
from ..runs.run import known, opened
from ..sampling import Join
from ..serving.export import WAYS, export
from ..serving.personal import PersonalModel, Trained
from ..transport import Newcomers, Private
from .run import Run


class Joined:
    """A client that came after training: what it has, and what it got. The run that it joined is not changed.

    Args:
        name: What it is called.
        trained: The states that it joins.
        federation: Its data, as one client.
        classes: The labels' names.
        epochs: Passes over its training samples in which it fits its own parts.

    Example:
        >>> import perfed
        >>> clients = perfed.federate("digits", clients=4, partition="iid")
        >>> run = perfed.train(clients, "fedper", rounds=2, progress=False)
        >>> new = perfed.join(run, clients.source[0].take(range(200)), name="Oslo")
        >>> new
        Joined(Oslo, 150 training samples, FedPer after round 2)
        >>> new.after["accuracy"] > new.before["accuracy"]
        True
        >>> new.model()
        PersonalModel(FedPer, Oslo, after round 2, 4,810 parameters)
    """

    def __init__(self, name: str, trained: Trained, federation: Federation, classes: list[str], epochs: int) -> None:
        self.name, self.classes, self.epochs, self.round = name, classes, epochs, trained.number
        self._new, self._server = Newcomers.of(trained.site, federation, epochs), trained.server

    @cached_property
    def _states(self) -> Any:
        return self._new.join(self._server, 0, self.round)

    @cached_property
    def before(self) -> dict[str, Any]:
        """The scores on its test samples with what it was sent, before it fitted anything."""
        return self._scored(self._new.welcome(self._server))

    @cached_property
    def after(self) -> dict[str, Any]:
        """The scores on its test samples with its own model."""
        return self._scored(self._states)

    def _scored(self, states: Any) -> dict[str, Any]:
        return self._new.tested(0, states, self.round, ("test",))[0].plain()

    def model(self) -> PersonalModel:
        """Return the newcomer's model: an ordinary module with its own tensors, as `Run.model` gives it.

        Returns:
            The model, in ``eval()``.

        Example:
            >>> import perfed
            >>> clients = perfed.federate("digits", clients=4, partition="iid")
            >>> run = perfed.train(clients, "fedavg", rounds=1, progress=False)
            >>> perfed.join(run, clients.source[0].take(range(100))).model().training
            False
        """
        down, mine = self._states
        return PersonalModel(self._new.site, down, Private(mine, {}), 0, self.round)

    def save(self, folder: Path | str) -> dict[str, Any]:
        """Write the newcomer's model and what is known of it to a folder.

        Args:
            folder: Where; it is made where it is not there.

        Returns:
            What was written: scores before and after, samples, and the model's file.

        Raises:
            RunError: the model has diverged, or the file cannot be written.

        Example:
            >>> import perfed, tempfile
            >>> clients = perfed.federate("digits", clients=4, partition="iid")
            >>> run = perfed.train(clients, "fedper", rounds=1, progress=False)
            >>> told = perfed.join(run, clients.source[0].take(range(100)), name="Oslo").save(tempfile.mkdtemp())
            >>> told["name"], told["train"], told["test"]
            ('Oslo', 75, 25)
        """
        federation = self._new.site.federation
        path = Path(folder) / f"{self.name.replace(' ', '-').replace('/', '-')}{next(iter(WAYS))}"
        words = {} if federation.vocabulary is None else {"vocabulary": federation.vocabulary.words}
        card = export(self.model(), path, self.classes, {"joined": True, **words}, federation.some(0))
        told = {
            "name": self.name,
            "method": type(self._new.site.method).__name__,
            "round": self.round,
            "epochs": self.epochs,
            "train": len(federation.train[0]),
            "test": len(federation.test[0]),
            "before": self.before,
            "after": self.after,
            "file": card["file"],
        }
        put_json(Path(folder) / "joined.json", told)
        return told

    def __repr__(self) -> str:
        method, size = type(self._new.site.method).__name__, len(self._new.site.federation.train[0])
        return f"Joined({self.name}, {size} training samples, {method} after round {self.round})"


def join(
    run: Run | Path | str,
    data: Samples | str,
    *,
    name: str = "newcomer",
    epochs: int | None = None,
    seed: int | None = None,
    **options: Any,
) -> Joined:
    """Let a client that took no part in a run join it: it receives what the method has for a newcomer and fits its own parts.

    Args:
        run: a run, or its folder; it is not changed.
        data: the newcomer's samples, or where they are, such as ``csv:oslo.csv``.
        name: what the newcomer is called.
        epochs: passes over its training samples; by default what the run's settings say (``join.epochs``).
        seed: which of the run's seeds; by default the first.
        **options: of the data, such as ``label="diagnosis"``; by default the run's own where it was read the same way.

    Returns:
        The newcomer: scores before and after, and its model.

    Raises:
        InputError: data that do not fit the run: another kind, shape or class, or too few samples.
        MethodError: the method has nothing for a newcomer.

    Example:
        >>> import perfed
        >>> clients = perfed.federate("digits", clients=4, partition="iid")
        >>> run = perfed.train(clients, "fedper", rounds=2, progress=False)
        >>> new = perfed.join(run, clients.source[0].take(range(200)))
        >>> sorted(new.after)
        ['accuracy', 'count', 'loss']
    """
    if not isinstance(run, Run):
        found = opened(run)
        run = Run(known(found), found)
    experiment, trained = run.experiment, run.trained(seed)
    passes = Join(epochs=experiment.join.epochs if epochs is None else epochs).epochs
    if not isinstance(data, Samples):
        same = data.partition(":")[0] == experiment.data.name.partition(":")[0] and ":" in data
        own = {k: v for k, v in experiment.data.options.items() if k not in ("client", "fraction")} if same else {}
        data = load_samples(data, **(own | options))
    elif options:
        raise InputError(f"{next(iter(options))} has no effect beside samples that are at hand")
    site, classes = trained.site, run.classes
    told = fitting(data, site.federation, classes, experiment.text)
    made = make_split(told, build_partition("iid"), 1, site.federation.seed, 0.0, experiment.test)
    columns = None
    if site.federation.columns is not None:
        columns = newcomers_columns(told, site.federation.columns, made.train[0])
        told = replace(told, x=torch.from_numpy(columns.rows(told.sheet)), sheet=None)
        _same_shape(told, site.federation)
    federation = Federation.of(told, replace(made, names=(name,)), site.federation.inputs, seed=site.federation.seed)
    federation = replace(federation, numbers=(len(run.everyone),), vocabulary=site.federation.vocabulary)
    federation = replace(federation, columns=None if columns is None else (columns,))
    return Joined(name, trained, federation.to(experiment.device), classes, passes)


def fitting(samples: Samples, federation: Federation, classes: list[str], text: dict[str, Any]) -> Samples:
    """Return a newcomer's samples as the run stores its own; what does not fit is refused in a sentence."""
    kind = getattr(federation.inputs, "kind", samples.kind)
    if samples.kind != kind:
        raise InputError(f"the run's data are of kind {kind}, the newcomer's '{samples.name}' of kind {samples.kind}")
    if samples.texts is not None and federation.vocabulary is not None:
        length = {name: value for name, value in text.items() if name == "length"}
        samples = replace(samples, x=federation.vocabulary.encode(samples.texts, **length))
    if samples.task != federation.goal:
        raise InputError(
            f"the run is for {federation.goal}, the newcomer's '{samples.name}' for {samples.task}; data.task= says it"
        )
    if federation.columns is None:  # a table's rows become numbers once it is known which of them train
        _same_shape(samples, federation)
    if len(samples) < 2:
        raise DataError(
            f"the newcomer's '{samples.name}' has {len(samples)} sample: it needs one to learn from and one to test on"
        )
    if samples.task != "classification":
        return replace(samples, group=None, groups=())
    foreign = sorted({samples.classes[i] for i in set(samples.y.tolist())} - set(classes))
    if foreign:
        listed = ", ".join(classes[:10]) + (", …" if len(classes) > 10 else "")
        raise InputError(f"the newcomer's '{samples.name}' has the class '{foreign[0]}', which the run does not know: {listed}")
    place = torch.tensor([classes.index(name) if name in classes else 0 for name in samples.classes])
    return replace(samples, y=place[samples.y], classes=tuple(classes), group=None, groups=())


def _same_shape(samples: Samples, federation: Federation) -> None:
    here, there = ("×".join(map(str, shape)) for shape in (samples.shape, federation.x.shape[1:]))
    if here != there:
        raise InputError(f"a sample of the run is {there}, one of the newcomer's '{samples.name}' is {here}")


def newcomers_columns(samples: Samples, columns: tuple[Columns, ...], train: Any) -> Columns:
    """Return the run's decisions for a newcomer's table; where every client scales by its own rows, it does so by ``train``."""
    again = "data.columns=RUN/seed-0/columns.json reads it by the run's decisions"
    if samples.sheet is None:
        raise InputError(
            f"the run has decisions for its table's columns, and '{samples.name}' was read as plain numbers; {again}"
        )
    there = {column.name: column.kind for column in samples.sheet.columns}
    for decided in columns[0].columns:
        if decided.name not in there:
            raise InputError(f"the newcomer's '{samples.name}' has no column '{decided.name}', which the run's clients have")
        if there[decided.name] != decided.kind:
            found = f"the column '{decided.name}' is {there[decided.name]} in the newcomer's '{samples.name}'"
            raise InputError(f"{found} and {decided.kind} in the run; {again}")
    if all(own == columns[0] for own in columns):
        return columns[0]
    plain = (replace(c, fill=0.0, mean=0.0, scale=1.0) if c.kind == "number" else c for c in columns[0].columns)
    names = [decided.name for decided in columns[0].columns]
    known = {column.name: column for column in samples.sheet.take(train).columns}
    return own_scale(Columns(tuple(plain)), ColumnSums.of(Sheet(tuple(known[name] for name in names))))
