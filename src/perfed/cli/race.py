"""perfed race and perfed tune: which method, with which settings, serves these clients."""

from pathlib import Path
from typing import Annotated, Any

import typer

from .attend import attended
from .output import emit, note, table, words
from .settings import complete

Words = Annotated[
    list[str] | None,
    typer.Argument(metavar="[FILE.yaml] [key=value]...", help="Settings: a YAML file, then overrides.", autocompletion=complete),
]
Json = Annotated[bool, typer.Option("--json", help="Machine-readable result on standard output.")]


def race(settings: Words = None, json: Json = False) -> None:
    """Find out which method, with which settings, serves your clients: data=… [methods=all|fedcp,gpfl,…] [steps=N|minutes=N].

    Settings as for compare, and: candidates=20 settings of each method, seed=0 to race on, seeds=1,2,3 to test on,
    budget.lr=0.01..0.5 or fedcp.align=0.1..10 for ranges of your own, sampler=quasi|tpe, own_choice=true.
    Settings are chosen on validation data; Local and FedAvg+FT always take part; every method has the same budget.
    """
    _race("race", settings, json)


def tune(settings: Words = None, json: Json = False) -> None:
    """Find the best settings of one method: method=fedcp data=… [steps=N|minutes=N] and settings as for race."""
    _race("tune", settings, json)


def _race(verb: str, settings: list[str] | None, json: bool) -> None:
    import shlex
    from time import perf_counter

    from ..results import conclude_race
    from ..runs.race import ask
    from ..runs.race.run import run

    file, overrides = words(settings)
    wanted, began = ask.load(file, overrides, alone=verb == "tune"), perf_counter()
    command = shlex.join(["perfed", verb, *(settings or [])])
    with attended(None, verb) as job:
        folder = run(wanted, job.on_round, command, job.begun, note, job.expect)
    _show(conclude_race(folder, perf_counter() - began), json)


def resumed(path: Path, json: bool) -> None:
    """Go on with a race."""
    from time import perf_counter

    from ..results import conclude_race
    from ..runs.race.run import resume

    began = perf_counter()
    with attended(None, "race") as job:
        job.folder = path
        folder = resume(path, job.on_round, None, note, job.expect)
    _show(conclude_race(folder, perf_counter() - began), json)


def _show(found: dict[str, Any], json: bool) -> None:
    def show() -> None:
        table(found["columns"], found["rows"])
        note(f"\n{found['recommendation']}", out=True)
        if found["choice"]:
            note(found["choice"], out=True)
        mean = sum(found["steps"].values()) / len(found["steps"])
        note(f"{mean:,.0f} client-steps a method, equal to {100 * found['unequal']:.1f} %; {found['seconds']:.1f} s", out=True)
        note(f"folder: {found['race']}\npage: {found['report']}\ntrain the winner: {found['train']}", out=True)

    emit({k: v for k, v in found.items() if k not in ("columns", "rows", "choice")}, json, show)
