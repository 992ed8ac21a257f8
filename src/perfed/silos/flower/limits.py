"""What one caller may cost the link: bytes of a message, bytes on their way, seconds of silence, requests a second."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

_CALLERS = 4096  # addresses whose pace is remembered


class Excess(Exception):
    """A request that costs more than it may: an HTTP status, and why in a few words."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status, self.why = status, why


@dataclass
class Limits:
    """The limits of a link, and what is used of them now."""

    most: int = 1 << 30  # bytes of one request
    together: int = 4 << 30  # bytes of all requests that are being read
    silence: float = 30.0  # seconds between two parts of a request
    pace: float = 500.0  # requests a second from one address, in the long run
    burst: float = 5000.0  # requests that it may have saved up
    clock: Callable[[], float] = time.monotonic
    _reading: int = 0
    _saved: "OrderedDict[str, tuple[float, float]]" = field(default_factory=OrderedDict)  # address → requests left, and when

    def let_in(self, scope: Scope) -> None:
        """Refuse a request that is too large by what it says of itself, or one too many, before anything of it is read."""
        headers = dict(scope.get("headers", ()))
        said = headers.get(b"content-length", b"0")
        size = int(said) if said.isdigit() and len(said) < 16 else self.most + 1
        if size > self.most:
            raise Excess(413, f"a request of {said[:20].decode('latin-1')} bytes, at most {self.most} are taken")
        if self._reading + size > self.together:
            raise Excess(503, "too much is on its way already")
        now, who = self.clock(), str((scope.get("client") or ("somebody",))[0])
        left, since = self._saved.pop(who, (self.burst, now))
        left = min(self.burst, left + (now - since) * self.pace)
        self._saved[who] = max(0.0, left - 1), now
        while len(self._saved) > _CALLERS:
            self._saved.popitem(last=False)
        if left < 1:
            raise Excess(429, f"more than {self.pace:g} requests a second")

    def bounded(self, receive: Receive) -> tuple[Receive, Callable[[], None]]:
        """Return how a request is read within the limits, and what to call when it is done."""
        taken = 0

        async def next_part() -> MutableMapping[str, Any]:
            nonlocal taken
            try:
                part = await asyncio.wait_for(receive(), self.silence)
            except TimeoutError as slow:
                raise Excess(408, f"nothing came for {self.silence:g} s") from slow
            size = len(part.get("body", b""))
            taken += size
            self._reading += size
            if taken > self.most:
                raise Excess(413, f"more than {self.most} bytes")
            if self._reading > self.together:
                raise Excess(503, "too much is on its way already")
            return part

        def done() -> None:
            self._reading -= taken

        return next_part, done
