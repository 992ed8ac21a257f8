"""How long the link waits for the head of a request, and how many connections one address may hold open."""

import asyncio
import logging
from collections import Counter
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

log = logging.getLogger("perfed.link")

_Base: Any = AutoHTTPProtocol


class Patient(_Base):  # type: ignore[misc]
    """The engine's own protocol, which waits for ever for a head that never ends; this one lets such a caller go.

    The time runs from the first moment of a connection, or from the first byte of a later request, to the end of the head: a
    byte now and then does not lengthen it. What follows the head is looked after by `Limits`.
    """

    head = 10.0  # seconds for the head of a request
    most = 512  # connections that one address may hold open
    held: Counter[str] = Counter()

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._who, self._wait = "", None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Count the connection, and begin to wait for a first request."""
        self._who = str((transport.get_extra_info("peername") or ("somebody",))[0])
        self.held[self._who] += 1
        super().connection_made(transport)
        if self.held[self._who] > self.most:
            self._let_go(f"it holds more than {self.most} connections")
        else:
            self._begin()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._end()
        self.held[self._who] -= 1
        if self.held[self._who] <= 0:
            del self.held[self._who]
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take in what came; a head that is not whole yet is waited for no longer than from its first byte."""
        super().data_received(data)
        if self._asked():
            self._end()
        elif self._wait is None:
            self._begin()

    def _asked(self) -> bool:
        """Whether a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def _begin(self) -> None:
        self._wait = self.loop.call_later(self.head, self._late)

    def _end(self) -> None:
        if self._wait is not None:
            self._wait.cancel()
            self._wait = None

    def _late(self) -> None:
        self._wait = None
        if not self._asked():
            self._let_go(f"the head of its request took more than {self.head:g} s")

    def _let_go(self, why: str) -> None:
        log.warning("let go of %s: %s", self._who, why)
        self.transport.abort()
