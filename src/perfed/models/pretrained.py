"""Pretrained bodies: weights out of a file, layers that are frozen and never sent, and adapters beside them."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from ..errors import DataError, InputError, suggest
from .adapters import adapt
from .network import Network
from .weights import hashed, load


@dataclass(frozen=True, kw_only=True)
class Beginning:
    """How a network begins and what of it is trained: options that every network has."""

    weights: str | Path | None = None  # a safetensors file or a state dict to start from
    sha256: str | None = None  # that of the file of weights; another one is refused
    frozen: Literal["none", "body"] = "none"  # body for one that is neither trained nor sent
    rank: int = 0  # of low-rank adapters beside the layers of a frozen body; 0 for none, which trains the head alone
    alpha: float | None = None  # adapters are scaled by alpha / rank; by default alpha is the rank
    adapters: tuple[str, ...] = ()  # words in the names of layers that have one, or 1%: the last layers, within that share
    projector: int | None = None  # hidden width of two further layers at the end of the body, as DualFed's baselines have them

    def __post_init__(self) -> None:
        """Refuse what does not go together."""
        only: Any = self.adapters
        split = tuple(part.strip() for part in only.split(",")) if isinstance(only, str) else tuple(only)
        object.__setattr__(self, "adapters", split)
        if self.frozen not in ("none", "body"):
            raise InputError(f"model.frozen is none or body, got '{self.frozen}'")
        if isinstance(self.rank, bool) or not isinstance(self.rank, int) or self.rank < 0:
            raise InputError(f"model.rank is a whole number from 0, such as 8, got {self.rank!r}")
        if self.frozen == "none" and self.rank:
            raise InputError("adapters stand beside a frozen body: model.rank needs model.frozen=body")
        for given, option in ((self.alpha is not None, "alpha"), (bool(split), "adapters")):
            if given and not self.rank:
                raise InputError(f"model.{option} is about adapters, of which there are none: it needs model.rank, such as 8")
        for part in (part for part in split if part.endswith("%")):
            if not part[:-1].replace(".", "", 1).isdigit() or not 0 < float(part[:-1]) <= 100 or len(split) - len(self.words) > 1:
                raise InputError(f"model.adapters names layers, or one share of the model that is sent, such as 1%, got '{part}'")
        if self.sha256 is not None and self.weights is None:
            raise InputError("model.sha256 is that of a file of weights: it needs model.weights")
        hidden = self.projector
        if hidden is not None and (isinstance(hidden, bool) or not isinstance(hidden, int) or hidden < 1):
            raise InputError(f"projector must be a hidden width of at least 1, such as 256, got {hidden!r}")

    @property
    def words(self) -> tuple[str, ...]:
        """What the names of layers with an adapter contain."""
        return tuple(part for part in self.adapters if not part.endswith("%"))

    def most(self, network: nn.Module) -> int | None:
        """Return how many weights adapters may have, so that with the head no more than the asked share of all is sent."""
        shares = [part for part in self.adapters if part.endswith("%")]
        if not shares:
            return None
        count = {part: sum(leaf.numel() for leaf in network.get_submodule(part).parameters()) for part in ("body", "head")}
        return int(float(shares[0][:-1]) / 100 * (count["body"] + count["head"])) - count["head"]


OPTIONS = tuple(field.name for field in fields(Beginning))


def prepared(network: nn.Module, name: str = "the network", **options: Any) -> nn.Module:
    """Return a network of body and head with a pretrained, frozen or adapted body; the head is trained in any case.

    Frozen layers take part in no method: nothing of them is sent, kept for a client or written to a checkpoint.

    Args:
        network: Has children ``body`` and ``head``; is changed in place.
        name: What it is called in errors.
        **options: Those of `Beginning`: ``weights``, ``sha256``, ``frozen``, ``rank``, ``alpha``, ``adapters``, ``projector``.
    """
    for option in options:
        if option not in OPTIONS:
            raise suggest("option of a network's beginning", option, OPTIONS)
    how = Beginning(**options)
    if how.weights is not None:
        if not any(True for _ in network.get_submodule("body").parameters()):
            raise InputError(f"{name} has no body that could start from weights")
        path = Path(how.weights).expanduser()
        if how.sha256 is not None and path.is_file() and hashed(path) != how.sha256:
            raise DataError(f"'{path}' is not the file of weights that the run was begun with: its SHA-256 is another")
        load(network, path, name)
    if how.frozen == "body":
        network.get_submodule("body").requires_grad_(False)
    if how.rank:
        with torch.random.fork_rng(devices=[]):  # what is drawn afterwards is the same with any rank
            scale = (how.rank if how.alpha is None else how.alpha) / how.rank
            adapt(network.get_submodule("body"), how.rank, scale, how.words, how.most(network))
    return network if how.projector is None else _projected(network, how.projector)


def _projected(network: nn.Module, hidden: int) -> nn.Module:
    head = network.get_submodule("head")
    if not isinstance(head, nn.Linear):
        raise InputError("projector stands before a linear head, and this network's head is a stack of layers")
    width = head.in_features
    layers = [nn.Linear(width, hidden), nn.ReLU(), nn.BatchNorm1d(hidden), nn.Linear(hidden, width)]
    projected = nn.Sequential(*layers, nn.BatchNorm1d(width))
    body: Sequence[tuple[str, nn.Module]] = [("encoder", network.get_submodule("body")), ("projector", projected)]
    return Network(nn.Sequential(OrderedDict(body)), head)
