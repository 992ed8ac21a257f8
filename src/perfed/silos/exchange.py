"""Messages out, answers back, until everyone answered or time is up: retries, errors and duplicates in one place."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from ..errors import PerfedError, WireError
from .messages import Ask, SiloAnswer, brief, unpack

log = logging.getLogger("perfed.silos")


class Reply(NamedTuple):
    """What came back for one message: an answer, or why there is none."""

    message: str  # the id of the message it answers
    answer: SiloAnswer | None
    error: str = ""  # why nothing came: the message is sent again
    wrong: str = ""  # why what came cannot be read: the silo is out of this round

    @staticmethod
    def of(message: str, head: str, body: bytes) -> "Reply":
        """Return the reply in an answer's two halves, which may be anything."""
        try:
            return Reply(message, unpack(SiloAnswer, head, body))
        except WireError as wrong:
            return Reply(message, None, wrong=str(wrong))


class Place(NamedTuple):
    """Where a client is reached; what was sent there at another ``since`` is lost."""

    node: int
    since: str = ""
    inline: bool = False  # whether it looks for a body inside a message
    age: float = 0.0  # seconds since it came


class Carrier(Protocol):
    """Brings messages to nodes; knows which client is behind which node."""

    def nodes(self) -> dict[int, Place]:
        """Return where the clients are that are there now."""
        ...

    def push(self, asks: Sequence[tuple[Place, Ask]], seconds: float) -> list[str | None]:
        """Send each request to its place; return the messages' ids, nothing for one that could not be sent."""
        ...

    def pull(self, messages: Sequence[str], wait: float) -> list[Reply]:
        """Return what has come back for these messages; wait up to so many seconds for something."""
        ...


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long a round may take, and how often to look."""

    deadline: float = 600.0  # seconds until a round closes with whoever answered
    poll: float = 0.25
    again: float = 3.0  # before a failed message is sent once more
    gone: float = 60.0  # a round does not wait for a client that has not been there for so long


@dataclass
class Exchange:
    """One round of requests; ``run`` returns the answers that were accepted, by client."""

    carrier: Carrier
    asks: Mapping[int, Ask]
    accept: Callable[[Ask, SiloAnswer], Any]  # raises for an answer that cannot be right
    patience: Patience
    refuse: Callable[[int, str], None]  # client, why
    flying: dict[str, int] = field(default_factory=dict)  # message → client
    sent: dict[str, Place] = field(default_factory=dict)  # message → where it went
    got: dict[int, Any] = field(default_factory=dict)
    out: set[int] = field(default_factory=set)  # clients whose answer was no
    rest: dict[int, float] = field(default_factory=dict)  # client → not before
    away: dict[int, float] = field(default_factory=dict)  # client → since when it has not been there; kept between rounds
    why: dict[int, str] = field(default_factory=dict)  # client → why it gave no answer

    def run(self) -> dict[int, Any]:
        end = time.monotonic() + self.patience.deadline
        look, first = 0.0, True
        while (first or self._open()) and (now := time.monotonic()) < end:
            try:
                if now >= look:
                    first = False  # who was away before this round may be back
                    self._send(now, end - now)
                    missed = self._open() - set(self.flying.values())  # who comes now is asked at once
                    look = time.monotonic() + min(self.patience.poll if missed else 1.0, self.patience.again)
                if self.flying:
                    for reply in self.carrier.pull(list(self.flying), max(0.05, look - time.monotonic())):
                        self._take(reply)
                elif self._open():
                    time.sleep(self.patience.poll)
            except PerfedError:
                raise
            except Exception as trouble:  # the link is down or restarting: it may come back
                log.warning("the link does not answer (%s: %s); trying again", type(trouble).__name__, trouble)
                time.sleep(self.patience.again)
        for client in sorted(self.asks.keys() - self.got.keys() - self.out):
            lost = self.away.get(client)
            absent = f"not at the link for {time.monotonic() - lost:.0f} s" if lost is not None else ""
            self.why[client] = absent or f"no answer within {self.patience.deadline:g} s"
            self._told("decision", client, accepted=False, why=self.why[client])
        return dict(sorted(self.got.items()))

    def _open(self) -> set[int]:
        """Return the clients that are waited for."""
        late = time.monotonic() - self.patience.gone
        return {i for i in self.asks.keys() - self.got.keys() - self.out if self.away.get(i, late) >= late}

    def _send(self, now: float, left: float) -> None:
        """Send what is due to every client that is there and has no message on its way."""
        places = self.carrier.nodes()
        self.away.update(dict.fromkeys(self.asks.keys() - places.keys() - self.away.keys(), now))
        for i in places.keys() & self.away.keys():
            del self.away[i]
        for former in [m for m, i in self.flying.items() if i in places and places[i][:2] != self.sent[m][:2]]:
            log.warning("client %d came back since it was asked; sending again", self.flying.pop(former))
        waited = self.asks.keys() - self.got.keys() - self.out
        due = [i for i in sorted(waited - set(self.flying.values())) if self.rest.get(i, 0.0) <= now]
        ready = [i for i in due if i in places]
        if not ready:
            return
        sent = self.carrier.push([(places[i], self.asks[i]) for i in ready], left)
        for i, name in zip(ready, sent, strict=True):
            if name:
                self.flying[name], self.sent[name] = i, places[i]
            else:
                self.rest[i] = now + self.patience.again

    def _take(self, reply: Reply) -> None:
        client = self.flying.pop(reply.message, None)
        if client is None or client in self.got:
            self.refuse(-1 if client is None else client, "an answer that was already given, or to nothing that was asked")
            return
        if reply.wrong:
            self._refused(client, reply.wrong)
            return
        if reply.answer is None:
            log.warning("client %d: %s; sending again", client, reply.error)
            self.rest[client] = time.monotonic() + self.patience.again
            return
        try:
            self.got[client] = self.accept(self.asks[client], reply.answer)
            self._told("decision", client, accepted=True)
        except WireError as wrong:
            self._refused(client, str(wrong))
        except Exception as wrong:  # whatever an answer does to who reads it costs only its silo
            self._refused(client, f"the answer cannot be read ({type(wrong).__name__}: {brief(wrong)})")

    def _refused(self, client: int, why: str) -> None:
        self.out.add(client)
        self.why[client] = why
        self._told("refusal", client, why=why[:300])
        self.refuse(client, why)

    def _told(self, what: str, client: int, **said: Any) -> None:
        """Write what was decided about a client's answer into the log of a carrier that keeps one."""
        if (audit := getattr(self.carrier, "audit", None)) is not None:
            ask = self.asks[client]
            audit.note(what, client=client, experiment=ask.experiment, train=ask.train, score=ask.score, **said)
