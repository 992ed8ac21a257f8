"""perfed export: clients' models as files, each with a model card beside it."""

from pathlib import Path
from typing import Annotated

import typer

from .models import At, Job, Seed, of_folder
from .output import each, emit, note, table


def export(
    folder: Annotated[Path, typer.Argument(help="A run's folder, or a silo's (with silo.yaml).")],
    client: Annotated[
        list[str] | None, typer.Option(help="A client's number, from 0, or name; may be repeated. Default: every client.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="A file, for one client, or a folder. Default: models/ in the run's folder.")
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="safetensors (for perfed), onnx (runs without perfed), or pt2. Default: the file's, else safetensors.",
        ),
    ] = None,
    seed: Seed = None,
    at: At = None,
    experiment: Job = None,
    json: Annotated[bool, typer.Option("--json", help="Machine-readable result on standard output.")] = False,
) -> None:
    """Write each client's own model to a file that holds nobody's samples, with a model card in Markdown beside it.

    `perfed predict` and `perfed serve` use it; an .onnx file runs without perfed. It is read back and compared with the model,
    and says itself what it takes, how inputs are prepared, its classes, its method and its round.
    """
    from ..errors import InputError, suggest
    from ..serving.export import UNPICKLES, WAYS, export
    from ..units import weighed

    if kind is not None and f".{kind}" not in WAYS:
        raise suggest("format", kind, [way[1:] for way in WAYS])
    chosen, find = of_folder(folder, client, seed, at, experiment)
    single = out is not None and out.suffix != "" and not out.is_dir()
    if single and len(chosen) > 1:
        raise InputError(f"'{out}' is one file, but there are {len(chosen)} clients; choose one by --client, or name a folder")
    if single and out is not None and kind is not None and out.suffix != f".{kind}":
        raise InputError(f"'{out}' ends in {out.suffix}, and --format says {kind}; leave --format out")
    place, ending = out or folder / "models", kind or "safetensors"
    rows = []
    for number in each(chosen, "export"):
        model, classes, about, samples = find(number)
        path = place if single else place / f"{model.name.replace(' ', '-').replace('/', '-')}.{ending}"
        rows.append(export(model, path, classes, about, samples))

    def show() -> None:
        table(
            ["client", "right", "of its samples", "size", "file"],
            [[row["client"], _of(row["right"]), row["checked"], weighed(row["bytes"]), row["file"]] for row in rows],
        )
        said = f"{rows[0]['method']} after round {rows[0]['round']}"
        note(f"{said}; every file was read back and scores as the model does; its card is beside it, in Markdown", out=True)

    if rows[0]["file"].endswith(".pt2"):
        note(UNPICKLES)
    emit(rows, json, show)


def _of(right: int | None) -> str:
    """Return how many answers are right; where no classes are learned there are none to count."""
    return "–" if right is None else str(right)
