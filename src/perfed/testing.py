"""The contract, checked: what every method must pass, public, for authors of methods.

>>> from perfed.testing import check_method
>>> from perfed.methods.fedper import FedPer
>>> check_method(FedPer())
"""

import copy
import pickle
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import FrozenInstanceError, dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from . import keys, trees
from .errors import InputError
from .federation import Federation
from .local import Budget
from .method import Method
from .rounds import Protocol, Round, rounds
from .runs.states import read_state, write_state
from .sampling import Sampling
from .task import Task
from .transport import Pooled, Private, Serial, Site, Stacked, Store, Transport, why_not
from .transport.site import ClientError
from .trees import Tree
from .wire import encode

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
        scores = self.history[-1].scores["test"]
        return sum(s.correct for s in scores) / sum(s.count for s in scores)


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
    every: int = 1,
) -> Played:
    """Run a method for some rounds and keep everything."""
    the_task = the_task or task(norm)
    sampling = sampling or Sampling()
    method.check(the_task, data.sizes, sampling.fewest(len(data)))
    site, server, first = Site.of(method, the_task, data)
    store = Store(first, len(data))
    transport = make(site, store)
    try:
        history = list(
            rounds(method, server, transport, sampling, Protocol(every), seed=data.seed, clients=len(data), count=count)
        )
    finally:
        transport.close()
    return Played(site, store, history)


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


def check_hyper_parameters(method: AnyMethod) -> None:
    """Frozen, keyword-only, all defaulted; survive copies, pickling and their own repr."""
    kind = type(method)
    kind()
    assert all(f.kw_only for f in fields(kind)), "every field is keyword-only"
    try:
        method.budget = Budget()  # type: ignore[misc]
    except FrozenInstanceError:
        pass
    else:
        raise AssertionError("a method's fields must be frozen")
    assert pickle.loads(pickle.dumps(method)) == method == copy.deepcopy(method)
    assert eval(repr(method), {kind.__name__: kind, "Budget": Budget}) == method  # noqa: S307


def check_pure(method: AnyMethod, norm: bool = False) -> None:
    """No verb changes its inputs; calling twice gives the same bits."""
    data = federation()
    site, server, first = Site.of(method, task(norm), data)
    again = method.init(task(norm), len(data))
    assert trees.equal(again, (server, first.mine)), "init gives the same states every time"
    before = trees.clone((server, first))
    downs = [method.send(server, i) for i in range(len(data))]
    held = trees.clone(tuple(downs))
    one = [site.train(i, downs[i], first, 1) for i in range(len(data))]
    two = [site.train(i, downs[i], first, 1) for i in range(len(data))]
    assert trees.equal(tuple(o[:2] for o in one), tuple(o[:2] for o in two)), "local gives the same bits twice"
    from .server import Uploads

    ups = [o[0] for o in one]
    kept = trees.clone(tuple(ups))
    merged = [method.merge(server, Uploads(list(range(len(data))), data.sizes, ups)) for _ in range(2)]
    assert trees.equal(*merged), "merge gives the same bits twice"
    for i in range(len(data)):
        scores = [site.score(i, method.send(merged[0], i), one[i][1], 1, ("test",)) for _ in range(2)]
        assert scores[0] == scores[1], "predict gives the same twice"
    assert trees.equal(before, (server, first)), "local, merge or predict changed the server's or the private state"
    assert trees.equal(held, tuple(downs)), "local changed what it received"
    assert trees.equal(kept, tuple(ups)), "merge changed the answers"


def check_survives_the_wire(method: AnyMethod, norm: bool = False) -> None:
    """Through bytes = without; what was counted is what the messages hold."""
    data = federation()
    plain = play(method, data, norm=norm, count=2)
    wired = play(method, data, norm=norm, count=2, make=lambda site, store: Serial(site, store, wired=True))
    assert trees.equal(plain.states(), wired.states()), "a run through bytes differs"
    site, server = plain.site, plain.server
    crossing = sum(trees.size_of(leaf) for _, leaf in site.withheld.crossing(method.send(server, 0)))
    overhead = len(encode(method.send(server, 0), site.withheld)) - crossing
    leaves = sum(1 for _ in site.withheld.crossing(method.send(server, 0)))
    assert 0 <= overhead <= 256 + 256 * leaves, f"{overhead} bytes beside {crossing} of payload"
    sent = [leaf for i in range(len(data)) for _, leaf in site.withheld.crossing(method.send(plain.history[-2].server, i))]
    counted = sum(plain.history[-1].down.values())
    assert counted == sum(map(trees.size_of, sent)), "the ledger and the declared message differ"
    known = [_form(like) for like in method.forms(plain.history[0].server)]
    for done in plain.history:
        for i in range(len(data)):
            form = _form(method.send(done.server, i))
            assert form in known, f"after round {done.number} the message to client {i} has a form that `forms` lacks"


