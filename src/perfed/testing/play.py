"""A small federation, a small network, and a whole run on them in memory."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from .. import keys, trees
from ..evaluate.scores import columns
from ..evaluate.summary import average
from ..federation import Federation
from ..method import Method
from ..rounds import Protocol, Round, Span, rounds
from ..sampling import Sampling
from ..task import Task
from ..transport import Private, Serial, Site, Stacked, Store, Transport, why_not
from ..trees import Tree

AnyMethod = Method[Any, Any, Any, Any]
CLASSES, FEATURES = 3, 6


class Net(nn.Module):
    """A small network with a body and a head, with or without BatchNorm."""

    def __init__(self, norm: bool = False) -> None:
        super().__init__()
        middle = [nn.Linear(FEATURES, 16, bias=False), nn.BatchNorm1d(16)] if norm else [nn.Linear(FEATURES, 16)]
        self.body = nn.Sequential(*middle, nn.ReLU(), nn.Linear(16, 8), nn.ReLU())
        self.head = nn.Linear(8, CLASSES)


def task(norm: bool = False, seed: int = 0) -> Task:
    """Return the small network as a task."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = Net(norm)
    return Task.of(net, (FEATURES,), CLASSES, seed=seed)


def _same(x: Tensor, key: Tensor | None) -> Tensor:
    return x


def federation(clients: int = 5, *, sizes: list[int] | None = None, one_class: bool = False, seed: int = 0) -> Federation:
    """Return clients of unequal size whose labels conflict: every other client names the classes the other way round."""
    sizes = sizes or [23 + 9 * (i % 4) for i in range(clients)]
    rule = keys.normal(keys.key(seed, "rule"), (FEATURES, CLASSES))
    x, y, parts, at = [], [], {"train": [], "validation": [], "test": []}, 0  # type: ignore[var-annotated]
    for i, size in enumerate(sizes):
        own = keys.normal(keys.key(seed, "client", i), (size + 40, FEATURES))
        label = (own @ rule).argmax(1)
        x.append(own)
        y.append(torch.zeros_like(label) if one_class and i == 0 else (CLASSES - 1 - label if i % 2 else label))
        for part, (a, b) in {"train": (0, size), "validation": (size, size + 10), "test": (size + 10, size + 40)}.items():
            parts[part].append(torch.arange(at + a, at + b))
        at += size + 40
    made = {part: tuple(rows) for part, rows in parts.items()}
    names = tuple(f"client {i}" for i in range(len(sizes)))
    return Federation(torch.cat(x), torch.cat(y), made["train"], made["validation"], made["test"], _same, CLASSES, names, seed)


@dataclass
class Played:
    """A run in memory."""

    site: Site
    store: Store
    history: list[Round]

    @property
    def server(self) -> Tree:
        return self.history[-1].server

    @property
    def privates(self) -> list[Private]:
        return [self.store[i] for i in range(len(self.site.federation))]

    def states(self) -> Tree:
        """Everything that a run's digest covers, as one tree."""
        start = self.site.withheld.start
        return (self.server, tuple(Private(p.mine, p.kept or dict(start)) for p in self.privates))

    def accuracy(self) -> float:
        return average(columns(self.history[-1].scores["test"]))


Make = Callable[[Site, Store], Transport]


def play(
    method: AnyMethod,
    data: Federation,
    *,
    norm: bool = False,
    count: int = 3,
    make: Make = Serial,
    sampling: Sampling | None = None,
    the_task: Task | None = None,
) -> Played:
    """Run a method for some rounds and keep everything."""
    return run(method, data, the_task or task(norm), count=count, make=make, sampling=sampling or Sampling(), protocol=Protocol())


def run(
    method: AnyMethod, data: Federation, net: Task, *, count: int, make: Make, sampling: Sampling, protocol: Protocol
) -> Played:
    """Run a method for some rounds on a network, tested as the protocol says."""
    method.check(net, data.sizes, sampling.fewest(len(data)))
    site, server, first = Site.of(method, net, data)
    store = Store(first, len(data))
    transport = make(site, store)
    try:
        history = list(rounds(method, server, transport, sampling, protocol, Span(data.seed, len(data), count)))
    finally:
        transport.close()
    return Played(site, store, history)


def quick(site: Site, store: Store) -> Transport:
    """As a ``make``: clients along an axis, where the method can be stacked."""
    return Serial(site, store) if why_not(site) else Stacked(site, store)


def served(played: Played, client: int, x: Tensor) -> Tensor:
    """Return the logits that a client serves after a run."""
    site, private = played.site, played.store[client]
    down = site.withheld.overlay(site.method.send(played.server, client), private.kept)
    with torch.no_grad():
        return site.method.predict(site.task.served, down, private.mine, x)


def gap(a: Tree, b: Tree) -> float:
    """Return the largest difference of two trees of the same names; masks may differ by a hundredth of their bits."""
    one, two = dict(trees.named(a)), dict(trees.named(b))
    assert one.keys() == two.keys(), sorted(one.keys() ^ two.keys())
    worst = 0.0
    for name, leaf in one.items():
        if leaf.dtype is torch.bool:
            assert (leaf != two[name]).float().mean() <= 0.05, f"masks differ: {name}"
        elif leaf.numel():
            worst = max(worst, float((leaf.double() - two[name].double()).abs().max()))
    return worst
