"""Where commands find models: in a run's folder, at a silo, in an exported file."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from torch import Tensor

    from ..serving.personal import PersonalModel
    from ..serving.predict import Predictor

Found = tuple["PersonalModel", list[str], dict[str, Any], "tuple[Tensor, Tensor]"]
Finder = Callable[[int], Found]  # of a client: its model, the classes, what is said of it, samples of its own

Seed = Annotated[int | None, typer.Option(help="Which seed of the run; default: its first.")]
At = Annotated[int | None, typer.Option(help="After which round, where the run kept snapshots; default: the last.")]
Job = Annotated[str | None, typer.Option(help="At a silo: the beginning of an experiment's name in state/; default: the latest.")]


def at_silo(folder: Path) -> bool:
    """Return whether a folder is a silo's."""
    return (folder / "silo.yaml").exists()


def of_folder(
    folder: Path, clients: list[str] | None, seed: int | None, at: int | None, experiment: str | None
) -> tuple[list[int], Finder]:
    """Return the clients that are asked for, and how to get the model of each."""
    from ..errors import InputError

    if at_silo(folder):
        if clients or seed is not None or at is not None:
            raise InputError("a silo has its own model after the server's last message; --client, --seed and --at are for runs")
        return _silo(folder, experiment)
    if experiment is not None:
        raise InputError("--experiment chooses among a silo's experiments; a run's folder is one")
    return _run(folder, clients, seed, at)


def _run(folder: Path, asked: list[str] | None, seed: int | None, at: int | None) -> tuple[list[int], Finder]:
    from .. import api
    from ..errors import InputError
    from ..results import Race, Run
    from ..results.home import origin

    opened = api.open(folder)
    if isinstance(opened, Race):  # what a race is for: its winner's models
        opened = opened.run
    if not isinstance(opened, Run):
        raise InputError(f"'{folder}' is a comparison; name one of its runs: {', '.join(opened.runs)}")
    trained = opened.trained(seed, at)
    federation = trained.site.federation
    chosen = [trained.place(int(one) if one.isdigit() and one not in federation.names else one) for one in asked or ()]

    def find(client: int) -> Found:
        model = trained.model(client)
        return model, model.facts["classes"], origin(opened, trained, client, model.facts, at), federation.some(client)

    return chosen or list(range(len(federation))), find


def _silo(folder: Path, experiment: str | None) -> tuple[list[int], Finder]:
    from ..silos.config import SiloConfig
    from ..silos.home import silo_origin
    from ..silos.silo import Silo

    config = SiloConfig.load(folder / "silo.yaml")
    model, job, ask = Silo(config).model(experiment)
    return [0], lambda _: (model, job.facts["classes"], silo_origin(config, job, ask, model.facts), job.site.federation.some(0))


def predictor(
    path: Path,
    client: str | None,
    seed: int | None,
    at: int | None,
    experiment: str | None,
    network: str | None,
    method: str | None,
    trust: bool,
) -> "Predictor":
    """Return the model in an exported file, of a silo, or of one client of a run."""
    from ..errors import InputError
    from ..serving.predict import held, load
    from .output import note

    if not path.is_dir():
        if client or seed is not None or at is not None or experiment:
            raise InputError(f"'{path}' is one model; --client, --seed, --at and --experiment choose in a folder")
        if path.suffix == ".pt2" and trust:
            note(f"torch may run code that is in '{path}'")
        return load(path, _own(network, method), trust)
    if network or method:
        raise InputError("--network and --method bring the code that an exported file was made with; a folder has its own")
    if client is None and not at_silo(path):
        raise InputError(f"'{path}' is a run with a model for every client; choose one by --client")
    (chosen, *_), find = of_folder(path, None if client is None else [client], seed, at, experiment)
    model, classes, about, samples = find(chosen)
    return held(model, about | {"classes": classes}, samples, f"{path} ({model.name})")


def _own(network: str | None, method: str | None) -> Any:
    """Return the user's own code, which the command names and no file does."""
    from ..runs import code
    from ..serving.rebuild import OwnCode

    made = maker = None if network is None else code.find(network, "model")
    if callable(maker) and (isinstance(maker, type) or not hasattr(maker, "state_dict")):  # a module itself is callable too
        made = partial(code.called_with, maker, "model")
    return OwnCode(made, None if method is None else code.find(method, "method"))
