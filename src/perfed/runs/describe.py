"""What there is: every method with its fields and messages."""

from typing import Any

import torch
from torch import nn

from .. import listing, methods, models, sources, trees
from ..data.facts import DataFacts, facts
from ..data.inputs import Inputs
from ..data.samples import KINDS
from ..federation import Federation
from ..local.private import without_compiler
from ..shapes import Shapes
from ..task import Task
from ..transport import Serial, Site, Store
from ..trees import Tree
from .assemble import method_of
from .experiment import Experiment

CLIENTS, OWN = 3, 4  # clients and samples of each where only shapes matter: FedFomo holds one out and BatchNorm needs two
LARGE = 1 << 17  # weights of a network beyond which it is described without being computed
WORDS = 30_000  # of a vocabulary, where only the texts could tell


def describe(name: str, model: str | None = None, data: str = "digits") -> dict[str, Any]:
    """Return one method in full, with the leaves of its messages for a model and a data set, which need not be here."""
    found = listing.entry(name)
    known = facts(data)
    model = model or _usual(name, known)
    leaves = traffic(name, model, known)
    idea = sources.docstring(f"methods/{name}.py", methods.CATALOGUE[name])
    ways = {way: _fields(own) for way, own in leaves.items()}
    return found | ways | {"idea": idea, "model": model, "data": data, "leaves": leaves}


def crossing(name: str) -> dict[str, list[str]]:
    """Return the fields that go down, go up and stay, found by a round of the method."""
    found = traffic(name, _usual(name, facts("digits")), facts("digits"))
    return {way: _fields(own) for way, own in found.items()}


def _usual(name: str, data: DataFacts) -> str:
    norm = methods.find(name).needs == "BatchNorm" and data.kind == "image"
    return "cnn_bn" if norm else models.usual(data.kind, data.shape)


def _fields(leaves: list[dict[str, Any]]) -> list[str]:
    return sorted({leaf["field"] for leaf in leaves})


def traffic(name: str, model: str, data: DataFacts, device: str | None = None) -> dict[str, list[dict[str, Any]]]:
    """Return names, shapes and bytes of what crosses and what stays for one client of three, without any data.

    A small network is trained on a few zeros. Of a large one there are only shapes: on torch's meta device nothing is computed.
    """
    method = method_of(Experiment(method=name, rounds=1000, budget={"batch_size": 2}))
    with without_compiler(), torch.device("meta"):
        net = _network(model, data)
    if device is None:
        device = "meta" if sum(own.numel() for own in net.parameters()) > LARGE else "cpu"
    with without_compiler(), torch.device(device), Shapes():
        net = net if device == "meta" else _network(model, data)
        federation = _zeros(data)
        task = Task.of(net, data.shape, data.classes, device=device, example=federation.inputs(federation.x[:2], None))
        site, server, first = Site.of(method, task, federation)
        store = Store(first, CLIENTS)
        down = method.send(server, 0)
        up = next(iter(Serial(site, store).train(server, [0], 1, set(), False)))
    private = store[0]
    found = {
        "down": dict(site.withheld.crossing(down)),
        "up": dict(site.withheld.crossing(up)),
        "private": dict(trees.named(private.mine)) | {f"kept/{k}": v for k, v in private.kept.items()},
    }
    return {way: [_leaf(path, leaf) for path, leaf in leaves.items()] for way, leaves in found.items()}


def _network(model: str, data: DataFacts) -> nn.Module:
    options = {"sparse": False} if model == "fasttext" else {}  # sparse gradients have no shapes without values
    models.fits(model, data.kind)
    return models.build(model, shape=data.shape, classes=data.classes, vocabulary=WORDS, seed=0, **options)


def _zeros(data: DataFacts) -> Federation:
    """Return a federation of zeros: as many samples as the most demanding method asks for."""
    rows = tuple(torch.arange(OWN * client, OWN * (client + 1)) for client in range(CLIENTS))
    x = torch.zeros(OWN * CLIENTS, *data.shape, dtype=KINDS[data.kind][0])
    names = tuple(f"client {client}" for client in range(CLIENTS))
    y = torch.zeros(len(x), dtype=torch.int64)
    return Federation(x, y, rows, rows, rows, Inputs(kind=data.kind), data.classes, names)


def _leaf(path: str, leaf: Tree) -> dict[str, Any]:
    path = path or "state"  # a private state that is one tensor
    field = path.split("/")[0] if "/" in path else path.removeprefix(trees.STATE).split(".")[0]
    return {
        "name": path,
        "field": field,
        "shape": "×".join(map(str, leaf.shape)) or "1",
        "type": str(leaf.dtype).removeprefix("torch."),
        "bytes": trees.size_of(leaf),
    }
