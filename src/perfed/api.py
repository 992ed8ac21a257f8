"""What Python users call: bring data, run, compare, go on, open, take a client's model home."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from .data import Samples
from .errors import InputError, suggest
from .federation import Federation
from .keywords import asked_for
from .method import Method
from .partition import Split
from .progress import shown
from .racing import again
from .results import Comparison, Race, Run, conclude
from .rounds import Round
from .runs import compare as comparing
from .runs import run as running
from .runs.assemble import federation_of, samples_of, split_of
from .runs.experiment import Experiment
from .runs.folder import CompareFolder, RunFolder
from .runs.race.folder import RaceFolder

OnRound = Callable[[int, Round], None]


def federate(
    data: str | Samples,
    *,
    clients: int | None = None,
    partition: str | Mapping[str, Any] | None = None,
    seed: int = 0,
    validation: float = 0.1,
    test: float = 0.25,
    split: Split | Path | None = None,
    **options: Any,
) -> Federation:
    """Return a data set shared among clients.

    Args:
        data: a data set's name, such as ``digits`` or ``csv:patients.csv``, or samples of one's own.
        clients: how many; by default one per group where the data has groups, else 20.
        partition: who gets which samples: a name, or a mapping with a name and options; by default the data's own groups are
            the clients, and where it has none they are made by ``dirichlet``.
        seed: what the partition and later the training are drawn from.
        validation: the share of every client's samples that rounds are chosen on.
        test: the share of every client's samples that it is tested on.
        split: a split or its file, instead of a partition.
        **options: the partition's options, such as ``alpha=0.1``.

    Returns:
        The clients' data, ready for `run`.

    Raises:
        InputError: an option that the partition does not have, with the nearest one, or one that a split makes useless.
        DataError: the data are not there or cannot be read.

    Example:
        >>> import perfed
        >>> perfed.federate("digits", clients=4, partition="iid")
        Federation of 4 clients with 449 to 450 samples (1×8×8, 10 classes)
    """
    name = {"name": partition or "dirichlet"} if not isinstance(partition, Mapping) else dict(partition)
    raw: dict[str, Any] = {"data": data, "clients": clients, "validation": validation, "test": test, "split": split}
    if split is None and (partition is not None or options):
        raw["partition"] = name | options
    elif split is not None and (options or partition is not None or clients is not None):
        raise InputError(f"{next(iter(options), 'partition')} has no effect here: the split says who has what")
    asked = Experiment(**raw)
    samples = samples_of(asked)
    return federation_of(asked, samples, split_of(asked, samples, seed), seed)


def run(
    experiment: Experiment | None = None,
    *,
    out: Path | str | None = None,
    progress: bool = True,
    on_round: OnRound | None = None,
    **given: Any,
) -> Run:
    """Run an experiment, with a record or without.

    Args:
        experiment: what to run; or give its parts as keyword arguments.
        out: the folder in which the run's folder is made; without one nothing is written.
        progress: whether to show a bar.
        on_round: hears of every round: the seed, and what the round produced.
        **given: settings of an `Experiment`; also the fields of the method (``align=5``) and of the partition
            (``alpha=0.1``) by their own names, and ``seed=3`` for ``seeds=(3,)``.

    Returns:
        The run: tables, curves, accuracies, every client's model.

    Raises:
        InputError: a keyword that has no meaning or no effect here, with the nearest name.

    Example:
        >>> import perfed
        >>> done = perfed.run(method="fedper", clients=3, rounds=1, alpha=0.5, progress=False)
        >>> round(done.accuracy, 1) <= 1.0
        True
        >>> done.model(0).training
        False
    """
    asked = asked_for(experiment, given)
    with shown(len(asked.seeds) * (asked.rounds + 1), asked.method.name, progress=progress, on_round=on_round) as heard:
        if out is None:
            return Run(asked, seeds=running.rehearse(asked, heard))
        asked = asked.but(out=Path(out))
        return Run(asked, running.run(asked, heard, "perfed.run"))


def train(
    federation: Federation | Samples | str,
    method: str | Method[Any, Any, Any, Any] = "fedavg",
    *,
    out: Path | str | None = None,
    progress: bool = True,
    on_round: OnRound | None = None,
    **given: Any,
) -> Run:
    """Train a method on clients' data: `run` with its two main parts named by place.

    Args:
        federation: the clients' data from `federate`; samples or a name are shared out by the default partition.
        method: a name, or a method of one's own.
        out: the folder in which the run's folder is made; without one nothing is written.
        progress: whether to show a bar.
        on_round: hears of every round.
        **given: as in `run`.

    Returns:
        The run.

    Raises:
        InputError: a keyword that has no meaning or no effect here, with the nearest name.

    Example:
        >>> import perfed
        >>> clients = perfed.federate("digits", clients=3, partition="iid")
        >>> perfed.train(clients, "fedavg", rounds=1, budget={"lr": 0.05}, progress=False).names
        ['client 0', 'client 1', 'client 2']
    """
    return run(data=federation, method=method, out=out, progress=progress, on_round=on_round, **given)


def compare(
    methods: Iterable[Any] | str,
    *,
    out: Path | str | None = None,
    progress: bool = True,
    on_round: OnRound | None = None,
    **given: Any,
) -> Comparison:
    """Compare methods on the same data, splits, seeds and budgets; Local always takes part.

    Args:
        methods: names, names with options, methods of one's own, and whole experiments, mixed.
        out: the folder in which the comparison's folder is made; without one it goes away with the result.
        progress: whether to show a bar.
        on_round: hears of every round.
        **given: settings that all of them have in common, as in `run`.

    Returns:
        The comparison: table, curves, accuracies, runs by name.

    Raises:
        InputError: no method, the same one twice, or a keyword that has no meaning or no effect here.

    Example:
        >>> import perfed
        >>> found = perfed.compare(["fedavg", {"name": "ditto", "spring": 0.5}], clients=3, rounds=1, progress=False)
        >>> list(found.runs)
        ['fedavg', 'ditto', 'local']
    """
    entries = methods.split(",") if isinstance(methods, str) else list(methods)
    asked = comparing.listed(entries, asked_for(None, given, several=True))
    temporary = TemporaryDirectory(prefix="perfed-") if out is None else None
    first = asked.first.but(out=Path(temporary.name if temporary else str(out)))
    asked = comparing.Lineup((first, *asked.experiments[1:]))
    began = perf_counter()
    with shown(asked.total, "compare", progress=progress, on_round=on_round) as heard:
        folder = comparing.run(asked, heard, "perfed.compare")
    conclude(folder, perf_counter() - began)
    return Comparison(folder, asked.experiments, temporary)


def resume(
    path: Path | str,
    *,
    rounds: int | None = None,
    progress: bool = True,
    on_round: OnRound | None = None,
    **given: Any,
) -> Run | Comparison | Race:
    """Finish an interrupted run, comparison or race, bit for bit as if it had never stopped, or give it more rounds.

    Args:
        path: the folder.
        rounds: how many rounds in all, where that is more than were asked for.
        progress: whether to show a bar.
        on_round: hears of every round.
        **given: objects that cannot be found by name again: ``method``, ``model``, ``data``.

    Returns:
        The run, the comparison or the race.

    Raises:
        RunError: the folder is no run, something of it changed since it began, or it already has more rounds.
        InputError: an object that is not wanted here.

    Example:
        >>> import perfed, tempfile
        >>> done = perfed.run(method="local", clients=3, rounds=1, out=tempfile.mkdtemp(), progress=False)
        >>> perfed.resume(done.path, rounds=2, progress=False).experiment.rounds
        2
    """
    for name in given:
        if name not in ("method", "model", "data"):
            raise suggest("object to give again", name, ("method", "model", "data"))
    if RaceFolder.there(path):
        if rounds is not None:
            raise InputError("a race has the rounds that its plan gives it; race anew with more")
        return again(path, progress=progress, on_round=on_round, given=given)
    began = perf_counter()
    if CompareFolder.there(path):
        if given:
            raise InputError("give objects again to one run of a comparison at a time: resume its own folder")
        left = sum(running.left(found, rounds) for found in CompareFolder(path).runs)
        with shown(left, "compare", progress=progress, on_round=on_round) as heard:
            folder = comparing.resume(path, heard, rounds)
        conclude(folder, perf_counter() - began)
        return Comparison(folder)
    found = running.opened(path)
    with shown(running.left(found, rounds), found.experiment.method.name, progress=progress, on_round=on_round) as heard:
        running.resume(found, heard, rounds, given)
    return Run(running.known(found, given), found)


def open(path: Path | str, **given: Any) -> Run | Comparison | Race:
    """Open a run's, a comparison's or a finished race's folder as it stands.

    Args:
        path: the folder.
        **given: objects that cannot be found by name again, where models are wanted: ``method``, ``model``, ``data``.

    Returns:
        The run, the comparison or the race.

    Raises:
        RunError: the folder is no run, or something of it changed since it began.

    Example:
        >>> import perfed, tempfile
        >>> done = perfed.run(method="local", clients=3, rounds=1, out=tempfile.mkdtemp(), progress=False)
        >>> perfed.open(done.path).digest == done.digest
        True
    """
    if RaceFolder.there(path):
        return Race(RaceFolder(path))
    if CompareFolder.there(path):
        return Comparison(CompareFolder(path))
    found = running.opened(path)
    return Run(running.known(found, given) if given or not _nameless(found) else found.experiment, found)


def _nameless(found: RunFolder) -> bool:
    asked = found.experiment
    return any(choice.known is not None for choice in (asked.method, asked.model, asked.data))
