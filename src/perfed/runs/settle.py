"""What an experiment leaves open is settled by its data; and who the clients are, in a sentence."""

from pathlib import Path
from typing import TYPE_CHECKING

from .. import models
from ..data import CATALOGUE, Samples
from ..federation import Federation
from ..models.weights import hashed
from .choice import Choice
from .experiment import Experiment
from .unseen import kept_out

if TYPE_CHECKING:
    from .assemble import SharedData

LARGE = 100.0  # labels of regression beyond this size are warned of
MADE = {  # how a partition that does not follow the data's groups made the clients
    "client_dirichlet": "made by Dirichlet {alpha:g}, of {train_size} training samples",
    "client_pathological": "made with {classes_per_client} classes each, of {train_size} training samples",
    "dirichlet": "made by Dirichlet {alpha:g}",
    "iid": "made by sharing the samples evenly",
    "pathological": "made with {classes_per_client} classes each",
}


def settled(experiment: Experiment, samples: Samples) -> Experiment:
    """Return an experiment in which the partition and the network that nobody chose are those that fit the data."""
    changed = {}
    if experiment.partition.open:
        changed["partition"] = Choice(name=partition(experiment.clients, samples))
    if experiment.model.open:
        changed["model"] = Choice(name=network(samples))
    given = experiment.model.options
    if "weights" in given and "sha256" not in given and Path(str(given["weights"])).expanduser().is_file():
        # A frozen body stands in no checkpoint and in no message: its file must be the same for ever and everywhere.
        told = hashed(Path(str(given["weights"])).expanduser())
        changed["model"] = experiment.model.model_copy(update={"options": given | {"sha256": told}})
    return experiment.but(**changed) if changed else experiment


def partition(clients: int | None, samples: Samples) -> str:
    """Return the usual partition of a data set: its own groups as clients, where it has some and so many are asked for."""
    groups = 0 if samples.group is None else len(set(samples.group.tolist()))
    if groups < 2:
        return "dirichlet" if samples.task == "classification" else "iid"
    if samples.test is not None and samples.group is not None and _in_both(samples):
        return "domains" if clients is None or clients % groups == 0 else "dirichlet"
    return "natural" if clients in (None, groups) else "dirichlet"


def _in_both(samples: Samples) -> bool:
    """Return whether every group has samples in the official training part and in the test part."""
    assert samples.group is not None and samples.test is not None
    everyone = set(samples.group.tolist())
    return set(samples.group[samples.test].tolist()) == everyone == set(samples.group[~samples.test].tolist())


def network(samples: Samples) -> str:
    """Return the usual network for a data set."""
    return models.usual(samples.kind, samples.shape)


def introduced(experiment: Experiment, shared: "SharedData") -> str:
    """Return who the clients are: how many, how they came about, how much they have, and what of the data is not used."""
    split, samples = shared.splits[experiment.seeds[0]], shared.samples
    sizes = split.sizes().sum(1).tolist()
    how = str(split.settings.get("partition", ""))
    if isinstance(experiment.data.made, Federation):
        origin = "as they were given"
    elif experiment.split is not None:
        origin = "from the split that was given"
    elif how in MADE:
        origin = MADE[how].format(**split.settings)
    else:
        origin = f", {'groups' if how in ('natural', 'timeline') else 'domains'} of the data: {_listed(list(split.names))}"
    each = f"{min(sizes):,} samples each" if min(sizes) == max(sizes) else f"{min(sizes):,} to {max(sizes):,} samples each"
    unused = f"; the {len(samples.groups)} groups in the data are not used" if how in MADE and len(samples.groups) > 1 else ""
    start = f"{len(sizes)} clients{origin}; {each}" if origin.startswith(",") else f"{len(sizes)} clients {origin}, {each}"
    out = kept_out(experiment, split.names, experiment.seeds[0])
    apart = f"; {len(out)} of them never train and join afterwards: {_listed([split.names[i] for i in out])}" if out else ""
    cut = "; cut in the order of the data: the last are tested" if how == "timeline" else ""
    network = f"; network: {experiment.model.name}"
    return f"{start}{unused}{apart}{cut}{network}{_columns(samples)}{_large(samples)}{_overlap(experiment, how)}"


def _overlap(experiment: Experiment, how: str) -> str:
    """Return a warning, on a line of its own, where a random cut leaves parts of test samples in training."""
    entry = CATALOGUE.get(experiment.data.name)
    if entry is None or not entry.overlap or how == "timeline" or experiment.split is not None:
        return ""
    seen = "so a random cut tests on what training has half seen; partition=timeline tests on what comes later"
    return f"\n{entry.overlap}, {seen}"


def _large(samples: Samples) -> str:
    """Return a warning where the numbers to predict are so large that training is slow or runs away."""
    if samples.task != "regression" or (size := float(samples.y.square().mean().sqrt())) <= LARGE:
        return ""
    return f"; labels are about {size:,.0f} in size: written in a larger unit, such as thousands, they are learned more easily"


def _columns(samples: Samples) -> str:
    """Return of which kinds the columns of a table are, and how its numbers are scaled."""
    if samples.sheet is None:
        return ""
    kinds = [column.kind for column in samples.sheet.columns]
    counted = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
    how = {
        "client": "scaled by each client's own training rows",
        "none": "not scaled",
    }.get(samples.sheet.scale, "scaled by all clients' training rows (data.scale=client|none)")
    return f"; columns: {counted}; numbers {how}"


def _listed(names: list[str], most: int = 6) -> str:
    return ", ".join(names if len(names) <= most else [*names[: most - 1], f"… and {len(names) - most + 1} more"])
