"""Who gains by taking part and who loses: every client's accuracy in one run less that in another."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..evaluate.summary import Moment
from .names import shorten
from .read import Record, labels


class Gain(NamedTuple):
    """What every client of a run has more than in another, as fractions; clients without test samples are left out."""

    name: str
    clients: list[str]
    gain: NDArray[np.float64]


def compared(runs: Sequence[Record], over: str = "local", moment: Moment = "last") -> list[Gain]:
    """Return every run's gains over the run of method ``over``, client by client of the seeds both have."""
    reference = next((run for run in runs if run.method == over), None)
    if reference is None:
        return []
    base = reference.accuracies(moment)
    found = []
    for run, name in zip(runs, labels(runs), strict=True):
        own = run.accuracies(moment)
        shared = [seed for seed in own if seed in base and own[seed].shape == base[seed].shape]
        if run is reference or not shared:
            continue
        names = [shorten(run.clients[seed]["names"])[1] for seed in shared]
        differences = [own[seed] - base[seed] for seed in shared]
        if same_clients(run):
            clients, gain = names[0], np.mean(differences, axis=0)
        else:
            clients = [f"{client}/{seed}" for seed, part in zip(shared, names, strict=True) for client in part]
            gain = np.concatenate(differences)
        seen = ~np.isnan(gain)
        found.append(Gain(name, [client for client, here in zip(clients, seen, strict=True) if here], gain[seen]))
    return found


def same_clients(run: Record) -> bool:
    """Whether client i holds the same labels in every seed, so that averaging it over seeds means something."""
    found = [(clients.get("names"), clients.get("labels")) for clients in run.clients.values()]
    return all(entry == found[0] for entry in found)
