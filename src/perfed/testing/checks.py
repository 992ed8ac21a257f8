"""The checks of the contract, one by one."""

import copy
import pickle
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import FrozenInstanceError, fields, replace
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from .. import trees
from ..errors import InputError, MethodError
from ..federation import Federation
from ..local import Budget
from ..methods.fedavg import FedAvg
from ..methods.fedbn import FedBN
from ..methods.fedper import FedPer
from ..methods.local import Local
from ..rounds import Protocol, Span, rounds
from ..runs.states import read_state, write_state
from ..sampling import Sampling
from ..server import Uploads
from ..transport import Newcomers, Pooled, Private, Serial, Site, Stacked, Store, why_not
from ..transport.site import ClientError
from ..trees import Tree
from ..wire import encode
from .play import AnyMethod, Played, federation, gap, play, quick, run, served, task

MARGIN = 0.01  # of what another method learns: whoever is nearer to it than this is that method


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
    assert pickle.loads(pickle.dumps(method)) == method == copy.deepcopy(method)  # its own bytes, of nobody else
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
        logits = [served(p, at, data.x[data.test[i]]) for p, at in ((one, i), (two, place))]
        assert torch.allclose(logits[0], logits[1], rtol=1e-3, atol=1e-4), f"client {i} got another model under another number"


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
    rest = rounds(method, server, Serial(site, store), Sampling(), Protocol(), Span(0, len(data), 4, 2))
    ended = Played(site, store, list(rest))
    assert trees.equal(straight.states(), ended.states()), "a resumed run differs from the straight one"


def check_learns(method: AnyMethod, norm: bool = False, *, count: int = 60) -> None:
    """Beats chance; a personal method beats the best common model where clients' labels conflict."""
    data = federation(6, sizes=[60] * 6)
    x, reached = data.x[data.test[0]], 0.0
    for rounds_so_far in (count // 3, count):  # most need a third
        span = Protocol(rounds_so_far)
        played = run(method, data, task(norm), count=rounds_so_far, make=quick, sampling=Sampling(), protocol=span)
        common = torch.equal(served(played, 0, x), served(played, 1, x))
        least = 0.36 if common else 0.55  # labels that conflict leave a common model little above chance
        reached = played.accuracy()
        if reached > least:
            return
    raise AssertionError(f"accuracy {reached:.3f} after {count} rounds")


def check_is_itself(method: AnyMethod, norm: bool = False, *, count: int = 10) -> None:
    """At these settings it serves none of the models that methods reduce to: a pull of a thousandth is no method of its own."""
    reduced = (Local, FedAvg, FedPer, FedBN) if norm else (Local, FedAvg, FedPer)
    if isinstance(method, reduced):
        return
    found = _answers(method, norm, count)
    for other in reduced:
        start, end = _course(other, method.budget, norm, count)
        apart = float((found - end).norm() / (end - start).norm())
        assert apart > MARGIN, f"it is {other.title} but for {100 * apart:.2g} % of what {other.title} learned"


@cache
def _course(kind: type[AnyMethod], budget: Budget, norm: bool, count: int) -> tuple[Tensor, Tensor]:
    """Return the answers of a method that others reduce to, at the start and at the end."""
    return _answers(kind(budget=budget), norm, 0), _answers(kind(budget=budget), norm, count)


def _answers(method: AnyMethod, norm: bool, count: int) -> Tensor:
    """Return what all clients say about their test samples after some rounds, as logarithms of probabilities."""
    data = federation(6, sizes=[60] * 6)
    played = run(method, data, task(norm), count=count, make=quick, sampling=Sampling(), protocol=Protocol(max(count, 1)))
    site, said = played.site, []
    for i in range(len(data)):
        private = played.store[i]
        down = site.withheld.overlay(method.send(played.server, i), private.kept)
        down, mine = site.adapted(i, down, private.mine, count)
        with torch.no_grad():
            said.append(method.predict(site.task.served, down, mine, data.x[data.test[i]]).log_softmax(1))
    return torch.stack(said)


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


def check_takes_newcomers(method: AnyMethod, norm: bool = False) -> None:
    """A newcomer joins or is refused in a sentence; it changes neither the server nor anyone, and twice gives the same bits."""
    data = federation(4)
    played = play(method, data.only([0, 1, 2]), norm=norm, count=2)
    before = trees.clone(played.states())
    new = Newcomers.of(played.site, data.only([3]), 2)
    try:
        once = new.join(played.server, 0, 2)
    except MethodError:
        return
    assert trees.equal(once, new.join(played.server, 0, 2)), "joining gives the same bits twice"
    assert trees.equal(before, played.states()), "a newcomer must not change the server or another client"
    (score,) = new.tested(0, once, 2, ("test",))
    assert score.count == len(data.test[3])


CHECKS: dict[str, Callable[..., None]] = {
    "edges": check_edges,
    "forgets_nobody": check_forgets_nobody,
    "is_itself": check_is_itself,
    "keeps_private": check_keeps_private,
    "learns": check_learns,
    "no_favourites": check_no_favourites,
    "pure": check_pure,
    "resumes": check_resumes,
    "same_on_every_transport": check_same_on_every_transport,
    "survives_the_wire": check_survives_the_wire,
    "takes_newcomers": check_takes_newcomers,
}


def check_method(method: AnyMethod, *, norms: tuple[bool, ...] = (False, True)) -> None:
    """Run every check on a method, on a network without and with BatchNorm."""
    check_hyper_parameters(method)
    for norm in norms:
        for check in CHECKS.values():
            check(method, norm)
