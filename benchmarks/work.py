"""The work that is measured: made-up pictures in the shape of MNIST, shared among clients of unequal size."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from perfed.data.inputs import Inputs
from perfed.federation import Federation
from perfed.local import Budget
from perfed.methods import find
from perfed.models import build
from perfed.rounds import Protocol, Round, Span, rounds
from perfed.sampling import Sampling
from perfed.task import Task
from perfed.transport import Private, Site, Store, Transport

BUDGET = Budget(lr=0.005, batch_size=10)
METHODS = ("fedavg", "fedcp", "gpfl", "fedcac", "fedrep", "dualfed", "fedpick")


def pictures(
    clients: int = 20, each: int = 600, *, classes: int = 10, shape: tuple[int, ...] = (1, 28, 28), spread: float = 0.5
) -> Federation:
    """Return clients with ``each`` training pictures on average and a third as many to test: a pattern per class, and noise."""
    draw = torch.Generator().manual_seed(0)
    sizes = [round(each * (1 - spread + 2 * spread * i / max(1, clients - 1))) for i in range(clients)]
    tests = [max(1, size // 3) for size in sizes]
    total = sum(sizes) + sum(tests)
    pattern = torch.randint(0, 256, (classes, *shape), dtype=torch.uint8, generator=draw)
    y = torch.randint(0, classes, (total,), generator=draw)
    noise = torch.randint(0, 256, (total, *shape), dtype=torch.uint8, generator=draw)
    x = pattern[y] // 2 + noise // 2
    train, test, at = [], [], 0
    for size, tested in zip(sizes, tests, strict=True):
        train.append(torch.arange(at, at + size))
        test.append(torch.arange(at + size, at + size + tested))
        at += size + tested
    nobody = (torch.zeros(0, dtype=torch.int64),) * clients
    names = tuple(f"client {i}" for i in range(clients))
    return Federation(x, y, tuple(train), nobody, tuple(test), Inputs(), classes, names)


def task_for(federation: Federation, model: str = "cnn", precision: Any = "fp32", **options: Any) -> Task:
    """Return the network for a federation's pictures, drawn from seed 0."""
    shape, classes = tuple(federation.x.shape[1:]), federation.classes
    example = federation.inputs(federation.x[:2], None)
    net = build(model, shape=shape, classes=classes, seed=0, **options)
    return Task.of(net, shape, classes, example=example, precision=precision)


class Play:
    """A method at work: every ``next`` is a round, its server's time apart."""

    def __init__(
        self,
        federation: Federation,
        method: Any,
        make: Any,
        *,
        task: Task | None = None,
        sampling: Sampling | None = None,
        every: int = 1,
        count: int = 1_000_000,
        metrics: Sequence[str] = (),
        door: Any = None,
    ) -> None:
        task = task or task_for(federation)
        chosen = find(method)(budget=BUDGET) if isinstance(method, str) else method
        self.site, server, first = Site.of(chosen, task, federation, metrics)
        self.store = Store(first, len(federation))
        self.transport: Transport = make(self.site, self.store)
        protocol = Protocol(every=every, parts=("test",))
        self._rounds = rounds(
            chosen, server, self.transport, sampling or Sampling(), protocol, Span(0, len(federation), count), door
        )
        next(self._rounds)  # round 0: everyone is tested with the start, which also warms the workers up

    def __call__(self) -> Round:
        return next(self._rounds)

    def close(self) -> None:
        self.transport.close()

    @property
    def samples(self) -> int:
        """Training samples of a round with everybody."""
        return sum(self.site.federation.sizes)


def privates(store: Store) -> list[Private]:
    return [store[i] for i in store]


def ready(federation: Federation, client: int, part: str) -> tuple[Tensor, Tensor]:
    """Return a client's samples as network inputs and labels, in memory, as a bare loop has them."""
    rows = getattr(federation, part)[client]
    return federation.inputs(federation.x[rows], None), federation.y[rows]
