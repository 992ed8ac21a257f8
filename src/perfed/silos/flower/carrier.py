"""The link as a carrier: which client is behind which node, and whose message an error answers."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import WireError
from ..exchange import Place, Reply
from ..messages import Ask, pack
from .engine import BEAT, DROP, INLINE, SERVER
from .records import record
from .session import Session

log = logging.getLogger("perfed.silos")

_TOGETHER = 8  # messages that are pushed in one request
_PARTS = 60.0  # seconds for the parts of an answer that has begun to arrive


class Half(NamedTuple):
    """An answer of which a part is still on its way."""

    message: Any
    tree: Any
    since: float

    @property
    def asked(self) -> str:
        """The message that it answers; an error's sender is the link, so only this says whose it is."""
        return str(self.message.metadata.reply_to_message_id)


class LinkCarrier:
    """The link; a client is the node whose public key the server's roster has for it."""

    def __init__(self, server: Path, roster: Callable[[], Mapping[bytes, int]]) -> None:
        self.server, self.roster = server, roster
        self.session: Session | None = None
        self._strangers: set[int] = set()
        self._halves: list[Half] = []
        self._done: list[str] = []  # messages that the link may forget

    @contextmanager
    def _linked(self) -> Iterator[Session]:
        """Give the run at the link; a link that does not know it any more has been restarted, and gets a new one."""
        import httpx

        if self.session is None:
            self._halves.clear()
            self._done.clear()
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
        roster = self.roster()
        with self._linked() as session:
            for node in session.client.GetNodes(GetNodesRequest()).nodes:
                client = roster.get(bytes(node.public_key))
                if client is not None:
                    since = f"{session.run} {node.last_activated_at}"
                    found[client] = Place(node.node_id, since, node.heartbeat_interval == BEAT, _age(node.last_activated_at))
                elif node.node_id not in self._strangers:
                    self._strangers.add(node.node_id)
                    log.warning("node %d has a key that no silo of this deployment has; it is not asked", node.node_id)
        return found

    def push(self, asks: Sequence[tuple[Place, Ask]], seconds: float) -> list[str | None]:
        from flwr.app import Message
        from flwr.proto.runtime_pb2 import PushAppMessagesRequest

        sent: list[str | None] = [None] * len(asks)
        whole: list[tuple[int, Any]] = []
        with self._linked() as session:

            def announce(protos: list[Any], trees: list[Any]) -> Any:
                asked = PushAppMessagesRequest(messages_list=protos, message_object_trees=trees)
                said = session.client.PushMessages(asked)
                if not all(said.message_ids):
                    raise WireError("the link did not take a message")
                return said

            for at, (place, ask) in enumerate(asks):
                kind, group = "query" if ask.verb == "hello" else "train", str(ask.train or ask.score or 0)
                message = Message(record(*pack(ask)), place.node, kind, ttl=max(1.0, seconds), group_id=group)
                if place.inline and len(ask.body) <= INLINE:
                    whole.append((at, message))
                else:
                    sent[at] = session.objects.put(message, announce, partial(session.headers.ring, str(place.node)))
            for some in (whole[first : first + _TOGETHER] for first in range(0, len(whole), _TOGETHER)):
                nodes = [str(message.metadata.dst_node_id) for _, message in some]
                names = session.objects.put_whole([m for _, m in some], announce, partial(_ring, session, nodes))
                for (at, _), name in zip(some, names, strict=True):
                    sent[at] = name
        return sent

    def pull(self, messages: Sequence[str], wait: float) -> list[Reply]:
        from flwr.common.serde import message_from_proto
        from flwr.proto.runtime_pb2 import PullAppMessagesRequest

        began, replies = time.monotonic(), []
        with self._linked() as session:
            session.headers.hold(SERVER, 0.1 if self._halves else wait)
            session.headers.once[DROP] = ",".join(self._done[:200])
            found = session.client.PullMessages(PullAppMessagesRequest(message_ids=list(messages)))
            session.headers.once, self._done = {}, self._done[200:]
            for proto, tree in zip(found.messages_list, found.message_object_trees, strict=True):
                message = message_from_proto(proto)
                half = Half(message, tree, time.monotonic())
                self._done += [half.asked, message.metadata.message_id]
                if message.has_error():
                    replies.append(Reply(half.asked, None, f"error {message.error.code} ({message.error.reason})"))
                else:
                    self._halves.append(half)
            halves, self._halves = self._halves, []
            replies += [reply for half in halves if (reply := self._joined(session, half)) is not None]
            if not replies and not session.headers.holds:
                time.sleep(max(0.0, min(wait, 0.1) - (time.monotonic() - began)))
        return replies

    def _joined(self, session: Session, half: Half) -> Reply | None:
        """Return an answer whose parts are all there; one that waits for parts is looked at again."""
        try:
            whole = session.objects.get(half.message, half.tree)
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


def _age(moment: str) -> float:
    """Return the seconds since a moment, none where it is no moment."""
    try:
        return max(0.0, (datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds())
    except (ValueError, TypeError):
        return 0.0


def _ring(session: Session, nodes: Sequence[str], at: int) -> None:
    session.headers.ring(nodes[at])
