"""Messages out, answers back, until everyone answered or time is up: retries, errors and duplicates in one place."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from ..errors import PerfedError, WireError
from .messages import Ask, SiloAnswer

log = logging.getLogger("perfed.silos")


class Reply(NamedTuple):
    """What came back for one message: an answer, or why there is none."""

    message: str  # the id of the message it answers
    answer: SiloAnswer | None
    error: str = ""


class Carrier(Protocol):
    """Brings messages to nodes; knows which client is behind which node."""

    def nodes(self) -> dict[int, int]:
        """Return the nodes that are there now, by client."""
        ...

    def push(self, asks: Sequence[tuple[int, Ask]], seconds: float) -> list[str | None]:
        """Send each request to its node; return the messages' ids, nothing for one that could not be sent."""
        ...

    def pull(self, messages: Sequence[str]) -> list[Reply]:
        """Return what has come back for these messages."""
        ...


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long a round may take, and how often to look."""

    deadline: float = 600.0  # seconds until a round closes with whoever answered
    poll: float = 0.25
    again: float = 3.0  # before a failed message is sent once more


@dataclass
class Exchange:
    """One round of requests; ``run`` returns the answers that were accepted, by client."""

    carrier: Carrier
    asks: Mapping[int, Ask]
    accept: Callable[[Ask, SiloAnswer], Any]  # raises for an answer that cannot be right
    patience: Patience
    refuse: Callable[[int, str], None]  # client, why
    flying: dict[str, int] = field(default_factory=dict)  # message → client
    got: dict[int, Any] = field(default_factory=dict)
    out: set[int] = field(default_factory=set)  # clients whose answer was no
    rest: dict[int, float] = field(default_factory=dict)  # client → not before

    def run(self) -> dict[int, Any]:
        end = time.monotonic() + self.patience.deadline
        look = 0.0
        while self._open() and (now := time.monotonic()) < end:
            try:
                if now >= look:
                    look = now + min(1.0, self.patience.again)
                    self._send(now, end - now)
                if self.flying:
                    for reply in self.carrier.pull(list(self.flying)):
                        self._take(reply)
            except PerfedError:
                raise
            except Exception as trouble:  # the link is down or restarting: it may come back
                log.warning("the link does not answer (%s: %s); trying again", type(trouble).__name__, trouble)
                time.sleep(self.patience.again)
            if self._open():
                time.sleep(self.patience.poll)
        for client in sorted(self._open()):
            log.warning("client %d did not answer within %g s", client, self.patience.deadline)
        return dict(sorted(self.got.items()))

    def _open(self) -> set[int]:
        return self.asks.keys() - self.got.keys() - self.out

    def _send(self, now: float, left: float) -> None:
        """Send what is due to every client that is there and has no message on its way."""
        due = [i for i in sorted(self._open() - set(self.flying.values())) if self.rest.get(i, 0.0) <= now]
        if not due:
            return
        nodes = self.carrier.nodes()
        ready = [i for i in due if i in nodes]
        if not ready:
            return
        sent = self.carrier.push([(nodes[i], self.asks[i]) for i in ready], left)
        for i, message in zip(ready, sent, strict=True):
            if message:
                self.flying[message] = i
            else:
                self.rest[i] = now + self.patience.again

    def _take(self, reply: Reply) -> None:
        client = self.flying.pop(reply.message, None)
        if client is None or client in self.got:
            self.refuse(-1 if client is None else client, "an answer that was already given, or to nothing that was asked")
            return
        if reply.answer is None:
            log.warning("client %d: %s; sending again", client, reply.error)
            self.rest[client] = time.monotonic() + self.patience.again
            return
        try:
            self.got[client] = self.accept(self.asks[client], reply.answer)
        except WireError as wrong:
            self.out.add(client)
            self.refuse(client, str(wrong))
