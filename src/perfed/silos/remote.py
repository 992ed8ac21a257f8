"""The transport of a deployment: clients are silos behind a carrier, and one message scores a round and trains the next."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch

from .. import trees
from ..errors import RunError, WireError
from ..evaluate.plausible import implausible
from ..evaluate.scores import UNSEEN, Score
from ..federation import Federation
from ..server import Uploads
from ..server.admission import miscounted
from ..transport.serial import one_thread
from ..transport.site import Private, Site
from ..transport.store import Store
from ..trees import Tree
from ..wire import Ledger, decode, encode
from .exchange import Carrier, Exchange, Patience
from .facts import checked, differs
from .messages import Ask, SiloAnswer
from .refusals import CODES

log = logging.getLogger("perfed.silos")

DECLINED = "the silo refused"  # how the sentence on a silo begins that says no


@dataclass(frozen=True)
class Ahead:
    """What the loop will ask next, known ahead because sampling is a function of the seed."""

    participants: Callable[[int], list[int]]  # of a round
    rounds: int
    after: bool = False
    least: int = 1  # answers without which a round cannot close
    gone: tuple[int, ...] = ()  # silos that left: nobody asks them


class Accepted(NamedTuple):
    """An answer that passed every check."""

    answer: SiloAnswer
    up: Tree  # None where nothing was trained


@dataclass
class Known:
    """What the server knows of the silos: the accepted version of each private state, its digest and its size."""

    versions: list[int]
    digests: list[str]
    sizes: list[int]
    tested: list[list[int]] = field(default_factory=list)  # samples to choose rounds on and to test on, as registered
    facts: dict[str, Any] = field(default_factory=dict)  # what every silo must agree on: classes and shape


class Remote:
    """Trains and scores silos; their private states never come here."""

    name = "flower"

    def __init__(
        self, carrier: Carrier, site: Site, first: Private, known: Known, ahead: Ahead, ask: Ask, patience: Patience
    ) -> None:
        self.carrier, self.site, self.known, self.ahead, self.patience = carrier, site, known, ahead, patience
        self.store = Store(first, len(site.federation))
        self.ledger = Ledger(site.withheld)
        self.after: dict[int, Score] = {}
        self.absent: list[int] = []
        self.refused: list[tuple[int, str]] = []
        self.faults: dict[int, str] = {}  # whose answer to the round that is merged was refused on arrival, and why
        self.missing: dict[int, str] = {}  # who gave no answer to the last exchange, and why
        self._wrong: dict[int, str] = {}  # whose answer to the last exchange was wrong; a silo that says no is not wrong
        self._away: dict[int, float] = {}
        self.seconds: dict[int, dict[str, float]] = {}  # what the silos spent on the last exchange
        self._ask = ask
        self._early: tuple[int, dict[int, Accepted]] | None = None  # answers to a round that the loop has not asked for
        self._like: tuple[list[str], Tree] = [], None  # the leaves of the message, and an answer to such a one

    def train(self, server: Tree, ids: Sequence[int], number: int, lost: set[int], after: bool) -> Uploads[Any]:
        early, self._early = self._early, None
        if early is not None and early[0] == number:
            found = {i: early[1][i] for i in ids if i in early[1]}
        else:
            found = self._exchange({i: self._work(server, i, train=number, after=after) for i in ids}, server)
        if len(found) < self.ahead.least:
            raise RunError(
                f"round {number}: {len(found)} of {len(ids)} silos answered within {self.patience.deadline:g} s, "
                f"at least {self.ahead.least} must; start again to go on from the last checkpoint"
            )
        self.absent = [i for i in ids if i not in found]
        self.faults = {i: why for i, why in self._wrong.items() if i in ids}
        self.after = {i: Score.of(a.answer.after) for i, a in found.items() if a.answer.after is not None}
        for i, accepted in found.items():
            self.known.versions[i], self.known.digests[i] = number, accepted.answer.digest
            self.ledger.down(self.site.method.send(server, i))
        arriving = [i for i in found if i not in lost]
        for i in arriving:
            self.ledger.up(found[i].up)
        return Uploads(arriving, [self.known.sizes[i] for i in arriving], [found[i].up for i in arriving])

    def score(self, server: Tree, ids: Sequence[int], number: int, parts: tuple[str, ...]) -> list[list[Score]]:
        """Score everyone and, in the same message, train those who take part in the next round."""
        coming = set(self.ahead.participants(number + 1)) if number < self.ahead.rounds else set()
        asks = {
            i: self._work(
                server,
                i,
                score=number,
                parts=parts,
                train=number + 1 if i in coming else None,
                after=self.ahead.after and i in coming,
            )
            for i in ids
            if i not in self.ahead.gone
        }
        found = self._exchange(asks, server)
        self._early = (number + 1, {i: a for i, a in found.items() if i in coming})
        for i, accepted in found.items():
            if i not in coming and accepted.answer.digest:
                self.known.digests[i] = accepted.answer.digest
        rows = []
        for i in ids:
            scores = found[i].answer.scores if i in found else ()
            rows.append([Score.of(s) for s in scores] if scores else [UNSEEN] * len(parts))
        return rows

    def close(self) -> None:
        pass

    def _work(self, server: Tree, client: int, **what: Any) -> Ask:
        with one_thread():
            body = encode(self.site.method.send(server, client), self.site.withheld)
        return replace(self._ask, client=client, base=self.known.versions[client], body=body, **what)

    def _exchange(self, asks: dict[int, Ask], server: Tree) -> dict[int, Accepted]:
        sent = [path for path, _ in trees.named(self.site.method.send(server, 0))]
        if self._like[0] != sent:
            self._like = sent, answer_like(self.site, server, self.store.first)
        run = Exchange(self.carrier, asks, self._accept, self.patience, self._refuse, away=self._away)
        found: dict[int, Accepted] = run.run()
        self._wrong = {i: run.why[i] for i in sorted(run.out) if not run.why[i].startswith(DECLINED)}
        self.missing = {i: run.why.get(i, "unknown") for i in sorted(asks.keys() - found.keys())}
        for i, why in self.missing.items():
            ask = asks[i]
            log.warning("round %s goes on without client %d: %s", ask.score if ask.train is None else ask.train, i, why)
        self.seconds = {i: accepted.answer.seconds for i, accepted in found.items()}
        return found

    def _accept(self, ask: Ask, answer: SiloAnswer) -> Accepted:
        """Return an answer whose every part is what was asked for, or say what is not."""
        check(ask, answer, self.known.facts)
        if why := miscounted(answer.facts["sizes"][0], self.known.sizes[ask.client]):
            raise WireError(why)
        if self.known.tested and answer.facts["sizes"][1:] != self.known.tested[ask.client]:
            raise WireError(
                f"it says {answer.facts['sizes'][1:]} samples to test on, registered were {self.known.tested[ask.client]}"
            )
        for score in (*answer.scores, *([answer.after] if answer.after else [])):
            if why := implausible(score, self.site.metrics):
                raise WireError(why)
        if ask.train is None:
            return Accepted(answer, None)
        return Accepted(answer, decode(answer.body, self._like[1], self.site.withheld))

    def _refuse(self, client: int, why: str) -> None:
        log.warning("refused an answer of client %d: %s", client, why)
        self.refused.append((client, why))


def check(ask: Ask, answer: SiloAnswer, others: dict[str, Any]) -> None:
    """Refuse an answer of another client, experiment, round or version, and one that says no."""
    if answer.refused:
        raise WireError(f"{DECLINED}: {CODES[answer.refused]}; its own log says more")
    for name in ("experiment", "client", "base", "train", "score"):
        asked, said = getattr(ask, name), getattr(answer, name)
        if asked != said:
            raise WireError(f"the answer is for {name} {said}, asked was {asked}")
    if ask.verb == "columns":  # before there is anything to say of the samples
        return
    facts = checked(answer.facts)
    if ask.verb == "work" and facts["sizes"][0] < 1:
        raise WireError("the silo has no training samples")
    if others and (wrong := differs(facts, others)):
        raise WireError(wrong)
    if answer.scores and len(answer.scores) != len(ask.parts):
        raise WireError(f"the answer scores {len(answer.scores)} parts, asked were {len(ask.parts)}")
    sizes = dict(zip(("train", "validation", "test"), facts["sizes"], strict=True))
    for part, row in zip(ask.parts, answer.scores, strict=False):
        if row["count"] != sizes[part]:
            raise WireError(f"the answer scores {row['count']} samples of {part}, the silo says it has {sizes[part]}")


def answer_like(site: Site, server: Tree, first: Private) -> Tree:
    """Return a tree with the names, shapes and types of an answer, from one short training on noise."""
    fed, count = site.federation, max(8, 2 * site.federation.classes)
    generator = torch.Generator().manual_seed(0)
    shape = (count, *fed.x.shape[1:])
    noise = torch.rand(shape, generator=generator)
    x = noise.to(fed.x.dtype) if fed.x.is_floating_point() else torch.zeros(shape, dtype=fed.x.dtype)
    rows = torch.arange(count)
    labels = rows % fed.classes  # or of the form that the task's labels have: a number, some labels, a time and an event
    if fed.goal != "classification":
        labels = torch.ones({"regression": (count,), "survival": (count, 2)}.get(fed.goal, (count, fed.classes)))
    tiny = Federation(
        x,
        labels,
        (rows,),
        (rows[:0],),
        (rows[:0],),
        inputs=fed.inputs,
        classes=fed.classes,
        names=("noise",),
        goal=fed.goal,
    )
    budget = replace(site.method.budget, epochs=1, batch_size=count)
    with one_thread():
        method = replace(site.method, budget=budget)
        up, _, _ = replace(site, method=method, federation=tiny).train(0, method.send(server, 0), first, 1)
    return up
