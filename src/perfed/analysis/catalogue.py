"""Every analysis by name: what it needs, and the function that does it on a run's folder."""

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import InputError, suggest
from .result import Options, Result


class Study(NamedTuple):
    """An analysis: what it shows, where it is written down, and what a run must have recorded."""

    shows: str
    where: str  # module and function
    needs: str = ""
    classes: bool = False  # whether it tells classes apart, so that there is nothing to show for other tasks


CATALOGUE: dict[str, Study] = {
    "angle": Study("angle between clients' updates over rounds", "exchanged:angles_over_rounds", "snapshots=N"),
    "attack": Study("pictures recovered from an upload, with a positive control", "privacy:attack", "pictures", classes=True),
    "cka": Study("linear CKA between clients' representations", "representations:similarity", "snapshots=N for a course"),
    "classifiers": Study(
        "accuracy of each classifier alone and together", "heads:classifiers", "DualFed, FedPick or FedCP", classes=True
    ),
    "collaborators": Study("collaborators of FedCAC's clients per round", "exchanged:collaborators", "FedCAC, snapshots=N"),
    "communication": Study("MiB until a target accuracy", "recorded:bytes_to_target", "--target"),
    "convergence": Study(
        "accuracy and loss before and after local training", "recorded:before_and_after", "after=true for a course"
    ),
    "curves": Study("accuracy over rounds", "recorded:learning_curves"),
    "distribution": Study("samples per client and class", "recorded:label_bubbles"),
    "fairness": Study("spread of accuracy over clients", "recorded:spread"),
    "feature_overlap": Study("overlap of important features between domains", "selections:feature_overlap", "FedPick"),
    "fisher": Study("Fisher scores of selected and rejected features", "selections:fisher", "FedPick"),
    "gradcam": Study("where the global and the personal head look", "heads:looks", "pictures", classes=True),
    "masks": Study("critical parameters per layer", "exchanged:critical_masks", "FedCAC"),
    "overlap": Study("overlap of masks beside similarity of labels", "exchanged:mask_overlap", "FedCAC"),
    "pir": Study("personalisation identification ratio over rounds", "heads:identification", "FedCP, snapshots=N"),
    "policy": Study("distribution of the personal policy per client", "heads:policies", "FedCP"),
    "probe": Study("nearest neighbours on the best features", "representations:probe", classes=True),
    "selection": Study("share of features selected per domain", "selections:selection", "FedPick"),
    "sensitivity": Study("sensitivity of the last layer's parameters", "exchanged:sensitivities"),
    "separation": Study(
        "class-wise separation of representations", "representations:separation", "snapshots=N for a course", classes=True
    ),
    "sparsity": Study("idle features before and after aggregation", "representations:sparsity", "snapshots=N"),
    "stability": Study("participation, and how much accuracy still moves", "recorded:drawn_participation"),
    "timing": Study("seconds per round", "recorded:seconds"),
    "tsne": Study("t-SNE maps of representations", "representations:tsne", classes=True),
}


def find(name: str) -> Callable[..., Result]:
    """Return the function of an analysis, by its name."""
    if name not in CATALOGUE:
        raise suggest("analysis", name, CATALOGUE)
    module, _, function = CATALOGUE[name].where.partition(":")
    found: Callable[..., Result] = getattr(import_module(f"perfed.analysis.{module}"), function)
    return found


def analyse(path: Path | str, name: str, seed: int | None = None, **options: Any) -> Result:
    """Do the analysis called ``name`` on one seed of the run in ``path``; ``options`` are those of ``Options``."""
    from .subject import Subject

    analysis, subject = find(name), Subject(Path(path), seed)
    if CATALOGUE[name].classes and (goal := subject.site.task.goal) != "classification":
        raise InputError(f"{name} tells classes apart, and this run is for {goal}")
    return analysis(subject, replace(Options(), **options))


def save(found: Result, folder: Path, name: str) -> list[Path]:
    """Write an analysis' values as JSON and its figure as PNG, SVG and PDF."""
    from ..disk import put_json, writing
    from ..report import canvas

    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    put_json(folder / f"{name}.json", finite(found.values | {"says": found.says}))
    files = [folder / f"{name}.json"]
    if found.figure is not None:
        with writing(folder):
            files += [canvas.save(found.figure, folder / f"{name}.{kind}") for kind in ("png", "svg", "pdf")]
    return files


def finite(value: Any) -> Any:
    """Return values without what JSON cannot hold: not-a-number and infinite become null."""
    if isinstance(value, dict):
        return {key: finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [finite(inner) for inner in value]
    if isinstance(value, float) and value - value != 0:
        return None
    return value