def _form(message: Tree) -> list[tuple[str, torch.Size, torch.dtype]]:
    return [(path, leaf.shape, leaf.dtype) for path, leaf in trees.named(message)]


def check_same_on_every_transport(method: AnyMethod, norm: bool = False) -> None:
    """Pooled equals serial bit for bit for 1, 2 and 3 workers; stacked agrees to 1e-5, or says why it cannot."""
    data = federation()
    serial = play(method, data, norm=norm)
    for workers in (1, 2, 3):
        pooled = play(method, data, norm=norm, make=lambda site, store: Pooled(site, store, workers))  # noqa: B023
        assert trees.equal(serial.states(), pooled.states()), f"pooled with {workers} workers differs"
        assert [r.scores for r in serial.history] == [r.scores for r in pooled.history]
    if why_not(serial.site):
        return
    if norm:
        data = federation(sizes=[24] * 5)
        serial = play(method, data, norm=norm)
    stacked = play(method, data, norm=norm, make=Stacked)
    scale = max((float(x.abs().max()) for x in trees.leaves(serial.states()) if x.is_floating_point() and x.numel()), default=1.0)
    difference = gap(serial.states(), stacked.states())
    assert difference <= 1e-5 * max(1.0, scale), f"stacked differs by {difference:g}"


def check_forgets_nobody(method: AnyMethod, norm: bool = False) -> None:
    """Absent clients keep what is theirs; a returning client finds it."""
    data = federation()
    site, server, first = Site.of(method, task(norm), data)
    store = Store(first, len(data))
    transport = Serial(site, store)
    ups = transport.train(server, [0, 1, 2], 1, set(), False)
    server = method.merge(server, ups)
    ups.drain()
    before = trees.clone(store[0])
    untouched = set(store)
    ups = transport.train(server, [1, 2, 3], 2, set(), False)
    method.merge(server, ups)
    ups.drain()
    assert trees.equal(before, store[0]), "a client's state changed while it was absent"
    assert untouched == {0, 1, 2} and 4 not in set(store), "a client that never trained has a state of its own"


def check_no_favourites(method: AnyMethod, norm: bool = False) -> None:
    """Renumbering the clients renumbers the results."""
    data = federation()
    turn = [3, 0, 4, 1, 2]
    train, validation, test = (tuple(own[i] for i in turn) for own in (data.train, data.validation, data.test))
    names = tuple(data.names[i] for i in turn)
    moved = replace(data, train=train, validation=validation, test=test, names=names, numbers=tuple(turn))
    one, two = play(method, data, norm=norm, count=2), play(method, moved, norm=norm, count=2)
    for place, i in enumerate(turn):
        logits = [_served(p, at, data.x[data.test[i]]) for p, at in ((one, i), (two, place))]
        assert torch.allclose(logits[0], logits[1], rtol=1e-3, atol=1e-4), f"client {i} got another model under another number"


def _served(played: Played, client: int, x: Tensor) -> Tensor:
    site, private = played.site, played.store[client]
    down = site.withheld.overlay(site.method.send(played.server, client), private.kept)
    with torch.no_grad():
        return site.method.predict(site.task.served, down, private.mine, x)


def _cases(norm: bool) -> Iterator[tuple[str, Federation, Sampling]]:
    yield "two clients", federation(2), Sampling()
    yield "a one-class client", federation(one_class=True), Sampling()
    yield "a client smaller than a batch", federation(sizes=[24, 4, 30]), Sampling()
    yield "a client of two samples", federation(sizes=[24, 2, 30]), Sampling()
    if not norm:
        yield "a client of one sample", federation(sizes=[24, 1, 30]), Sampling()
    yield "one participant a round", federation(), Sampling(ratio=0.2)
    yield "drop-outs", federation(), Sampling(ratio=0.8, drop=0.5)


