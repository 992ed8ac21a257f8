"""perfed analyze: what the papers look at, from a finished run's folder."""

from pathlib import Path
from typing import Annotated, Any

import typer

from .output import emit, note, table

Json = Annotated[bool, typer.Option("--json", help="Machine-readable result on standard output.")]


def analyze(
    run: Annotated[Path | None, typer.Argument(help="A run's folder; without one: the list of analyses.")] = None,
    what: Annotated[str | None, typer.Argument(help="The analysis, such as fairness, tsne, pir, attack.")] = None,
    client: Annotated[int | None, typer.Option(help="One client instead of all.")] = None,
    seed: Annotated[int | None, typer.Option(help="One of the run's seeds; default: the first.")] = None,
    target: Annotated[float | None, typer.Option(help="communication: the accuracy to reach, as a fraction.")] = None,
    reference: Annotated[Path | None, typer.Option(help="Another run to compare with.")] = None,
    samples: Annotated[int, typer.Option(help="Samples of every client to look at, at most.")] = 200,
    scope: Annotated[
        str | None, typer.Option(help="attack: model, extractor, known, upload, pseudo_extractor, pseudo_model.")
    ] = None,
    images: Annotated[int, typer.Option(help="attack: pictures in an attacked batch.")] = 1,
    batches: Annotated[int, typer.Option(help="attack: how many batches, one after another.")] = 1,
    attack: Annotated[
        str, typer.Option(help="attack: direction (copes with ReLU), signs (and with pooling) or dlg (smooth networks).")
    ] = "direction",
    steps: Annotated[int, typer.Option(help="attack: steps of the search.")] = 2000,
    whole: Annotated[bool, typer.Option("--whole", help="attack: the upload of a whole round, not of one step.")] = False,
    out: Annotated[Path | None, typer.Option(help="Where figure and values go; default: RUN/analysis.")] = None,
    json: Json = False,
) -> None:
    """Do one analysis of the papers on a run: print it, and write its values (JSON) and figure (PNG, SVG, PDF)."""
    from ..analysis.catalogue import CATALOGUE, analyse, finite
    from ..errors import InputError

    if run is None or what is None:
        rows = [{"name": name, "shows": study.shows, "needs": study.needs} for name, study in CATALOGUE.items()]
        if run is not None:
            raise InputError(f"say which analysis of '{run}'; there are {', '.join(CATALOGUE)}")
        emit(rows, json, lambda: table(["name", "shows", "needs"], [list(row.values()) for row in rows]))
        return
    found = analyse(
        run,
        what,
        seed,
        client=client,
        target=target,
        reference=reference,
        samples=samples,
        scope=scope,
        images=images,
        batches=batches,
        attack=attack,
        steps=steps,
        whole=whole,
    )
    files = write(found, out or run / "analysis", what if client is None else f"{what}-client-{client}")
    result = {"analysis": what, "run": str(run), **found.values, "says": found.says, "files": files}
    emit(finite(result), json, lambda: _text(found, files))


def _text(found: Any, files: list[str]) -> None:
    if found.rows:
        table(found.columns, found.rows)
    for line in found.says:
        note(line, out=True)
    note("\n".join(files), out=True)


def write(found: Any, folder: Path, name: str) -> list[str]:
    """Write an analysis' values and figure and return where they are."""
    from ..analysis.catalogue import save

    return [str(path) for path in save(found, folder, name)]
