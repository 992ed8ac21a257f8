"""A silo that stays, with torch and the silo's data loaded: answers messages, here or for Flower's short-lived ClientApps."""

import contextlib
import logging
import os
import sys
from dataclasses import replace
from multiprocessing.connection import Listener
from pathlib import Path

from ...errors import PerfedError, WireError
from ..audit import Audit
from ..config import SiloConfig
from ..messages import Ask, SiloAnswer, pack, unpack
from ..silo import Silo
from . import signing

log = logging.getLogger("perfed.silo")


class Resident:
    """Answers messages; configuration and policy are read anew for every one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.audit = Audit(path.parent / "audit", signing.own(path.parent))
        self.silo = Silo(SiloConfig.load(path), self.audit)

    def answer(self, head: str, body: bytes) -> tuple[str, bytes]:
        """Return the silo's answer to a message."""
        self.silo.config = SiloConfig.load(self.path)
        try:
            found = self.silo.answer(unpack(Ask, head, body))
        except WireError as wrong:
            return self.foreign(str(wrong))
        try:
            return pack(found)
        except ValueError:  # a score that JSON has no number for
            return pack(replace(found, scores=(), after=None, body=b"", refused="failed"))

    def foreign(self, why: str) -> tuple[str, bytes]:
        """Refuse a message that is none of perfed's."""
        log.warning("refused a message that is none of perfed's: %s", why)
        with contextlib.suppress(PerfedError):
            self.audit.note("refusal", code="message", why=why[:300])
        return pack(SiloAnswer(experiment="", client=self.silo.config.client, base=-1, refused="message"))


def serve(path: Path, socket: Path) -> None:
    """Answer one message after the other, for ever; only this user can connect."""
    socket.unlink(missing_ok=True)
    silo = Resident(path)
    before = os.umask(0o177)
    listener = Listener(str(socket), family="AF_UNIX")
    os.umask(before)
    while True:
        with contextlib.suppress(EOFError, ConnectionError), listener.accept() as line:
            head, body = line.recv_bytes().decode(), line.recv_bytes()
            head, body = silo.answer(head, body)
            line.send_bytes(head.encode())
            line.send_bytes(body)


if __name__ == "__main__":
    serve(Path(sys.argv[1]), Path(sys.argv[2]))
