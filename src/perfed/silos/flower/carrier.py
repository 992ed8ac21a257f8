"""Flower's Grid as a carrier: which client is behind which node, and whose message an error answers."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from ...errors import WireError
from ..exchange import Reply
from ..messages import Ask, SiloAnswer, pack, unpack
from .records import halves, record

log = logging.getLogger("perfed.silos")


class GridCarrier:
    """Flower's Grid; a client is the node whose public key the server's roster has for it."""

    def __init__(self, grid: Any, roster: Mapping[bytes, int]) -> None:
        self.grid, self.roster = grid, roster
        self._strangers: set[int] = set()

    def nodes(self) -> dict[int, int]:
        found: dict[int, int] = {}
        for node in self.grid.get_nodes():
            client = self.roster.get(bytes(node.public_key))
            if client is not None:
                found[client] = node.node_id
            elif node.node_id not in self._strangers:
                self._strangers.add(node.node_id)
                log.warning("node %d has a key that no silo of this deployment has; it is not asked", node.node_id)
        return found

    def push(self, asks: Sequence[tuple[int, Ask]], seconds: float) -> list[str | None]:
        from flwr.app import Message

        messages = [
            Message(
                record(*pack(ask)),
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
                replies.append(Reply(asked, unpack(SiloAnswer, *halves(found.content))))
            except WireError as wrong:
                replies.append(Reply(asked, SiloAnswer(experiment="", client=-1, base=-1, refused=str(wrong))))
        return replies
