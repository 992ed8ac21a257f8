"""perfed cells and perfed cell: a study's cells by name, for the array jobs of a scheduler."""

from pathlib import Path
from typing import Annotated

import typer

from .attend import attended
from .output import emit, note, table

Folder = Annotated[Path, typer.Argument(help="The folder of a run, a comparison or a paper's cells.")]
Json = Annotated[bool, typer.Option("--json", help="Machine-readable result on standard output.")]


def cells(
    folder: Folder,
    list_: Annotated[bool, typer.Option("--list", help="Only the names, one a line.")] = False,
    left: Annotated[bool, typer.Option("--left", help="Only cells that are not done.")] = False,
    json: Json = False,
) -> None:
    """Show the cells of a study: every seed of every run, and how far it is."""
    from ..runs.array import cells as named

    found = [own.plain() for own in named(folder)]
    found = [own for own in found if not left or own["state"] != "done"]
    if list_ and not json:
        for own in found:
            note(own["name"], out=True)
        return
    rows = [[own["name"], own["state"], f"{own['reached']} of {own['rounds']}"] for own in found]
    emit(found, json, lambda: table(["cell", "state", "rounds"], rows))


def cell(
    folder: Folder,
    name: Annotated[str, typer.Argument(help="The cell, as `perfed cells FOLDER --list` names it.")],
    workers: Annotated[int | None, typer.Option(help="Processes for its clients; default: 1.", min=1)] = None,
    json: Json = False,
) -> None:
    """Train one cell of a study, or what is left of it; call it as often as you like, on any machine that sees the folder."""
    from ..runs.array import cells as named
    from ..runs.array import train_one

    own = next((each for each in named(folder) if each.name == name), None)
    rounds = None if own is None else int(own.run.settings["rounds"]) - (own.run.seed(own.seed).reached or 0)
    with attended(rounds, name, f"`perfed cell {folder} {name}` goes on") as job:
        found = train_one(folder, name, job.on_round, workers)
    final = found.run.seed(found.seed).final or {}
    emit(
        found.plain() | {"digest": final.get("digest")},
        json,
        lambda: note(f"{name}: done, digest {final.get('digest')}", out=True),
    )
