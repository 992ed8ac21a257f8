"""What an experiment leaves open is settled by its data; and who the clients are, in a sentence."""

from ..federation import Federation
from .assemble import Shared
from .experiment import Experiment

MADE = {  # how a partition that does not follow the data's groups made the clients
    "client_dirichlet": "made by Dirichlet {alpha:g}, of {train_size} training samples",
    "client_pathological": "made with {classes_per_client} classes each, of {train_size} training samples",
    "dirichlet": "made by Dirichlet {alpha:g}",
    "iid": "made by sharing the samples evenly",
    "pathological": "made with {classes_per_client} classes each",
}


def introduced(experiment: Experiment, shared: Shared) -> str:
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
        origin = f"{'groups' if how == 'natural' else 'domains'} of the data: {_listed(list(split.names))}"
    each = f"{min(sizes):,} samples each" if min(sizes) == max(sizes) else f"{min(sizes):,} to {max(sizes):,} samples each"
    unused = f"; the {len(samples.groups)} groups in the data are not used" if how in MADE and len(samples.groups) > 1 else ""
    return f"{len(sizes)} clients {origin}, {each}{unused}"


def _listed(names: list[str], most: int = 6) -> str:
    return ", ".join(names if len(names) <= most else [*names[: most - 1], f"… and {len(names) - most + 1} more"])
