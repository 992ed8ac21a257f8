"""perfed export: clients' models as files that run without perfed."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .output import each, emit, note, table

if TYPE_CHECKING:
    from torch import Tensor

    from ..serving.personal import PersonalModel


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
    from ..serving.export import WAYS, export
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
        model, classes, about, samples = made(number)
        path = place if single else place / f"{model.name.replace(' ', '-').replace('/', '-')}.{kind}"
        rows.append(export(model, path, classes, about, samples))

    def show() -> None:
        table(
            ["client", "right", "of its samples", "size", "file"],
            [[row["client"], row["right"], row["checked"], weighed(row["bytes"]), row["file"]] for row in rows],
        )
        said = f"{rows[0]['method']} after round {rows[0]['round']}"
        note(f"{said}; every file was read back and scores as the model does", out=True)

    emit(rows, json, show)


Made = Callable[[int], tuple["PersonalModel", list[str], dict[str, Any], "tuple[Tensor, Tensor]"]]


def _run(folder: Path, asked: list[str] | None, seed: int | None, at: int | None) -> tuple[list[int], Made]:
    """Return the clients that are asked for, and how to get a model of a run."""
    from .. import api
    from ..errors import InputError
    from ..results import Race, Run

    opened = api.open(folder)
    if isinstance(opened, Race):  # what a race is for: its winner's models
        opened = opened.run
    if not isinstance(opened, Run):
        raise InputError(f"'{folder}' is a comparison; export one of its runs: {', '.join(opened.runs)}")
    trained = opened.trained(seed, at)
    federation = trained.site.federation
    chosen = [trained.place(int(one) if one.isdigit() and one not in federation.names else one) for one in asked or ()]
    place = opened.folder.seed(federation.seed) if opened.folder else None
    assert place is not None
    about: dict[str, Any] = {"run": folder.name, "seed": federation.seed}
    if (vocabulary := place.vocabulary()) is not None:
        about["vocabulary"] = vocabulary.words
    classes = place.clients["classes"]
    return chosen or list(range(len(federation))), lambda i: (trained.model(i), classes, about, federation.some(i))


def _silo(folder: Path, experiment: str | None) -> tuple[list[int], Made]:
    """Return how to get the model that a silo of a deployment serves."""
    from ..silos.config import SiloConfig
    from ..silos.silo import Silo

    model, job, ask = Silo(SiloConfig.load(folder / "silo.yaml")).model(experiment)
    about = {"run": ask.experiment, "seed": ask.seed} | ({"vocabulary": job.words} if job.words else {})
    return [0], lambda _: (model, job.facts["classes"], about, job.site.federation.some(0))
