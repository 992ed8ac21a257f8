"""A silo's worker: stays, with torch and the silo's data loaded, and answers what the short-lived ClientApps hand it."""

import contextlib
import os
import sys
from dataclasses import replace
from multiprocessing.connection import Listener
from pathlib import Path

from ...errors import WireError
from ..config import SiloConfig
from ..messages import Ask, SiloAnswer, pack, unpack
from ..silo import Silo


def answer(path: Path, head: str, body: bytes, before: Silo | None = None) -> tuple[str, bytes]:
    """Return the silo's answer to a message; configuration and policy are read anew for every one."""
    config = SiloConfig.load(path)
    silo = before or Silo(config)
    silo.config = config
    try:
        found = silo.answer(unpack(Ask, head, body))
    except WireError as wrong:
        found = SiloAnswer(experiment="", client=config.client, base=-1, refused=str(wrong))
    try:
        return pack(found)
    except ValueError:  # a score that JSON has no number for
        return pack(replace(found, scores=(), after=None, body=b"", refused="the silo's scores are not numbers"))


def serve(path: Path, socket: Path) -> None:
    """SiloAnswer one message after the other, for ever; only this user can connect."""
    socket.unlink(missing_ok=True)
    silo = Silo(SiloConfig.load(path))
    before = os.umask(0o177)
    listener = Listener(str(socket), family="AF_UNIX")
    os.umask(before)
    while True:
        with contextlib.suppress(EOFError, ConnectionError), listener.accept() as line:
            head, body = line.recv_bytes().decode(), line.recv_bytes()
            head, body = answer(path, head, body, silo)
            line.send_bytes(head.encode())
            line.send_bytes(body)


if __name__ == "__main__":
    serve(Path(sys.argv[1]), Path(sys.argv[2]))
