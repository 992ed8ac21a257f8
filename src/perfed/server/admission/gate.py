"""Who is let in: answers are merged as they come and looked at on the way; where one is refused, the others are merged anew."""

import logging
import math
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ... import trees
from ...errors import InputError, suggest
from ..rules import broadcast
from ..uploads import Uploads
from .bounds import Usual, against, outside, unusable
from .form import Form, differs, form_of, miscounted, usual
from .hold import Held
from .measure import Measured, Measures

log = logging.getLogger("perfed.admission")

LEVELS = {
    "structure": "names, shapes, types, finite numbers, the registered number of samples",
    "bounds": "also lengths of updates and their relation to what was sent",
    "strict": "also the directions of updates beside each other; refuses honest clients where they learn opposite things",
}


class Merged(NamedTuple):
    """What became of a round's answers."""

    server: Any  # what the method made of those that were admitted; as before where none was
    refused: dict[int, str]  # client → why
    usual: dict[str, Any]  # what was usual among the admitted, for the rounds that follow


class _Torn(Exception):
    """An answer has another form than the first one: what was begun with them cannot be finished."""


@dataclass
class Admission:
    """The door of one run: a level, what was usual in the rounds before, and who was refused how often in a row.

    Args:
        level: one of `LEVELS`.
        suspend: refusals in a row after which a client is not asked any more; 0 asks for ever.
        sizes: every client's registered number of training samples; without them numbers are not compared.
        room: bytes of answers that wait in memory for the verdict; others wait in a file.
        noised: whether clients add noise to their answers, which then need not be near what was sent.
    """

    level: str = "bounds"
    suspend: int = 3
    sizes: Sequence[int] | None = None
    room: int | None = None
    noised: bool = False
    past: dict[int, Usual] = field(default_factory=dict)  # form → the longest lengths that were usual in a round
    strikes: dict[int, int] = field(default_factory=dict)
    _forms: dict[Form, int] = field(default_factory=dict)  # forms that were admitted, and how often

    def __post_init__(self) -> None:
        if self.level not in LEVELS:
            raise suggest("admission", self.level, LEVELS)
        if self.suspend < 0:
            raise InputError(f"suspend is a number of refusals in a row, 0 for never, got {self.suspend}")

    @property
    def suspended(self) -> set[int]:
        """The clients that are not asked any more."""
        return {client for client, count in self.strikes.items() if self.suspend and count >= self.suspend}

    def recall(self, lines: Iterable[Mapping[str, Any]]) -> None:
        """Take up what the lines of a record say of the rounds before."""
        for line in lines:
            if line.get("usual"):
                self._remember(Usual(**line["usual"]))
            self.count(line.get("participants", ()), line.get("refused", {}))

    def count(self, participants: Iterable[int], refused: Mapping[Any, str]) -> None:
        """Count the refusals in a row of those who took part in a round."""
        out = {int(client) for client in refused}
        for client in participants:
            self.strikes[client] = self.strikes.get(client, 0) + 1 if client in out else 0

    def merged(self, method: Any, server: Any, ups: Uploads[Any], number: int) -> Merged:
        """Return what a method makes of the answers that are admitted, and who was refused why.

        The answers go to the method as they arrive. It is asked again, with the others alone, where one is refused.
        """
        round_ = _Round(self, method, server, ups)
        try:
            made, failed = round_.tried()
            faults = round_.faults()
            if not faults and failed is not None:
                raise failed
            if faults:
                made = round_.without(faults)
            self._forms |= {round_.form: self._forms.get(round_.form, 0) + 1} if round_.form is not None else {}
            now = round_.usual(faults)
            if now is not None:
                self._remember(now)
        finally:
            round_.held.close()
        refused = {ups.ids[place]: why for place, why in sorted(faults.items())}
        if refused:
            said = "; ".join(f"client {client}: {why}" for client, why in list(refused.items())[:3])
            more = f"; and {len(refused) - 3} more" if len(refused) > 3 else ""
            log.warning("round %d goes on without %d of %d uploads: %s%s", number, len(refused), len(ups), said, more)
        return Merged(made, refused, now.plain() if now is not None else {})

    def _remember(self, now: Usual) -> None:
        self.past[now.form] = now.most(self.past.get(now.form))


