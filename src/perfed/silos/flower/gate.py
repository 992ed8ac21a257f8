"""In front of the link: silos reach the fleet's routes and nothing else; who waits for a message is held until it is there."""

import asyncio
import hmac
import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from .engine import DROP, HOLD, OPERATOR, RING, SEEN, SERVER
from .limits import Excess, Limits, Receive, Scope

log = logging.getLogger("perfed.link")

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

FLEET = frozenset(
    f"/v1/fleet/{name}"
    for name in (
        "activate-node",
        "deactivate-node",
        "send-node-heartbeat",
        "pull-messages",
        "push-messages",
        "pull-object",
        "push-object",
        "confirm-message-received",
        "get-run",
        "get-fab",
    )
)
OPEN = FLEET | {"/health"}
LONGEST = 25.0  # seconds that a request is held


class Bells:
    """How often each node, and the server, was told that something is there for it."""

    def __init__(self) -> None:
        self.rung: dict[str, int] = {}
        self._news: asyncio.Event | None = None

    def ring(self, keys: list[str]) -> None:
        for key in keys:
            self.rung[key] = self.rung.get(key, 0) + 1
        if self._news is not None:
            self._news.set()
            self._news = None

    async def wait(self, key: str, seen: int, seconds: float) -> None:
        """Return once ``key`` has rung another number of times than ``seen``, or after ``seconds``."""
        end = time.monotonic() + min(seconds, LONGEST)
        while self.rung.get(key, 0) == seen and (left := end - time.monotonic()) > 0:
            self._news = self._news or asyncio.Event()
            try:
                await asyncio.wait_for(self._news.wait(), left)
            except TimeoutError:
                return


class Gate:
    """Wraps the engine's application; ``admit`` brings the link's list of keys up to date, ``drop`` forgets an object."""

    def __init__(
        self,
        app: App,
        credential: str,
        admit: Callable[[], None],
        drop: Callable[[str], None],
        limits: Limits | None = None,
    ) -> None:
        self.app, self.credential, self.admit, self.drop = app, credential.encode(), admit, drop
        self.limits = limits or Limits()
        self.bells = Bells()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        path, headers = str(scope["path"]), {k.decode("latin-1"): v.decode("latin-1") for k, v in scope.get("headers", ())}
        operator = hmac.compare_digest(headers.get(OPERATOR, "").encode("latin-1"), self.credential)
        if scope["type"] != "http" or not (operator or path in OPEN):
            await self._refuse(scope, path, send)
            return
        part, done = self.limits.bounded(receive)
        try:
            if not operator:
                self.limits.let_in(scope)
            await self._answered(scope, part, send, operator, headers)
        except Excess as no:
            log.warning("refused %s from %s: %s", path, (scope.get("client") or ("somebody",))[0], no.why)
            await _say(send, no.status, no.why)
        finally:
            done()

    async def _answered(self, scope: Scope, receive: Receive, send: Send, operator: bool, headers: dict[str, str]) -> None:
        path = str(scope["path"])
        if path in ("/v1/fleet/activate-node", "/v1/runtime/get-nodes"):
            await asyncio.to_thread(self.admit)
        if operator and headers.get(DROP):
            for name in headers[DROP].split(","):
                self.drop(name)
        seen = await self._held(path, headers)
        done = await self._passed(scope, receive, send, seen)
        if done and RING in headers:
            self.bells.ring([SERVER] if path in FLEET else headers[RING].split(","))

    async def _held(self, path: str, headers: dict[str, str]) -> int | None:
        """Hold who waits for a message; return how often its bell had rung before the engine was asked."""
        if HOLD not in headers or not path.endswith("/pull-messages"):
            return None
        try:
            key, seen, seconds = headers[HOLD].split()
            await self.bells.wait(key, int(seen), float(seconds))
        except ValueError:
            return None
        return self.bells.rung.get(key, 0)

    async def _passed(self, scope: Scope, receive: Receive, send: Send, seen: int | None) -> bool:
        """Let the engine answer; return whether it was content."""
        status = 0

        async def told(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                if seen is not None:
                    message["headers"] = [*message.get("headers", ()), (SEEN.encode(), str(seen).encode())]
            await send(message)

        await self.app(scope, receive, told)
        return status == 200

    async def _refuse(self, scope: Scope, path: str, send: Send) -> None:
        who = scope.get("client") or ("somebody",)
        log.warning("refused %s from %s: it is the operator's alone", path[:200].encode("ascii", "replace").decode(), who[0])
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        await _say(send, 403, "this route is the operator's alone")


async def _say(send: Send, status: int, why: str) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": f"{why}\n".encode()})
