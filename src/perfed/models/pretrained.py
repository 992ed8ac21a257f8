"""Pretrained bodies: weights out of a file, layers that are frozen and never sent, and adapters beside them."""

from collections import OrderedDict
from collections.abc import Sequence
from inspect import signature
from pathlib import Path
from typing import Literal

import torch
from torch import nn

from ..errors import DataError, InputError
from .adapters import adapt
from .network import Network
from .weights import hashed, load


def prepared(
    network: nn.Module,
    name: str = "the network",
    *,
    weights: str | Path | None = None,
    sha256: str | None = None,
    frozen: Literal["none", "body"] = "none",
    rank: int = 0,
    alpha: float | None = None,
    adapters: str | Sequence[str] = (),
    projector: int | None = None,
) -> nn.Module:
    """Return a network of body and head with a pretrained, frozen or adapted body; the head is trained in any case.

    Frozen layers take part in no method: nothing of them is sent, kept for a client or written to a checkpoint.

    Args:
        network: Has children ``body`` and ``head``; is changed in place.
        name: What it is called in errors.
        weights: A safetensors file or a state dict to start from.
        sha256: That of the file; another one is refused.
        frozen: ``body`` for one that is not trained.
        rank: Of low-rank adapters beside the layers of a frozen body; 0 for none, which trains the head alone.
        alpha: What adapters are scaled by is alpha / rank; by default alpha is the rank.
        adapters: Words in the names of the layers that have one; by default all linear, attention and 1×1 convolution layers.
        projector: The hidden width of two layers at the end of the body, as DualFed's baselines have them; they are trained.
    """
    only = tuple(part.strip() for part in adapters.split(",")) if isinstance(adapters, str) else tuple(adapters)
    if frozen not in ("none", "body"):
        raise InputError(f"model.frozen is none or body, got '{frozen}'")
    if isinstance(rank, bool) or not isinstance(rank, int) or rank < 0:
        raise InputError(f"model.rank is a whole number from 0, such as 8, got {rank!r}")
    if frozen == "none" and rank:
        raise InputError("adapters stand beside a frozen body: model.rank needs model.frozen=body")
    for given, option in ((alpha is not None, "alpha"), (bool(only), "adapters")):
        if given and not rank:
            raise InputError(f"model.{option} is about adapters, of which there are none: it needs model.rank, such as 8")
    if sha256 is not None and weights is None:
        raise InputError("model.sha256 is that of a file of weights: it needs model.weights")
    if weights is not None:
        _checked(Path(weights).expanduser(), sha256)
        load(network, Path(weights).expanduser(), name)
    if frozen == "body":
        network.get_submodule("body").requires_grad_(False)
    if rank:
        with torch.random.fork_rng(devices=[]):  # the head that is drawn is the same with any rank
            adapt(network.get_submodule("body"), rank, (rank if alpha is None else alpha) / rank, only)
    return network if projector is None else _projected(network, projector)


def _projected(network: nn.Module, hidden: int) -> nn.Module:
    if isinstance(hidden, bool) or not isinstance(hidden, int) or hidden < 1:
        raise InputError(f"projector must be a hidden width of at least 1, such as 256, got {hidden!r}")
    head = network.get_submodule("head")
    if not isinstance(head, nn.Linear):
        raise InputError("projector stands before a linear head, and this network's head is a stack of layers")
    width = head.in_features
    layers = [nn.Linear(width, hidden), nn.ReLU(), nn.BatchNorm1d(hidden), nn.Linear(hidden, width)]
    projected = nn.Sequential(*layers, nn.BatchNorm1d(width))
    body = nn.Sequential(OrderedDict(encoder=network.get_submodule("body"), projector=projected))
    return Network(body, head)


def _checked(path: Path, sha256: str | None) -> None:
    if sha256 is not None and path.is_file() and hashed(path) != sha256:
        raise DataError(f"'{path}' is not the file of weights that the run was begun with: its SHA-256 is another")


OPTIONS = tuple(option for option in signature(prepared).parameters if option not in ("network", "name"))