class _Round:
    """One round's answers on their way to the method."""

    def __init__(self, door: Admission, method: Any, server: Any, ups: Uploads[Any]) -> None:
        self.door, self.method, self.server, self.ups = door, method, server, ups
        self.common = getattr(type(method), "send", None) is broadcast
        self.held = Held() if door.room is None else Held(door.room)
        self.measures = Measures(sketched=door.level == "strict")
        self.forms: list[Form | None] = []
        self.form: Form | None = None
        self._broken = False  # whether the answers themselves stopped coming
        self._found: list[Measured] = []

    def tried(self) -> tuple[Any, Exception | None]:
        """Return what the method makes of all answers, or why it could not; every answer has been looked at then."""
        made, failed, coming = self.server, None, self._looked()
        try:
            if len(self.ups):
                passed = Uploads(self.ups.ids, self.ups.counts, self._first_form(coming))
                made = self.method.merge(self.server, passed)
                passed.drain()
        except Exception as wrong:
            if self._broken:
                raise
            failed = wrong
        for _ in coming:  # whatever the method did not take
            pass
        if len(self.forms) < len(self.ups):
            raise failed or ValueError(f"{len(self.forms)} of {len(self.ups)} answers came")
        return made, failed

    def _looked(self) -> Iterator[Any]:
        """Yield the answers as they come, each measured and kept until the verdict."""
        places = iter(self.ups.ids)
        for answer in self._arriving():
            self._look(next(places), answer)
            yield answer

    def _arriving(self) -> Iterator[Any]:
        """Yield all answers to the end: clients whose answers are lost train behind the last one that arrives."""
        try:
            yield from self.ups
        except GeneratorExit:
            raise
        except BaseException:
            self._broken = True
            raise

    def _look(self, client: int, answer: Any) -> None:
        form = form_of(answer)
        self.forms.append(form)
        if form is None:
            self.held.skip()
        else:
            self.held.put(answer)
        if form is None or form != self.forms[0]:
            self.measures.skip()
        else:
            self.measures.take(form, answer, self.method.send(self.server, client))

    def _first_form(self, coming: Iterator[Any]) -> Iterator[Any]:
        for answer in coming:
            if self.forms[-1] is None or self.forms[-1] != self.forms[0]:
                raise _Torn
            yield answer

    def faults(self) -> dict[int, str]:
        """Return why answers are refused, by place."""
        clients, door = self.ups.ids, self.door
        sent = [{path.rpartition("/")[2] for path, _ in trees.named(self.method.send(self.server, i))} for i in clients[:1]]
        self.form = usual(self.forms, sent * len(clients), door._forms)
        faults = {place: why for place, form in enumerate(self.forms) if (why := differs(form, self.form or ()))}
        if door.sizes is not None:
            for place, (client, said) in enumerate(zip(clients, self.ups.counts, strict=True)):
                if why := miscounted(said, door.sizes[client]):
                    faults.setdefault(place, why)
        if self.forms and self.form != self.forms[0]:
            self._again()
        self._found = self.measures.found()
        for place, found in enumerate(self._found):
            if place not in faults and (why := self._unsound(place, found)):
                faults[place] = why
        if door.level != "structure":
            faults |= self._beyond(faults)
        return faults

    def _again(self) -> None:
        """Measure all answers once more: the first one had not the form that most have."""
        self.measures = Measures(sketched=self.measures.sketched)
        for place, client in enumerate(self.ups.ids):
            if self.forms[place] == self.form and self.form is not None:
                self.measures.take(self.form, self.held[place], self.method.send(self.server, client))
            else:
                self.measures.skip()

    def _unsound(self, place: int, found: Measured) -> str:
        """Return why the numbers of an answer are none, or nothing; squares that overflow are looked at one by one."""
        if math.isfinite(found.length) and math.isfinite(found.new):
            return ""
        answer = self.held[place]
        bad = [path for path, leaf in trees.named(answer) if not trees.finite(leaf)]
        if not bad and self.form is not None:
            message = self.method.send(self.server, self.ups.ids[place])
            self._found[place] = again = self.measures.exact(place, self.form, answer, message)
            bad = [] if math.isfinite(again.length + again.new) else ["its length"]
        return f"'{bad[0]}' is not finite" if bad else ""

    def _beyond(self, faults: Mapping[int, str]) -> dict[int, str]:
        """Return what bounds refuse of the answers that are sound."""
        more: dict[int, str] = {}
        for place, found in enumerate(self._found):
            if place not in faults and (why := unusable(found) or self._constant(place, found)):
                more[place] = why
        while True:  # whoever is refused no longer counts for what is usual
            left = [place for place in range(len(self._found)) if place not in faults and place not in more]
            sizes = [self.ups.counts[place] for place in left]
            far = outside([self._found[place] for place in left], sizes, self.door.past.get(self._mark()), self.door.noised)
            new = {left[at]: why for at, why in far.items()}
            more |= new
            if not new:
                break
        if self.measures.sketched:
            sketches = {place: own for place in left if (own := self.measures.sketches[place]) is not None}
            more |= against(sketches)
        return more

    def _constant(self, place: int, found: Measured) -> str:
        """Return whether all leaves of an answer that strayed far from what was sent are one number each."""
        if found.sent == 0 or found.kept > 0.9:
            return ""
        leaves = [leaf for leaf in trees.leaves(self.held[place]) if leaf.is_floating_point() and leaf.numel() > 1]
        same = all(bool((leaf == leaf.reshape(-1)[0]).all()) for leaf in leaves)
        return "every leaf of it is one number over and over" if leaves and same else ""

    def without(self, faults: Mapping[int, str]) -> Any:
        """Return what the method makes of the others alone; where nobody is left the server stays as it is."""
        left = [place for place in range(len(self.held)) if place not in faults]
        if not left:
            return self.server
        ids, counts = ([own[place] for place in left] for own in (self.ups.ids, self.ups.counts))
        return self.method.merge(self.server, Uploads(ids, counts, (self.held[place] for place in left)))

    def usual(self, faults: Mapping[int, str]) -> Usual | None:
        """Return what was usual among the admitted, where there was something to measure."""
        left = [found for place, found in enumerate(self._found) if place not in faults]
        if not any(found.length or found.new for found in left):
            return None
        return Usual.of(self._mark(), left)

    def _mark(self) -> int:
        return zlib.crc32(repr(self.form).encode())
