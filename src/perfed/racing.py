"""What Python users call to find out which method serves their clients: race, and tune."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from .errors import InputError
from .keywords import asked_for
from .progress import Heard, shown
from .results import Race, conclude_race
from .runs.race import ask
from .runs.race.folder import RaceFolder
from .runs.race.run import resume as going_on
from .runs.race.run import run as racing

Note = Callable[[str], None]


def race(
    methods: Iterable[Any] | str = "all",
    *,
    steps: float | None = None,
    minutes: float | None = None,
    candidates: int | None = None,
    seed: int = 0,
    sampler: str = "quasi",
    own_choice: bool = False,
    search: Mapping[str, Any] | None = None,
    out: Path | str | None = None,
    progress: bool = True,
    on_round: Heard | None = None,
    note: Note | None = None,
    **given: Any,
) -> Race:
    """Find out which method, with which settings, serves these clients best: all of them on equal budgets.

    Settings are chosen on validation data alone; the best of every method is then tested once on fresh seeds. Local and
    FedAvg with fine-tuning always take part. Of ``rounds``, ``candidates`` and what it may cost, two decide the third.

    Args:
        methods: names, names with options and methods of one's own, mixed; ``all`` for every method that can run here.
        steps: client-steps that the whole race may cost: batches that clients train on.
        minutes: what it may take instead; a pilot measures how many client-steps that is.
        candidates: settings of every method; by default 20.
        seed: the race is run on it; who owns what follows from it too.
        sampler: ``quasi`` for settings spread evenly, ``tpe`` for those that optuna makes of earlier scores.
        own_choice: whether every client also chooses between local, common and personal on its validation samples.
        search: ranges of one's own, such as ``{"budget.lr": (0.01, 0.5), "fedcp.align": (0.1, 10)}``.
        out: the folder in which the race's folder is made; without one it goes away with the result.
        progress: whether to show a bar.
        on_round: hears of every round.
        note: hears, in a sentence each, what happens.
        **given: settings that all of them have in common, as in `run`; ``rounds`` are those of a full run, ``seeds`` the
            fresh seeds, by default 1, 2 and 3. A step size that is given is not searched.

    Returns:
        The race: the winner, a table with intervals, the recommendation in words, a page.

    Raises:
        InputError: no validation data, a budget too small for one rung, a metric that is undefined for every client, all
            candidates diverged, or a keyword that has no meaning here.

    Example:
        >>> import perfed
        >>> found = perfed.race("fedper", clients=3, rounds=2, candidates=2, seeds=(1,), progress=False)
        >>> sorted(found.table()["name"])
        ['fedavgft', 'fedper', 'local']
    """
    options: dict[str, Any] = {"steps": steps, "minutes": minutes, "candidates": candidates, "seed": seed}
    options |= {"sampler": sampler, "own_choice": own_choice, "search": search}
    entries = methods.split(",") if isinstance(methods, str) else list(methods)
    wanted = ask.listed(entries, asked_for(None, _placed(given, out), several=True), given, options)
    return _raced(wanted, "perfed.race", out, note, shown_as=("race", progress, on_round))


def tune(
    method: Any,
    *,
    steps: float | None = None,
    minutes: float | None = None,
    candidates: int | None = None,
    seed: int = 0,
    sampler: str = "quasi",
    search: Mapping[str, Any] | None = None,
    out: Path | str | None = None,
    progress: bool = True,
    on_round: Heard | None = None,
    note: Note | None = None,
    **given: Any,
) -> Race:
    """Find the best settings of one method for these clients: a `race` of its settings, tested beside its own ones.

    Args:
        method: a name, a name with options, or a method of one's own; what is set of it is not searched.
        steps: client-steps that the whole may cost.
        minutes: what it may take instead.
        candidates: how many settings; by default 20.
        seed: the settings are raced on it.
        sampler: ``quasi`` or ``tpe``.
        search: ranges of one's own, such as ``{"budget.lr": (0.01, 0.5), "fedcp.align": (0.1, 10)}``.
        out: the folder in which the folder is made; without one it goes away with the result.
        progress: whether to show a bar.
        on_round: hears of every round.
        note: hears, in a sentence each, what happens.
        **given: settings as in `run`.

    Returns:
        The race, whose winner is the method with ``setting``; where that is not the method's own, both are in the table.

    Raises:
        InputError: as for `race`.

    Example:
        >>> import perfed
        >>> found = perfed.tune("fedper", clients=3, rounds=3, candidates=2, seeds=(1,), progress=False)
        >>> found.winner
        'fedper'
    """
    options = {"steps": steps, "minutes": minutes, "candidates": candidates, "seed": seed, "sampler": sampler, "search": search}
    wanted = ask.single(asked_for(None, _placed(given, out) | {"method": method}), given, options)
    return _raced(wanted, "perfed.tune", out, note, shown_as=("tune", progress, on_round))


def again(path: Path | str, *, progress: bool, on_round: Heard | None, given: Mapping[str, Any]) -> Race:
    """Go on with a race that was interrupted."""
    began = perf_counter()
    with shown(None, "race", progress=progress, on_round=on_round) as heard:
        folder = going_on(path, heard, given, total=getattr(heard, "expect", None))
    conclude_race(folder, perf_counter() - began)
    return Race(folder)


def _placed(given: Mapping[str, Any], out: Path | str | None) -> dict[str, Any]:
    if "seed" in given:
        raise InputError("seed is the race's own; the fresh ones are seeds=(1, 2, 3)")
    return dict(given) | ({} if out is None else {"out": Path(out)})


def _raced(
    wanted: ask.Wanted, command: str, out: Path | str | None, note: Note | None, shown_as: tuple[str, bool, Heard | None]
) -> Race:
    temporary = TemporaryDirectory(prefix="perfed-") if out is None else None
    if temporary is not None:
        wanted = wanted.elsewhere(Path(temporary.name))
    what, progress, on_round = shown_as
    began = perf_counter()
    with shown(None, what, progress=progress, on_round=on_round) as heard:
        folder: RaceFolder = racing(wanted, heard, command, note=note, total=getattr(heard, "expect", None))
    conclude_race(folder, perf_counter() - began)
    return Race(folder, temporary)
