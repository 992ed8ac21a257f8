"""What one caller may cost the link: every limit is met before anything is stored, and who keeps to them notices nothing."""

import asyncio
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

import pytest

from perfed.silos.flower.gate import Gate
from perfed.silos.flower.limits import Excess, Limits

PATH = "/v1/fleet/push-object"


def scope(size: int | str | None = None, who: str = "10.0.0.1") -> dict[str, Any]:
    headers = [] if size is None else [(b"content-length", str(size).encode())]
    return {"type": "http", "path": PATH, "headers": headers, "client": (who, 1)}


class Link:
    """An application that reads everything and says how much it was."""

    def __init__(self, limits: Limits) -> None:
        self.read = 0
        self.gate = Gate(self, "x" * 32, lambda: None, lambda name: None, limits)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        while True:
            part = await receive()
            self.read += len(part.get("body", b""))
            if not part.get("more_body"):
                break
        await send({"type": "http.response.start", "status": 200, "headers": []})

    def ask(self, parts: list[bytes], size: int | str | None = None, pause: float = 0.0, who: str = "10.0.0.1") -> int:
        told: list[MutableMapping[str, Any]] = []
        left = list(parts)

        async def receive() -> dict[str, Any]:
            await asyncio.sleep(pause)
            body = left.pop(0)
            return {"type": "http.request", "body": body, "more_body": bool(left)}

        async def send(message: MutableMapping[str, Any]) -> None:
            told.append(message)

        asyncio.run(self.gate(scope(size, who), receive, send))
        return int(told[0]["status"])


def test_a_request_within_the_limits_passes_and_leaves_nothing_behind() -> None:
    link = Link(Limits(most=100))
    assert link.ask([b"x" * 60, b"y" * 40], size=100) == 200
    assert link.read == 100 and link.gate.limits._reading == 0


@pytest.mark.parametrize("size", [101, 10**12, "-1", "9" * 400, "many", "1e3"])
def test_what_says_that_it_is_too_large_is_not_read_at_all(size: int | str) -> None:
    link = Link(Limits(most=100))
    assert link.ask([b"x" * 200], size=size) == 413 and link.read == 0


def test_what_is_larger_than_it_says_ends_where_the_limit_is() -> None:
    link = Link(Limits(most=100))
    assert link.ask([b"x" * 60] * 1000, size=10) == 413 and link.read == 60 and link.gate.limits._reading == 0
    assert link.ask([b"x" * 60], size=60) == 200


def test_all_requests_together_stay_within_what_memory_allows() -> None:
    link = Link(Limits(most=100, together=150))
    link.gate.limits._reading = 100
    assert link.ask([b"x" * 60], size=60) == 503 and link.ask([b"x" * 40] * 2, size=40) == 503
    link.gate.limits._reading = 0
    assert link.ask([b"x" * 60], size=60) == 200


def test_who_falls_silent_in_the_middle_is_let_go() -> None:
    link = Link(Limits(silence=0.01))
    assert link.ask([b"x", b"y"], pause=5.0) == 408 and link.gate.limits._reading == 0


def test_one_address_has_its_pace_and_takes_nothing_from_others() -> None:
    now = [0.0]
    limits = Limits(pace=2.0, burst=3.0, clock=lambda: now[0])
    said = []
    for _ in range(5):
        try:
            limits.let_in(scope(1))
            said.append(200)
        except Excess as no:
            said.append(no.status)
    assert said == [200, 200, 200, 429, 429]
    limits.let_in(scope(1, who="10.0.0.2"))
    now[0] = 1.0  # a second brings two more
    limits.let_in(scope(1))
    limits.let_in(scope(1))
    with pytest.raises(Excess):
        limits.let_in(scope(1))


def test_a_hundred_thousand_addresses_do_not_fill_the_memory() -> None:
    limits = Limits()
    for number in range(100_000):
        limits.let_in({"type": "http", "headers": (), "client": (str(number), 1)})
    assert len(limits._saved) == 4096


@contextmanager
def served(**limits: Any) -> Iterator[tuple[str, int]]:
    """Serve an application that takes longer than a head may, over loopback."""
    import uvicorn

    from perfed.silos.flower.patience import Patient

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(0.6)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    kind = type("Hasty", (Patient,), {"head": 0.3, "held": Counter()} | limits)
    server = uvicorn.Server(uvicorn.Config(slow, port=0, http=kind, lifespan="off", log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield server.servers[0].sockets[0].getsockname()[:2]
    finally:
        server.should_exit = True
        thread.join()


def ended(line: socket.socket) -> bool:
    """Wait until the other side has ended a connection."""
    try:
        return line.recv(100) == b""
    except ConnectionError:
        return True


WHOLE = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"


def test_a_head_that_never_ends_is_let_go_and_a_slow_answer_is_not() -> None:
    with served() as where:
        silent, half, dripping, honest = (socket.create_connection(where, timeout=30) for _ in range(4))
        honest.sendall(WHOLE)
        half.sendall(WHOLE[:10])
        assert ended(silent) and ended(half)
        dripping.sendall(WHOLE[:-4])
        with pytest.raises(ConnectionError):
            while True:
                dripping.sendall(b"e")
                time.sleep(0.02)
        assert honest.recv(1000).startswith(b"HTTP/1.1 200")
        honest.sendall(WHOLE[:5])  # the next one on the same connection is held to it too
        while honest.recv(1000):
            pass


def test_one_address_holds_so_many_connections_and_no_more() -> None:
    with served(most=2, head=60.0) as where:
        first, second = (socket.create_connection(where, timeout=30) for _ in range(2))
        for line in (first, second):
            line.sendall(WHOLE)
        assert all(line.recv(1000).startswith(b"HTTP/1.1 200") for line in (first, second))
        third = socket.create_connection(where, timeout=30)
        assert ended(third)
        first.close()
        second.sendall(WHOLE)
        assert second.recv(1000).startswith(b"HTTP/1.1 200")  # by then the first one's place is free
        fourth = socket.create_connection(where, timeout=30)
        fourth.sendall(WHOLE)
        assert fourth.recv(1000).startswith(b"HTTP/1.1 200")
