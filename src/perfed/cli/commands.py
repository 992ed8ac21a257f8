"""run, compare, resume, methods and doctor."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core

from .analyze import analyze
from .attend import attended
from .audit import audit
from .cells import cell, cells
from .data import app as data_app
from .deploy import app as deploy_app
from .deploy import silo_app
from .export import export
from .join import join
from .output import emit, note, table, words
from .paper import paper
from .predict import predict
from .race import race, resumed, tune
from .report import report
from .runs import app as runs_app
from .serve import serve
from .settings import complete, settings
from .track import track
from .watch import watch

typer.core.HAS_RICH = False  # it would write \\[required] into plain help, and make help wait for rich
app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Personalised federated learning: every client ends up with a model of its own.\n\n"
    "Settings are a YAML file and key=value pairs, for example:\n\n"
    "  perfed run method=fedcp method.align=5 partition=dirichlet partition.alpha=0.1 clients=20 rounds=100 seeds=0,1,2",
)
app.add_typer(data_app, name="data", help="List data sets, fetch them, share them among clients, look at a split.")
app.add_typer(silo_app, name="silo", help="At a site: check the silo before it takes part.")
app.add_typer(deploy_app, name="deploy", help="Run on real silos: certificates, link, nodes, on Flower.")

app.add_typer(runs_app, name="runs", help="List what was run; show, compare and delete it.")

Words = Annotated[
    list[str] | None,
    typer.Argument(metavar="[FILE.yaml] [key=value]...", help="Settings: a YAML file, then overrides.", autocompletion=complete),
]
Json = Annotated[bool, typer.Option("--json", help="Machine-readable result on standard output.")]
Prepare = Annotated[
    bool, typer.Option("--prepare", help="Only make the folder, whose cells `perfed cell` trains; see `perfed cells`.")
]


def _version(asked: bool) -> None:
    if asked:
        from .. import __version__

        note(f"perfed {__version__}", out=True)
        raise typer.Exit


@app.callback()
def start(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and end.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Hold what every command has in common."""


@app.command()
def run(settings: Words = None, prepare: Prepare = False, json: Json = False) -> None:
    """Train one method over its seeds and keep the record in a folder.

    Common settings: method, method.*, model, data, partition, partition.*, clients, rounds, seeds, budget.lr|epochs|
    batch_size|momentum|weight_decay, sampling.ratio, transport, workers, device, devices, out.
    """
    from ..runs import parse
    from ..runs.run import run as train

    file, overrides = words(settings)
    asked = parse.load(file, overrides)
    with attended(len(asked.seeds) * (asked.rounds + 1), asked.method.name) as job:
        done = train(asked, job.on_round, _command("run", settings), job.begun, prepare)
    if prepare:
        _show_prepared(done.path, json)
        return
    _show(done.summary, json)


@app.command()
def resume(
    run: Annotated[Path, typer.Argument(help="A run's, a comparison's or a race's folder.")],
    rounds: Annotated[int | None, typer.Option(help="Go on to so many rounds in all, more than were asked for.")] = None,
    engine: Annotated[str | None, typer.Option(help="Who trains what is left: processes or ray; default: as it began.")] = None,
    json: Json = False,
) -> None:
    """Finish an interrupted run, comparison or race, bit for bit as if it had never stopped, or give a run more rounds."""
    from time import perf_counter

    from ..errors import InputError
    from ..results import conclude
    from ..runs import compare as comparing
    from ..runs.experiment import Experiment
    from ..runs.folder import CompareFolder
    from ..runs.race.folder import RaceFolder
    from ..runs.run import left, opened
    from ..runs.run import resume as train

    other = None if engine is None else Experiment(engine=engine).engine
    if RaceFolder.there(run):
        if rounds is not None:
            raise InputError("a race has the rounds that its plan gives it; race anew with more")
        if other is not None:
            raise InputError("a race goes on with the engine that its plan names; leave --engine out")
        resumed(run, json)
        return
    if CompareFolder.there(run):
        began = perf_counter()
        with attended(sum(left(found, rounds) for found in CompareFolder(run).runs), "compare") as job:
            job.folder = run
            folder = comparing.resume(run, job.on_round, rounds, other)
        _show_comparison(conclude(folder, perf_counter() - began), json)
        return
    found = opened(run)
    with attended(left(found, rounds), found.experiment.method.name) as job:
        job.folder = run
        train(found, job.on_round, rounds, None, other)
    _show(found.summary, json)


@app.command()
def compare(settings: Words = None, prepare: Prepare = False, json: Json = False) -> None:
    """Compare methods on the same splits, seeds and budgets: methods=fedavg,fedper,fedcp and settings as for run.

    fedcp.align=1 sets a field of one method; methods=fedcp,fedcp:align=0 compares a method with its variant.
    """
    from time import perf_counter

    from ..results import conclude
    from ..runs import compare as comparing

    file, overrides = words(settings)
    asked, began = comparing.load(file, overrides), perf_counter()
    with attended(asked.total, "compare") as job:
        folder = comparing.run(asked, job.on_round, _command("compare", settings), job.begun, prepare)
    if prepare:
        _show_prepared(folder.path, json)
        return
    _show_comparison(conclude(folder, perf_counter() - began), json)


