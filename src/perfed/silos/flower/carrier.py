"""The link as a carrier: which client is behind which node, and whose message an error answers."""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import WireError
from ..exchange import Place, Reply
from ..messages import Ask, pack
from .engine import SERVER
from .records import record
from .session import Session

log = logging.getLogger("perfed.silos")

_PARTS = 60.0  # seconds for the parts of an answer that has begun to arrive


class Half(NamedTuple):
    """An answer of which a part is still on its way."""

    asked: str
    tree: Any
    since: float


class LinkCarrier:
    """The link; a client is the node whose public key the server's roster has for it."""

    def __init__(self, server: Path, roster: Mapping[bytes, int]) -> None:
        self.server, self.roster = server, roster
        self.session: Session | None = None
        self._strangers: set[int] = set()
        self._halves: list[Half] = []

    @contextmanager
    def _linked(self) -> Iterator[Session]:
        """Give the run at the link; a link that does not know it any more has been restarted, and gets a new one."""
        import httpx

        if self.session is None:
            self._halves.clear()
            self.session = Session(self.server)
        try:
            yield self.session
        except httpx.HTTPStatusError:
            self.session.close()
            self.session = None
            raise
        finally:
            if self.session is not None:
                self.session.headers.once = {}

    def nodes(self) -> dict[int, Place]:
        from flwr.proto.runtime_pb2 import GetNodesRequest

        found: dict[int, Place] = {}
        with self._linked() as session:
            for node in session.client.GetNodes(GetNodesRequest()).nodes:
                client = self.roster.get(bytes(node.public_key))
                if client is not None:
                    found[client] = Place(node.node_id, f"{session.run} {node.last_activated_at}")
                elif node.node_id not in self._strangers:
                    self._strangers.add(node.node_id)
                    log.warning("node %d has a key that no silo of this deployment has; it is not asked", node.node_id)
        return found

    def push(self, asks: Sequence[tuple[Place, Ask]], seconds: float) -> list[str | None]:
        return [self._pushed(place, ask, seconds) for place, ask in asks]

    def _pushed(self, place: Place, ask: Ask, seconds: float) -> str | None:
        from flwr.app import Message
        from flwr.proto.runtime_pb2 import PushAppMessagesRequest

        with self._linked() as session:
            kind = "query" if ask.verb == "hello" else "train"
            group = str(ask.train or ask.score or 0)
            message = Message(record(*pack(ask)), place.node, kind, ttl=max(1.0, seconds), group_id=group)

            def announce(proto: Any, tree: Any) -> Any:
                return session.client.PushMessages(PushAppMessagesRequest(messages_list=[proto], message_object_trees=[tree]))

            return session.objects.put(message, announce, lambda: session.headers.ring(str(place.node)))

    def pull(self, messages: Sequence[str], wait: float) -> list[Reply]:
        from flwr.common.serde import message_from_proto
        from flwr.proto.runtime_pb2 import PullAppMessagesRequest

        began, replies = time.monotonic(), []
        with self._linked() as session:
            session.headers.hold(SERVER, 0.1 if self._halves else wait)
            found = session.client.PullMessages(PullAppMessagesRequest(message_ids=list(messages)))
            session.headers.once = {}
            for proto, tree in zip(found.messages_list, found.message_object_trees, strict=True):
                message = message_from_proto(proto)
                asked = message.metadata.reply_to_message_id  # an error's sender is the link, so only this says whose it is
                if message.has_error():
                    replies.append(Reply(asked, None, f"error {message.error.code} ({message.error.reason})"))
                else:
                    self._halves.append(Half(asked, tree, time.monotonic()))
            halves, self._halves = self._halves, []
            replies += [reply for half in halves if (reply := self._joined(session, half)) is not None]
            if not replies and not session.headers.holds:
                time.sleep(max(0.0, min(wait, 0.1) - (time.monotonic() - began)))
        return replies

    def _joined(self, session: Session, half: Half) -> Reply | None:
        """Return an answer whose parts are all there; one that waits for parts is looked at again."""
        try:
            whole = session.objects.get(session.run, half.tree)
            if whole is None and time.monotonic() < half.since + _PARTS:
                self._halves.append(half)
                return None
            if whole is None:
                return Reply(half.asked, None, "a part of the answer did not arrive")
            return Reply.of(half.asked, *whole)
        except WireError as wrong:
            return Reply(half.asked, None, wrong=str(wrong))

    def close(self) -> None:
        """End the run at the link."""
        if self.session is not None:
            self.session.close(done=True)
            self.session = None
