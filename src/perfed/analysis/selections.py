"""Analyses of the features that clients select: how many, how well they tell classes apart, what domains have in common."""

import torch
from torch import Tensor

from ..report import studies
from . import features as feature
from .result import Options, Result, percent, plain
from .subject import State, Subject


@torch.no_grad()
def picked(state: State, client: int, x: Tensor) -> Tensor:
    """Return which features a client selects, sample by sample, as it serves."""
    return state.site.method.selected(state.site.task.served, *state.held(client), x)


def selection(subject: Subject, options: Options) -> Result:
    """Say which share of the features FedPick selects in every domain."""
    subject.needs("selected", "a selection of features")
    state, ids = subject.last, subject.chosen(options.client)
    found = {subject.names[c]: feature.selection_ratio(_mask(state, c, options)) for c in ids}
    rows = [[name, percent(value)] for name, value in found.items()]
    figure = studies.bars({"selected": [100 * v for v in found.values()]}, list(found), "features selected (%)")
    return Result(dict(found), [], ["client", "selected %"], rows, figure)


def _mask(state: State, client: int, options: Options) -> Tensor:
    return picked(state, client, state.samples(client, limit=options.samples)[0])


def fisher(subject: Subject, options: Options) -> Result:
    """Compare the Fisher scores of selected and rejected features."""
    subject.needs("selected", "a selection of features")
    state, ids = subject.last, subject.chosen(options.client)
    found = {}
    for client in ids:
        x, y = state.samples(client, limit=options.samples)
        found[subject.names[client]] = feature.contrast(state.seen(client, x), picked(state, client, x), y)
    rows = [[name, f"{own.selected:.4f}", f"{own.rejected:.4f}"] for name, own in found.items()]
    higher = sum(own.selected > own.rejected for own in found.values())
    says = [f"selected features score higher in {higher} of {len(found)} domains"]
    groups: dict[str, list[float | None]] = {
        "selected": [own.selected for own in found.values()],
        "rejected": [own.rejected for own in found.values()],
    }
    figure = studies.bars(groups, list(found), "mean Fisher score")
    return Result(plain(found), says, ["client", "selected", "rejected"], rows, figure)


def feature_overlap(subject: Subject, options: Options) -> Result:
    """Compare which features two domains select most often."""
    subject.needs("selected", "a selection of features")
    ids = subject.chosen(None)
    found = feature.overlaps([_mask(subject.last, c, options) for c in ids])
    figure = studies.matrices({"features selected most often": found.matrix}, subject.names, "share in common (Jaccard)")
    return Result(plain(found), [f"mean over pairs of domains {found.mean:.3f}; chance would give 0.333"], figure=figure)