@app.command()
def methods(
    name: Annotated[str | None, typer.Argument(help="One method, in full.")] = None,
    model: Annotated[str | None, typer.Option(help="The network to count bytes for; default: the data's usual one.")] = None,
    data: Annotated[str, typer.Option(help="The data set to count bytes for.")] = "digits",
    json: Json = False,
) -> None:
    """List the methods, or show one: paper, fields, what goes down, up and stays private."""
    from ..listing import everything

    if name is None:
        rows = [row if "up" in row else row | _crossing(row["name"]) for row in everything()]
        emit(
            rows,
            json,
            lambda: table(
                ["name", "paper", "down", "up", "private"],
                [[r["name"], r["paper"], *(", ".join(r[k]) or "–" for k in ("down", "up", "private"))] for r in rows],
            ),
        )
        return
    from ..runs.describe import describe

    found = describe(name, model, data)
    emit(found, json, lambda: _describe(found))


@app.command()
def doctor(json: Json = False) -> None:
    """Say what this machine and installation can do, and what is missing."""
    from ..machine import checkup

    found = checkup()
    emit(
        found,
        json,
        lambda: table(["what", "state", "note"], [[c["what"], c["state"], c["note"]] for c in found["checks"]]),
    )
    if not found["ok"]:
        raise typer.Exit(1)


app.command()(cells)
app.command()(cell)
app.command()(race)
app.command()(tune)
app.command()(report)
app.command()(watch)
app.command()(track)
app.command()(paper)
app.command()(analyze)
app.command()(audit)
app.command()(export)
app.command()(predict)
app.command()(serve)
app.command()(join)
app.command()(settings)


def _crossing(name: str) -> dict[str, Any]:
    from ..runs.describe import crossing

    return dict(crossing(name))


def _describe(found: dict[str, Any]) -> None:
    note(f"{found['name']}: {found['paper']}\n{found['idea']}\n", out=True)
    table(["field", "default", "meaning"], [[f["name"], f["default"], f["meaning"]] for f in found["fields"]])
    rows = [
        [way, leaf["name"], leaf["shape"], f"{leaf['bytes']:,}"]
        for way in ("down", "up", "private")
        for leaf in found["leaves"][way]
    ]
    note(f"\nper client, for model {found['model']} on {found['data']}:", out=True)
    table(["way", "leaf", "shape", "bytes"], rows)


def _show(summary: dict[str, Any], json: bool) -> None:
    from ..report import tables
    from ..report.read import gather

    def show() -> None:
        table(*tables.short(tables.comparison(gather([summary["run"]]))))
        _warn({summary["method"]: summary})
        note(f"{summary['seconds']:.1f} s, {summary['transport']}; run: {summary['run']}", out=True)

    emit(summary, json, show)


def _show_comparison(found: dict[str, Any], json: bool) -> None:
    def show() -> None:
        table(found["columns"], found["rows"])
        _warn(found["runs"])
        note(f"{found['seconds']:.1f} s\nfolder: {found['run']}\npage: {found['report']}", out=True)

    emit({k: v for k, v in found.items() if k not in ("columns", "rows")}, json, show)


def _show_prepared(folder: Path, json: bool) -> None:
    from ..runs.array import cells as named

    found = [own.name for own in named(folder)]
    told = f"{len(found)} cells; `perfed cell {folder} {found[0]}` trains one, `perfed resume {folder}` all that are left"
    emit({"run": str(folder), "cells": found}, json, lambda: note(told, out=True))


def _warn(summaries: Mapping[str, dict[str, Any]]) -> None:
    from ..report.guarded import noised
    from ..report.names import title
    from ..report.refused import ran_away, sentence
    from ..report.tables import still_rising

    names = {name: title(s["method"]) + (f" [{name}]" if name != s["method"] else "") for name, s in summaries.items()}
    for name, summary in summaries.items():
        if summary.get("privacy"):
            note(noised(names[name], summary["privacy"]), out=True)
        if summary.get("runaway"):
            note(ran_away(names[name], summary["runaway"]), out=True)
        for text in sentence(names[name], summary.get("refused", {})):
            note(text, out=True)
    rises = {names[name]: summary["rising"]["rise"] for name, summary in summaries.items() if summary.get("rising")}
    if rises:
        note(still_rising(rises), out=True)
    kinds = list(dict.fromkeys(kind for summary in summaries.values() for kind in summary.get("machines", ())))
    if kinds:
        note(f"Rounds were run on {len(kinds)} kinds of machines ({'; '.join(kinds)}): bits may differ between them.", out=True)


def _command(verb: str, settings: list[str] | None) -> str:
    import shlex

    return shlex.join(["perfed", verb, *(settings or [])])
