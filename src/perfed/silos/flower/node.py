"""A silo's process: speaks the engine's Fleet interface and answers with the silo's own code; nothing sent is executed."""

import contextlib
import gc
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from ...errors import WireError
from .. import keep
from .engine import BEAT, INLINE, SERVER
from .records import record
from .resident import Resident
from .wire import Headers, Objects, client

log = logging.getLogger("perfed.silo")

_HELD = 20.0  # seconds that the link may hold a question for messages
_IDLE = 3.0  # seconds between questions to a link that does not hold them, when nothing happens
_LOADED = (  # what a silo needs to speak, loaded before there is a process for each
    "cryptography.hazmat.primitives.serialization",
    "flwr.app",
    "flwr.common.serde",
    "flwr.proto.fleet_pb2",
    "flwr.proto.heartbeat_pb2",
    "flwr.supercore.inflatable.inflatable_utils",
    "flwr.supercore.interceptors.http.runtime_version",
    "flwr.supernode.fleet_http_client",
    "flwr.supernode.node_auth_http_interceptor",
    "httpcore",
    "numpy.ma",
)
_ACTIVE = 60.0  # seconds after a message during which more are expected soon


class Fleet:
    """A node at the link: let in with its key, kept alive, asked for messages."""

    def __init__(self, folder: Path) -> None:
        from flwr.proto.node_pb2 import Node
        from flwr.supernode.fleet_http_client import FleetHttpClient

        proof = _proof(folder)
        self.headers = Headers()
        self.client = client(FleetHttpClient, folder, self.headers, proof)
        self._beats = client(FleetHttpClient, folder, proof)
        self.number = self._let_in(folder)
        self.node = Node(node_id=self.number)
        self.objects = Objects(self.client, self.number)
        self._over = threading.Event()
        self.lost = False
        threading.Thread(target=self._live, daemon=True).start()

    def _let_in(self, folder: Path) -> int:
        """Be let in; an earlier process of this silo that was killed leaves first."""
        from flwr.proto.fleet_pb2 import ActivateNodeRequest, DeactivateNodeRequest

        note = folder / "flower" / "node"
        with contextlib.suppress(OSError, ValueError):
            before = int(note.read_text(encoding="ascii"))
            with contextlib.suppress(Exception):  # the link may never have heard of it
                self.client.DeactivateNode(DeactivateNodeRequest(node_id=before))
        public = (folder / "node.key").read_bytes()
        asked = ActivateNodeRequest(public_key=_keys(public)[2], heartbeat_interval=BEAT)
        number = int(self.client.ActivateNode(asked).node_id)
        note.parent.mkdir(exist_ok=True, mode=0o700)
        keep.put(note, str(number).encode())
        return number

    def _live(self) -> None:
        from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest

        asked = SendNodeHeartbeatRequest(node=self.node, heartbeat_interval=BEAT)
        while not self._over.wait(BEAT * 0.7):
            try:
                self.lost = not self._beats.SendNodeHeartbeat(asked).success
            except Exception as trouble:
                log.info("no sign of life could be given: %s", trouble)

    def pull(self, wait: float) -> tuple[Any, Any] | None:
        """Return the next message without its content, and the tree of its parts; wait a while for one."""
        from flwr.common.serde import message_from_proto
        from flwr.proto.fleet_pb2 import PullMessagesRequest

        self.headers.hold(str(self.number), wait)
        try:
            found = self.client.PullMessages(PullMessagesRequest(node=self.node))
        finally:
            self.headers.once = {}
        if not found.messages_list:
            return None
        return message_from_proto(found.messages_list[0]), found.message_object_trees[0]

    def halves(self, message: Any, tree: Any) -> tuple[str, bytes]:
        """Return a message's content."""
        end = time.monotonic() + 60.0
        while (found := self.objects.get(message, tree)) is None:
            if time.monotonic() > end:
                raise WireError("a part of the message did not arrive")
            time.sleep(0.05)
        return found

    def push(self, asked: Any, head: str, body: bytes) -> None:
        """Answer a message."""
        from flwr.app import Message
        from flwr.proto.fleet_pb2 import PushMessagesRequest

        def announce(protos: list[Any], trees: list[Any]) -> Any:
            asked = PushMessagesRequest(node=self.node, messages_list=protos, message_object_trees=trees)
            return self.client.PushMessages(asked)

        told = Message(record(head, body), reply_to=asked)
        try:
            if len(body) <= INLINE:
                self.objects.put_whole([told], announce, lambda at: self.headers.ring(SERVER))
            else:
                self.objects.put(told, announce, lambda: self.headers.ring(SERVER))
        finally:
            self.headers.once = {}

    def close(self) -> None:
        """Leave, so that the link knows at once."""
        from flwr.proto.fleet_pb2 import DeactivateNodeRequest

        self._over.set()
        with contextlib.suppress(Exception):
            self._beats.DeactivateNode(DeactivateNodeRequest(node_id=self.number))
        self.client.close()
        self._beats.close()


