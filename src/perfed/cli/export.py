"""perfed export: clients' models as files that run without perfed."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .output import each, emit, note, table

if TYPE_CHECKING:
    from ..face import PersonalModel


def export(
    folder: Annotated[Path, typer.Argument(help="A run's folder, or a silo's (with silo.yaml).")],
    client: Annotated[
        list[str] | None, typer.Option(help="A client's number, from 0, or name; may be repeated. Default: every client.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="A file, for one client, or a folder. Default: models/ in the run's folder.")
    ] = None,
    kind: Annotated[str, typer.Option("--format", help="pt2 (PyTorch's exported program) or onnx.")] = "pt2",
    seed: Annotated[int | None, typer.Option(help="Which seed of the run; default: its first.")] = None,
    at: Annotated[int | None, typer.Option(help="After which round, where the run kept snapshots; default: the last.")] = None,
    experiment: Annotated[
        str | None, typer.Option(help="At a silo: the beginning of an experiment's name in state/; default: the latest.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Machine-readable result on standard output.")] = False,
) -> None:
    """Write each client's own model to a file that runs without perfed and holds nobody's samples.

    The file takes samples as they are stored and gives one score per class; scaling is part of it. It is read back and compared
    with the model, and says itself what it takes, its classes, its method and its round.
    """
    from ..errors import InputError, suggest
    from ..exported import WAYS, export
    from ..units import weighed

    if f".{kind}" not in WAYS:
        raise suggest("format", kind, [way[1:] for way in WAYS])
    silo = (folder / "silo.yaml").exists()
    if silo and (client or seed is not None or at is not None):
        raise InputError("a silo has its own model after the server's last message; --client, --seed and --at are for runs")
    if experiment is not None and not silo:
        raise InputError("--experiment chooses among a silo's experiments; a run's folder is one")
    chosen, made = _silo(folder, experiment) if silo else _run(folder, client, seed, at)
    single = out is not None and out.suffix != "" and not out.is_dir()
    if single and len(chosen) > 1:
        raise InputError(f"'{out}' is one file, but there are {len(chosen)} clients; choose one by --client, or name a folder")
    place = out or folder / "models"
    rows = []
    for number in each(chosen, "export"):
        model, classes, about = made(number)
        path = place if single else place / f"{model.name.replace(' ', '-').replace('/', '-')}.{kind}"
        rows.append(export(model, path, classes, about))

    def show() -> None:
        table(
            ["client", "right", "of its samples", "size", "file"],
            [[row["client"], row["right"], row["checked"], weighed(row["bytes"]), row["file"]] for row in rows],
        )
        said = f"{rows[0]['method']} after round {rows[0]['round']}"
        note(f"{said}; every file was read back and scores as the model does", out=True)

    emit(rows, json, show)


Made = Callable[[int], tuple["PersonalModel", list[str], dict[str, Any]]]


def _run(folder: Path, asked: list[str] | None, seed: int | None, at: int | None) -> tuple[list[int], Made]:
    """Return the clients that are asked for, and how to get a model of a run."""
    from .. import face
    from ..data.text import Vocabulary
    from ..errors import suggest
    from ..record import get_json

    trained = face.open(folder, seed, at)
    names = list(trained.site.federation.names)
    numbers = [str(i) for i in range(len(names))]
    for one in asked or ():
        if one not in names and one not in numbers:
            raise suggest("client", one, names)
    chosen = [names.index(one) if one in names else int(one) for one in asked or ()] or list(range(len(names)))
    number = trained.site.federation.seed
    own = folder / f"seed-{number}"
    classes = get_json(own / "clients.json")["classes"]
    about: dict[str, Any] = {"run": folder.name, "seed": number}
    if (own / "vocabulary.json").exists():
        about["vocabulary"] = Vocabulary.load(own / "vocabulary.json").words
    return chosen, lambda i: (trained.model(i), classes, about)


def _silo(folder: Path, experiment: str | None) -> tuple[list[int], Made]:
    """Return how to get the model that a silo of a deployment serves."""
    from ..silos.config import SiloConfig
    from ..silos.silo import Silo

    model, job, ask = Silo(SiloConfig.load(folder / "silo.yaml")).model(experiment)
    about = {"run": ask.experiment, "seed": ask.seed} | ({"vocabulary": job.words} if job.words else {})
    return [0], lambda _: (model, job.facts["classes"], about)
