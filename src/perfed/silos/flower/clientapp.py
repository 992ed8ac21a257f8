"""The ClientApp that Flower starts at a silo for every message: it hands the message to the silo's resident worker."""

import os
import time
from multiprocessing.connection import Client
from pathlib import Path

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from ...errors import WireError
from .records import halves, record

app = ClientApp()

_WAIT = 60.0  # seconds for a worker that is just starting


def _answer(message: Message, context: Context) -> Message:
    try:
        head, body = halves(message.content)
    except WireError:  # none of perfed's: the silo itself refuses it, with a line in its log
        head, body = "", b""
    config = Path(str(context.node_config["silo"]))
    socket = os.environ.get("PERFED_WORKER")
    if socket:
        head, body = _handed(socket, head, body)
    else:
        from .resident import Resident

        head, body = Resident(config).answer(head, body)
    return Message(record(head, body), reply_to=message)


def _handed(socket: str, head: str, body: bytes) -> tuple[str, bytes]:
    """Return the worker's answer; a worker that dies raises here, and the server asks again."""
    end = time.monotonic() + _WAIT
    while True:
        try:
            line = Client(socket, family="AF_UNIX")
            break
        except (FileNotFoundError, ConnectionRefusedError):
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
    with line:
        line.send_bytes(head.encode())
        line.send_bytes(body)
        return line.recv_bytes().decode(), line.recv_bytes()


@app.query()
def hello(message: Message, context: Context) -> Message:
    """Say what this silo has."""
    return _answer(message, context)


@app.train()
def work(message: Message, context: Context) -> Message:
    """Score and train."""
    return _answer(message, context)