def _keys(text: bytes) -> tuple[Any, Any, bytes]:
    from cryptography.hazmat.primitives.serialization import load_ssh_private_key
    from flwr.supercore.primitives.asymmetric import public_key_to_bytes

    private = load_ssh_private_key(text, None)
    public = private.public_key()
    return private, public, public_key_to_bytes(public)  # type: ignore[arg-type]


def _proof(folder: Path) -> Any:
    from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

    private, public, _ = _keys((folder / "node.key").read_bytes())
    return NodeAuthHttpInterceptor(private, public)


@contextlib.contextmanager
def _let_in(folder: Path) -> Iterator[Fleet]:
    fleet = Fleet(folder)
    try:
        yield fleet
    finally:
        fleet.close()


def attend(folder: Path, silo: Resident) -> None:
    """Answer messages until the link is lost."""
    with _let_in(folder) as fleet:
        log.warning("let in at the link as node %d", fleet.number)
        last = 0.0
        while not fleet.lost:
            began = time.monotonic()
            found = fleet.pull(_HELD)
            if found is None:
                if not fleet.headers.holds:
                    took = time.monotonic() - began  # a slow link is asked less often
                    time.sleep(min(1.0, max(0.05, 4 * took)) if began - last < _ACTIVE else _IDLE)
                continue
            message, tree = found
            try:
                head, body = fleet.halves(message, tree)
            except WireError as foreign:
                head, body = silo.foreign(str(foreign))
            else:
                head, body = silo.answer(head, body)
            fleet.push(message, head, body)
            last = time.monotonic()


def serve(folder: Path) -> None:
    """Be there for ever; a link that went away is looked for again."""
    silo, pause = Resident(folder / "silo.yaml"), 0.25
    while True:
        began = time.monotonic()
        try:
            attend(folder, silo)
        except Exception as trouble:
            log.warning("not at the link (%s); trying again", " ".join(f"{type(trouble).__name__}: {trouble}".split())[:200])
        pause = 0.25 if time.monotonic() - began > 10 else min(5.0, pause * 1.6)
        time.sleep(pause)


def _stop(number: int, frame: Any) -> None:
    raise SystemExit(0)


def main(folders: list[Path]) -> None:
    """Serve a silo; several on one machine share what is loaded, a process each."""
    import torch

    for name in _LOADED:
        import_module(name)
    gc.freeze()  # collections leave alone what the processes share

    torch.set_num_threads(1)
    signal.signal(signal.SIGTERM, _stop)
    own: dict[int, Path] = {}
    try:
        while len(folders) > 1:
            for folder in set(folders) - set(own.values()):
                if (process := os.fork()) == 0:
                    own, folders = {}, [folder]
                    break
                own[process] = folder
            else:
                gone, _ = os.wait()
                log.warning("%s ended and is started again", own.pop(gone).name)
                time.sleep(0.5)
        _logged(folders[0])
        serve(folders[0])
    finally:
        for process in own:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGTERM)


def _logged(folder: Path) -> None:
    """Write what is said into the silo's own log."""
    place = folder / "logs"
    place.mkdir(exist_ok=True)
    logging.basicConfig(
        filename=place / "node.log", format="%(asctime)s %(levelname)s %(message)s", level=logging.WARNING, force=True
    )


if __name__ == "__main__":
    main([Path(text).resolve() for text in sys.argv[1:]])
