"""What an upload tells of a client's labels: shares of classes read off the classifier's last biases, or off masks."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .. import trees
from ..errors import RunError
from ..transport import Site
from .seen import seen
from .subject import State

CLOSE = 0.1  # distance of shares within which the control must come


@dataclass(frozen=True)
class Leakage:
    """How near an attacker comes to clients' shares of classes: total variation, 0 is exact, beside guessing them even."""

    source: str  # where it was read off; empty where an upload has no such part
    distance: float | None
    guess: float  # of taking all classes for equally frequent
    control: float
    passed: bool
    classes: str = ""  # what else lists a client's classes outright


def labels(state: State, clients: list[int]) -> Leakage:
    """Read every client's shares of classes off its first answer."""
    site = state.site
    if site.task.goal != "classification":
        raise RunError("shares of classes can be read off classifiers alone; this run has none")
    truths = [_shares(site, client) for client in clients]
    even = np.full(site.task.classes, 1 / site.task.classes)
    found = [_read(state, client) for client in clients]
    control = float(np.mean([apart(_one_step(site, client), truth) for client, truth in zip(clients, truths, strict=True)]))
    guess = float(np.mean([apart(even, truth) for truth in truths]))
    read = [(own, truth) for (_, own), truth in zip(found, truths, strict=True) if own is not None]
    distance = float(np.mean([apart(own, truth) for own, truth in read])) if read else None
    bar = max(CLOSE, guess / 4)
    return Leakage(found[0][0], distance, guess, control, control <= bar, _listed(site, state, clients[0]))


def apart(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Return the total variation between two distributions."""
    return float(np.abs(one - other).sum() / 2)


def from_biases(move: Tensor, reach: float) -> NDArray[np.float64]:
    """Return shares of classes from how far the last biases went: η Σ (share − mean prediction), predictions taken for even.

    After many steps predictions follow the shares and biases slow down; then the rarest class is taken to be absent.
    """
    count = len(move)
    least = float(-move.min()) * count
    return _proper((move.double() / min(reach, max(least, 1e-12)) + 1 / count).cpu().numpy())


def _proper(found: NDArray[np.float64]) -> NDArray[np.float64]:
    found = np.clip(np.nan_to_num(found), 0, None)
    whole: NDArray[np.float64] = found / found.sum() if found.sum() > 0 else np.full(len(found), 1 / len(found))
    return whole


def _shares(site: Site, client: int) -> NDArray[np.float64]:
    counts = torch.bincount(site.federation.y[site.federation.train[client]].cpu(), minlength=site.task.classes).double()
    found: NDArray[np.float64] = (counts / counts.sum()).numpy()
    return found


def _bias(site: Site) -> str:
    linears = site.task.head.linears
    return linears[-1].removesuffix("weight") + "bias" if linears else ""


def _read(state: State, client: int) -> tuple[str, NDArray[np.float64] | None]:
    """Return where shares are read off and what comes out; nothing where the upload shows no classifier and no mask."""
    site = state.site
    down = site.method.send(state.server, client)
    up = state.replay(client).up
    shown, name = seen(site, down, up), _bias(site)
    pieces = site.method.pieces(site.task.still, down) if "pieces" in site.method.views else {}
    gain = next((own.gains[name] for own in pieces.values() if name in own.gains), 1.0)
    if name in shown and len(shown[name].sent) == site.task.classes:
        reach = site.method.budget.lr * site.shard(client, 1).steps * site.method.budget.epochs
        return shown[name].path, from_biases(gain * (shown[name].sent - shown[name].received), reach)
    if "critical_masks" in site.method.views:
        rows = site.method.critical_masks(up)[site.task.head.linears[-1]].double().sum(1)
        return "the mask of critical positions", _proper(rows.cpu().numpy())
    return "", None


def _one_step(site: Site, client: int) -> NDArray[np.float64]:
    """Return what is read off one step of undefended FedAvg over all of a client's samples, where it is nearly exact."""
    fed, name = site.federation, _bias(site)
    params = site.task.params()
    if name not in params:
        raise RunError("the network's head ends in no linear layer with biases, so shares of classes cannot be read off it")
    rows = fed.train[client]
    leaf = params[name].clone().requires_grad_()
    logits = site.task.still.logits(params | {name: leaf}, fed.inputs(fed.x[rows], None))
    (slope,) = torch.autograd.grad(torch.nn.functional.cross_entropy(logits, fed.y[rows]), leaf)
    return from_biases(-slope, 1.0)


def _listed(site: Site, state: State, client: int) -> str:
    """Return the path of an uploaded leaf that is 1 exactly for the classes that a client has, where there is one."""
    present: Any = torch.from_numpy(_shares(site, client) > 0)
    for path, leaf in trees.named(state.replay(client).up):
        if leaf.shape == present.shape and bool(((leaf > 0).cpu() == present).all()) and bool(((leaf == 0) | (leaf == 1)).all()):
            return path
    return ""
