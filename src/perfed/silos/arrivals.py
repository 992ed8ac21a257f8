"""Silos that come later: into the next round of an experiment that runs, or to a model of their own when it is over."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from .. import trees
from ..disk import get_json, put_json
from ..errors import MethodError
from ..evaluate.scores import Score
from ..runs.assemble import Assembled
from ..runs.folder import SeedFolder
from ..transport import Newcomers, one_thread
from ..trees import Tree
from ..wire import encode
from . import keep
from .exchange import Carrier, Exchange, Patience, Place
from .facts import checked
from .messages import Ask, SiloAnswer
from .remote import check

log = logging.getLogger("perfed.silos")

_SOON = 120.0  # seconds in which a newcomer answers, or is left alone
_SETTLED = 30.0  # seconds after which who is at the link is not one of those who are just being started
_BRIEF = 5.0  # seconds that a newcomer is waited for then

Silos = list[dict[str, Any] | None]  # what every silo says it has, by number


def closed(made: Assembled) -> str:
    """Return why nobody can come into an experiment that runs, or nothing: what the others are sent must keep its form."""
    method, count = made.method, len(made.federation)
    try:
        grown = method.admit(made.server)
    except MethodError as why:
        return str(why)
    before, after = (method.init(made.site.task, n)[1] for n in (count, count + 1))
    same = _form(method.send(made.server, 0)) == _form(method.send(grown, 0)) and _form(before) == _form(after)
    return "" if same else f"what {method.title} sends grows with the number of silos, so nobody can come in while it runs"


def _form(tree: Tree) -> list[tuple[str, tuple[int, ...]]]:
    return [(path, tuple(leaf.shape)) for path, leaf in trees.named(tree)]


def waiting(later: Sequence[int], silos: Silos) -> list[int]:
    """Return the silos that came later and are not in an experiment yet."""
    return [i for i in later if i >= len(silos) or silos[i] is None]


class Arrivals:
    """Lets silos in that came later; who cannot be let in is noted once, and is no hindrance to the others."""

    def __init__(self, carrier: Carrier, patience: Patience, folder: SeedFolder, ask: Ask, most: int = 0) -> None:
        self.carrier, self.patience, self.folder, self.ask, self.most = carrier, patience, folder, ask, most
        self.out: set[int] = set()  # who was refused

    def there(self, numbers: Sequence[int]) -> list[int]:
        """Return those who are at the link and were not refused before."""
        sought = [i for i in numbers if i not in self.out]
        return sorted(set(sought) & self._places().keys()) if sought else []

    def _awaited(self, numbers: Sequence[int]) -> list[int]:
        """Return those who are there, after as long as a round would wait for one that is only starting.

        Where others have long been there, nothing is starting up here, and who is not there is not waited for as long.
        """
        began = time.monotonic()
        while set(numbers) - set(found := self.there(numbers)) - self.out:
            settled = any(place.age > _SETTLED for place in self._places().values())
            if time.monotonic() - began >= min(self.patience.gone, _BRIEF if settled else self.patience.gone):
                break
            time.sleep(self.patience.poll)
        return found

    def _places(self) -> dict[int, Place]:
        try:
            return self.carrier.nodes()
        except Exception as trouble:  # the link is down: the round that follows finds out what it means
            log.info("the link does not answer (%s)", trouble)
            return {}

    def refuse(self, client: int, why: str) -> None:
        """Note that a silo is not let in, and why."""
        if client in self.out:
            return
        self.out.add(client)
        log.warning("client %d takes no part: %s", client, why)
        keep.note(self.folder.refusals, round=self.folder.reached or 0, client=client, why=why)

    def let_in(self, numbers: Sequence[int], silos: Silos) -> Silos:
        """Return the silos with those of the newcomers who are there and whose data are as the others' are."""
        others = next(found for found in silos if found)

        def accept(asked: Ask, answer: SiloAnswer) -> dict[str, Any]:
            check(asked, answer, others)
            return checked(answer.facts, self.most) | {"since": self.folder.reached or 0}

        asks = {i: replace(self.ask, client=i) for i in self.there(numbers)}
        found = self._heard(asks, accept)
        grown = [*silos, *[None] * (max([len(silos) - 1, *found]) + 1 - len(silos))]
        return [found.get(i, known) for i, known in enumerate(grown)]

    def _heard(self, asks: dict[int, Ask], accept: Callable[[Ask, SiloAnswer], dict[str, Any]]) -> dict[int, dict[str, Any]]:
        """Return what newcomers answered; who does not answer soon is left alone, and the others do not wait for it."""
        if not asks:
            return {}
        patient = replace(self.patience, deadline=min(self.patience.deadline, _SOON))
        run = Exchange(self.carrier, asks, accept, patient, self.refuse)
        found: dict[int, dict[str, Any]] = run.run()
        for i in asks.keys() - found.keys():
            self.refuse(i, run.why.get(i, "no answer"))
        return found

    def welcome(self, numbers: Sequence[int], made: Assembled, server: Tree, known: dict[str, Any]) -> None:
        """Send each newcomer, after the last round, what the method has for it; it fits its own parts and has its model.

        The server's state stays as it is. Who is not at the link gets its model when the experiment is started again.
        """
        done = joined(self.folder)
        due = [i for i in numbers if str(i) not in done]
        for i in set(due) - set(self._awaited(due)) - self.out:
            log.warning("silo %d is not at the link; `perfed deploy run` gives it its model when it is there", i)
        new, last = Newcomers(made.site, len(made.federation), made.experiment.join.epochs), self.folder.reached or 0
        try:
            with one_thread():
                body = encode(new.welcome(server)[0], made.site.withheld)
        except MethodError as why:
            for i in due:
                self.refuse(i, str(why))
            return
        ask = replace(self.ask, verb="join", clients=len(made.federation) + 1, score=last, parts=("test", "test"), body=body)
        asks = {i: replace(ask, client=i) for i in self.there(due)}

        def accept(asked: Ask, answer: SiloAnswer) -> dict[str, Any]:
            check(asked, answer, known)
            scores = [Score.of(score).plain() for score in answer.scores]
            told = {name: answer.facts[name] for name in ("name", "sizes")} | {"round": last}
            return told | (dict(zip(("before", "after"), scores, strict=True)) if scores else {})

        found = self._heard(asks, accept)
        if found:
            put_json(self.folder.newcomers, done | {str(i): told for i, told in found.items()})
        for i, told in found.items():
            log.warning("silo %d (%s) joined after round %d and has its model", i, told["name"], last)


def joined(folder: SeedFolder) -> dict[str, Any]:
    """Return the silos that joined when the experiment was over, by number."""
    return dict(get_json(folder.newcomers)) if folder.newcomers.exists() else {}