def check_edges(method: AnyMethod, norm: bool = False) -> None:
    """The smallest cases run and stay finite, or are refused in a clear sentence."""
    for what, data, sampling in _cases(norm):
        try:
            played = play(method, data, norm=norm, count=3, sampling=sampling)
        except ClientError as failed:
            raise AssertionError(f"{what}: {failed}") from failed
        except InputError as refused:
            assert len(str(refused)) > 20, f"{what}: refused without a reason"
            continue
        assert trees.finite(played.states()), f"{what}: not finite"


def check_keeps_private(method: AnyMethod, norm: bool = False) -> None:
    """No leaf of the private state is uploaded unless the method says so in ``reveals``."""
    played = play(method, federation(), norm=norm, count=2)
    site, server = played.site, played.server
    for i in (0, 1):
        up, private, _ = site.train(i, method.send(server, i), played.store[i], 3)
        sent = [leaf for _, leaf in site.withheld.crossing(up)]
        for path, own in trees.named(private):
            if own.numel() > 1 and bool((own != own.flatten()[0]).any()):
                shown = any(own.shape == leaf.shape and own.dtype == leaf.dtype and torch.equal(own, leaf) for leaf in sent)
                assert not shown or method.reveals, f"private {path} is uploaded, and `reveals` does not say so"
        for name in site.withheld.start:
            assert not any(path.endswith(name) and site.withheld.covers(name, leaf) for path, leaf in site.withheld.crossing(up))


def check_resumes(method: AnyMethod, norm: bool = False) -> None:
    """A checkpoint in the middle = the straight run, bit for bit."""
    data = federation()
    straight = play(method, data, norm=norm, count=4)
    half = play(method, data, norm=norm, count=2)
    site, server, first = Site.of(method, task(norm), data)
    store = Store(first, len(data))
    with tempfile.TemporaryDirectory() as folder:
        write_state(Path(folder) / "state", half.server, half.store)
        server = read_state(Path(folder) / "state", server, store, Private(first.mine, dict(site.withheld.start)))
    rest = rounds(method, server, Serial(site, store), Sampling(), Protocol(), seed=0, clients=len(data), count=4, first=2)
    ended = Played(site, store, list(rest))
    assert trees.equal(straight.states(), ended.states()), "a resumed run differs from the straight one"


def _quick(site: Site, store: Store) -> Transport:
    return Serial(site, store) if why_not(site) else Stacked(site, store)


def check_learns(method: AnyMethod, norm: bool = False, *, count: int = 60) -> None:
    """Beats chance; a personal method beats the best common model where clients' labels conflict."""
    data = federation(6, sizes=[60] * 6)
    played = play(method, data, norm=norm, count=count, make=_quick, every=count)
    x = data.x[data.test[0]]
    common = torch.equal(_served(played, 0, x), _served(played, 1, x))
    least = 0.36 if common else 0.55  # labels that conflict leave a common model little above chance
    assert played.accuracy() > least, f"accuracy {played.accuracy():.3f} after {count} rounds"


def check_reduces(
    method: AnyMethod,
    reference: AnyMethod,
    view: Callable[[Played], Tree],
    other: Callable[[Played], Tree],
    *,
    norm: bool = False,
    count: int = 3,
) -> None:
    """At this setting the method *is* the reference, to the last bit."""
    data = federation()
    one, two = play(method, data, norm=norm, count=count), play(reference, data, norm=norm, count=count)
    assert trees.equal(view(one), other(two)), f"{type(method).__name__} is not {type(reference).__name__} here"


CHECKS: dict[str, Callable[..., None]] = {
    "edges": check_edges,
    "forgets_nobody": check_forgets_nobody,
    "keeps_private": check_keeps_private,
    "learns": check_learns,
    "no_favourites": check_no_favourites,
    "pure": check_pure,
    "resumes": check_resumes,
    "same_on_every_transport": check_same_on_every_transport,
    "survives_the_wire": check_survives_the_wire,
}


def check_method(method: AnyMethod, *, norms: tuple[bool, ...] = (False, True)) -> None:
    """Run every check on a method, on a network without and with BatchNorm."""
    check_hyper_parameters(method)
    for norm in norms:
        for check in CHECKS.values():
            check(method, norm)
