"""Speaking the engine's protobuf interfaces: its clients with perfed's headers, and messages as objects at the link."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...errors import WireError
from .address import address
from .engine import HOLD, OPERATOR, RING, SEEN
from .records import joined

Announce = Callable[[list[Any], list[Any]], Any]  # pushes messages with the trees of their objects


class Headers:
    """Adds perfed's headers to a client's requests, and remembers how often the bell had rung."""

    def __init__(self, credential: str = "") -> None:
        self.fixed = {OPERATOR: credential} if credential else {}
        self.once: dict[str, str] = {}
        self.seen = -1
        self.holds = False  # whether the other side is perfed's gate

    def intercept(self, context: Any, call_next: Callable[[Any], Any]) -> Any:
        context.request.headers.update(self.fixed | self.once)
        response = call_next(context)
        if HOLD in self.once:
            self.holds = SEEN in response.headers
            self.seen = int(response.headers[SEEN]) if self.holds else -1
        return response

    def hold(self, key: str, seconds: float) -> None:
        """Let the next request wait for the bell."""
        self.once = {HOLD: f"{key} {self.seen} {seconds:.1f}"}

    def ring(self, *keys: str) -> None:
        """Let the next request ring."""
        self.once = {RING: ",".join(keys)}


def client(kind: Any, folder: Path, *interceptors: Any) -> Any:
    """Return one of the engine's clients for the link of a part's folder."""
    from flwr.supercore.interceptors.http.runtime_version import RuntimeVersionHttpInterceptor

    where = address(folder)
    return kind.from_server_address(
        f"{where['host']}:{where['port']}",
        False,
        (folder / "ca.crt").read_bytes(),
        interceptors=[RuntimeVersionHttpInterceptor(component_name="perfed"), *interceptors],
    )


class Objects:
    """Messages and their objects at the link, for one node.

    The engine stores a message's content as objects, each pushed and pulled by a request of its own. A small content may travel
    inside the message instead; then one object, which says nothing, completes it.
    """

    def __init__(self, client: Any, node: int) -> None:
        from flwr.proto.node_pb2 import Node

        self.client, self.node = client, Node(node_id=node)

    def put_whole(self, messages: list[Any], announce: Announce, last: Callable[[int], None]) -> list[str]:
        """Push messages with their content inside; ``last`` is called before each is completed."""
        from flwr.app import ConfigRecord
        from flwr.common.serde import message_to_proto
        from flwr.proto.message_pb2 import ObjectTree

        marks = [ConfigRecord({"mark": os.urandom(16).hex()}) for _ in messages]
        names = [mark.object_id for mark in marks]
        for message, name in zip(messages, names, strict=True):
            message.metadata.__dict__["_message_id"] = name
        said = announce([message_to_proto(m) for m in messages], [ObjectTree(object_id=name) for name in names])
        for at, (message, mark) in enumerate(zip(messages, marks, strict=True)):
            last(at)
            self._push(message.metadata.run_id, names[at], mark.deflate(), said.session_id)
        return names

    def put(self, message: Any, announce: Announce, last: Callable[[], None]) -> str:
        """Push a message and its objects; ``announce`` pushes the message, ``last`` is called before the last object."""
        from flwr.app.message import remove_content_from_message
        from flwr.common.serde import message_to_proto
        from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree, no_object_id_recompute

        with no_object_id_recompute():
            name = message.object_id
            message.metadata.__dict__["_message_id"] = name
            objects = get_all_nested_objects(message)
            said = announce([message_to_proto(remove_content_from_message(message))], [get_object_tree(message)])
            missing = [one for one in objects if one in set(said.objects_to_push)]
            for one in missing:
                if one == missing[-1]:
                    last()
                self._push(message.metadata.run_id, one, objects[one].deflate(), said.session_id)
        return str(name)

    def _push(self, run: int, name: str, content: bytes, session: str) -> None:
        from flwr.proto.message_pb2 import PushObjectRequest

        asked = PushObjectRequest(node=self.node, run_id=run, object_id=name, object_content=content, session_id=session)
        if not self.client.PushObject(asked).stored:
            raise WireError("the link did not take a part of a message")

    def get(self, message: Any, tree: Any) -> tuple[str, bytes] | None:
        """Return a message's two halves, or nothing while a part of it is still on its way."""
        if message.has_content() and len(message.content):
            return joined(list(message.content.values()))
        from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest, PullObjectRequest
        from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents

        records = []
        for leaf in _leaves(tree):
            found = self.client.PullObject(PullObjectRequest(node=self.node, run_id=message.metadata.run_id, object_id=leaf))
            if not found.object_found:
                raise WireError("a part of the message is not at the link any more")
            if not found.object_available:
                return None
            try:
                records.append(inflate_object_from_contents(leaf, {leaf: found.object_content}))
            except Exception as wrong:  # the bytes are whatever the other side sent
                raise WireError(f"a part of the message cannot be read: {type(wrong).__name__}") from wrong
        self.client.ConfirmMessageReceived(
            ConfirmMessageReceivedRequest(node=self.node, run_id=message.metadata.run_id, message_object_id=tree.object_id)
        )
        return joined(records)


def _leaves(tree: Any) -> list[str]:
    """Return the objects that hold records: the others only name them."""
    if not tree.children:
        return [tree.object_id]
    return [leaf for child in tree.children for leaf in _leaves(child)]
