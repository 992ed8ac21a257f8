"""Messages out, answers back, until everyone answered or time is up: retries, errors and duplicates in one place."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from ...errors import PerfedError, WireError
from .messages import Answer, Ask, from_record, to_record

log = logging.getLogger("perfed.flower")


class Reply(NamedTuple):
    """What came back for one message: an answer, or why there is none."""

    message: str  # the id of the message it answers
    answer: Answer | None
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
    accept: Callable[[Ask, Answer], Any]  # raises for an answer that cannot be right
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
                    look = now + max(1.0, self.patience.poll)
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
            self.refuse(
                -1 if client is None else client, "an answer that was already given, or to nothing that was asked"
            )
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


class GridCarrier:
    """Flower's Grid; a client is the node whose public key the server's roster has for it."""

    def __init__(self, grid: Any, roster: Mapping[bytes, int]) -> None:
        self.grid, self.roster = grid, roster

    def nodes(self) -> dict[int, int]:
        found: dict[int, int] = {}
        for node in self.grid.get_nodes():
            client = self.roster.get(bytes(node.public_key))
            if client is not None:
                found[client] = node.node_id
            else:
                log.warning("node %d has a key that no silo of this deployment has; it is not asked", node.node_id)
        return found

    def push(self, asks: Sequence[tuple[int, Ask]], seconds: float) -> list[str | None]:
        from flwr.app import Message

        messages = [
            Message(
                to_record(ask),
                node,
                "query" if ask.verb == "hello" else "train",
                ttl=max(1.0, seconds),
                group_id=str(ask.train or ask.score or 0),
            )
            for node, ask in asks
        ]
        sent = list(self.grid.push_messages(messages))
        return sent if len(sent) == len(asks) else [None] * len(asks)

    def pull(self, messages: Sequence[str]) -> list[Reply]:
        replies = []
        for found in self.grid.pull_messages(list(messages)):
            asked = found.metadata.reply_to_message_id  # an error's sender is the link, so only this says whose it is
            if found.has_error():
                replies.append(Reply(asked, None, f"error {found.error.code} ({found.error.reason})"))
                continue
            try:
                replies.append(Reply(asked, from_record(Answer, found.content)))
            except WireError as wrong:
                replies.append(Reply(asked, Answer(experiment="", client=-1, base=-1, refused=str(wrong))))
        return replies
