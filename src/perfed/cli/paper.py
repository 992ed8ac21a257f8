"""perfed paper: list the papers' tables and figures, run them, show them."""

import shutil
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from .attend import attended
from .output import emit, note, table

Json = Annotated[bool, typer.Option("--json", help="Machine-readable result on standard output.")]


def paper(
    name: Annotated[str | None, typer.Argument(help="A table or figure, such as fedcp/table2; without one: the list.")] = None,
    settings: Annotated[
        list[str] | None, typer.Argument(metavar="[key=value]...", help="Settings laid over every cell's, such as data.size=64.")
    ] = None,
    only: Annotated[str, typer.Option(help="Rows and columns: methods, data sets, problems, headings, joined by commas.")] = "",
    rounds: Annotated[int | None, typer.Option(help="Fewer rounds than in the paper.")] = None,
    fraction: Annotated[float | None, typer.Option(help="A part of the data, of every class alike, such as 0.1.")] = None,
    seeds: Annotated[str, typer.Option(help="Seeds, such as 0 or 0,1,2; default: as many as in the paper.")] = "",
    out: Annotated[Path, typer.Option(help="The folder of all papers' runs, tables and pages.")] = Path("runs/papers"),
    stand_in: Annotated[bool, typer.Option("--stand-in", help="Take data that is here where the paper's is not.")] = False,
    until_flat: Annotated[
        bool, typer.Option("--until-flat", help="A seed stops when its curve has not risen beyond noise for --patience rounds.")
    ] = False,
    patience: Annotated[
        int | None, typer.Option(help="With --until-flat: rounds of a block whose mean must be above earlier ones; default 50.")
    ] = None,
    at_most: Annotated[int | None, typer.Option(help="With --until-flat: rounds after which a seed stops in any case.")] = None,
    show: Annotated[bool, typer.Option("--show", help="Run nothing; show what is there beside the published numbers.")] = False,
    keep: Annotated[
        Path | None, typer.Option(help="Copy the table's runs here without their states; `--show --out` shows them again.")
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Run nothing; say what would be run, its time and its disk.")] = False,
    prepare: Annotated[bool, typer.Option("--prepare", help="Only make the cells' folders, which `perfed cell` trains.")] = False,
    workers: Annotated[int | None, typer.Option(help="Cells at once; default: one per core.")] = None,
    json: Json = False,
) -> None:
    """List the experiments of the five papers, or run one (or a part of it, or a smaller version) and show it.

    A cell that was run before, for this or another table, is not run again; an interrupted one goes on.
    """
    if name is None:
        _list(json)
        return
    from ..papers import load
    from ..papers.plan import Asked, plans
    from ..papers.run import Work

    recipe = load(name)
    words = tuple(word.strip() for word in only.split(",") if word.strip())
    asked = Asked(words, rounds, fraction, _numbers(seeds), tuple(settings or ()), stand_in)
    flat = _patience(until_flat, patience, at_most)
    work = Work(recipe, plans(recipe, asked), out, _command(), workers, flat, at_most)
    if plan:
        _plan(work, json)
        return
    if prepare:
        _prepare(work)
        return
    if not show:
        _run(work)
    _show(work, narrowed=bool(words) or not show, json=json)
    if keep is not None:
        _keep(work, keep)


def _patience(until_flat: bool, patience: int | None, at_most: int | None) -> int | None:
    """Return for how many rounds a curve must be flat; what only makes sense with --until-flat is refused without it."""
    from ..errors import InputError
    from ..papers.flat import PATIENCE

    if until_flat:
        return patience or PATIENCE
    for option, given in (("--patience", patience), ("--at-most", at_most)):
        if given is not None:
            raise InputError(f"{option} goes with --until-flat; --rounds N makes an experiment of N rounds")
    return None


def _run(work: Any) -> None:
    from ..papers.analyse import analyse
    from ..papers.plan import runnable
    from ..papers.run import run

    runnable(work.plans)
    for reason in dict.fromkeys(cell.missing for cell in work.plans if cell.missing):
        note(f"left out: {reason}")
    for said in work.stops():
        note(said)
    note(f"folder: {work.folder}")
    with attended(work.rounds, work.recipe.name, "the same command goes on") as job:
        run(work, job.on_round, None if sys.stderr.isatty() else note)
    for said in analyse(work):
        note(said)


def _prepare(work: Any) -> None:
    from ..errors import InputError
    from ..papers.plan import runnable
    from ..papers.run import prepare

    if work.patience is not None:
        raise InputError("--until-flat is this command's own rule, which `perfed cell` does not know; leave it out of --prepare")
    runnable(work.plans)
    prepare(work, note)


def _keep(work: Any, folder: Path) -> None:
    from ..papers.keep import keep
    from ..units import weighed

    kept = keep(work, folder)
    size = sum(file.stat().st_size for run in kept for file in run.rglob("*") if file.is_file())
    note(f"{len(kept)} runs kept in {folder}, {weighed(size)}; perfed paper {work.recipe.name} --show --out {folder} shows them")


def _show(work: Any, *, narrowed: bool, json: bool) -> None:
    from ..errors import RunError
    from ..papers import show
    from ..papers.agree import agreement, sentence
    from ..papers.origin import origin

    found = show.answers(work.recipe, work.folder, work.plans if narrowed else None)
    if not found:
        raise RunError(f"nothing of {work.recipe.name} has been run in '{work.out}' yet; leave --show out to run it")
    everything = show.answers(work.recipe, work.folder)
    written = show.write(work.recipe, everything, work.folder, work.command)
    result = {
        "recipe": work.recipe.name,
        "title": work.recipe.title,
        "cells": show.records(work.recipe, found),
        "agreement": agreement(found),
        "reduced": show.reductions(found),
        "origin": origin(found),
        "files": written,
        "refused": work.refused,
    }

    def text() -> None:
        note(f"{work.recipe.name}: {work.recipe.title}\n", out=True)
        table(*show.lines(found))
        for entry in agreement(found):
            note(f"\n{entry['column']}: {sentence(entry)}", out=True)
        said = show.reductions(found)
        if said:
            note("\nwhat differs from the paper's experiment:", out=True)
            for line in said:
                note(f"  {line}", out=True)
        note("\n" + "\n".join(result["origin"]), out=True)
        note(f"\n{', '.join(sorted(written))} in {work.folder}", out=True)

    emit(result, json, text)


def _plan(work: Any, json: bool) -> None:
    from ..papers.estimate import room, seconds
    from ..units import spoken, weighed

    rows = []
    for key, settings in work.unique.items():
        left = work.left(key, settings)
        rounds = min(settings.rounds, work.most or settings.rounds)
        time, disk = seconds(settings) * rounds / settings.rounds * len(left), room(settings) * len(left)
        rows.append({"run": key, "seeds left": left, "rounds": rounds, "seconds": time, "bytes": disk})
    missing = list(dict.fromkeys(cell.missing for cell in work.plans if cell.missing))
    total, disk = sum(row["seconds"] for row in rows), sum(row["bytes"] for row in rows)
    free = shutil.disk_usage(next(f for f in (work.out, *work.out.resolve().parents) if f.exists())).free

    def text() -> None:
        table(
            ["run", "rounds", "seeds left", "time", "disk"],
            [
                [r["run"], r["rounds"], ",".join(map(str, r["seeds left"])) or "–", spoken(r["seconds"]), weighed(r["bytes"])]
                for r in rows
            ],
        )
        note(f"\n{len(rows)} different experiments, about {spoken(total)} on one core, {weighed(disk)} on disk", out=True)
        if disk > free:
            note(f"only {weighed(free)} are free below {work.out}; --out names another folder", out=True)
        for reason in missing:
            note(f"left out: {reason}", out=True)

    emit({"runs": rows, "seconds": total, "bytes": disk, "missing": missing}, json, text)


def _list(json: bool) -> None:
    from ..papers.estimate import overview
    from ..units import spoken

    rows = overview()

    def text() -> None:
        table(
            ["name", "title", "data", "cells", "time here"],
            [
                [
                    row["name"],
                    row["title"],
                    ", ".join(data if there else f"{data} (not here)" for data, there in row["data"].items()),
                    row["cells"],
                    spoken(row["seconds"]),
                ]
                for row in rows
            ],
        )
        note(
            "\ntime: all cells and seeds in full on all cores of this machine, from a timed step; --rounds, --fraction, "
            "--seeds and --only make it less",
            out=True,
        )

    emit(rows, json, text)


def _numbers(text: str) -> tuple[int, ...] | None:
    if not text.strip():
        return None
    from ..errors import InputError

    try:
        return tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError as wrong:
        raise InputError(f"--seeds must be whole numbers such as 0,1,2, got '{text}'") from wrong


def _command() -> str:
    import shlex

    return shlex.join(["perfed", *sys.argv[1:]])
