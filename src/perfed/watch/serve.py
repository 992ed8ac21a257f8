"""The server of the live page: fixed routes, GET and HEAD only, for this machine's browser alone."""

import json
import threading
import time
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from ..errors import InputError, PerfedError
from ..httpd import QuietHandler, QuietServer
from .find import Group, groups
from .pulse import held
from .tell import glance, whole

HERE = Path(__file__).parent
FILES = {  # everything that is served from disk; a request never becomes a path
    "/": ("page.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/draw.js": ("draw.js", "text/javascript; charset=utf-8"),
}
FRESH = 1.0  # seconds for which an answer is given again


class Watcher:
    """What is known of a folder; a group is read in full only when somebody looks at it and it has changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.Lock()
        self._groups: dict[str, Group] = {}
        self._overview: tuple[float, dict[str, Any]] = (-1e9, {})
        self._seen: dict[str, tuple[Any, dict[str, Any]]] = {}  # groups that are finished
        self._whole: dict[str, tuple[Any, dict[str, Any]]] = {}

    def overview(self) -> dict[str, Any]:
        """Return all groups at a glance, those at work first."""
        with self._lock:
            then, found = self._overview
            if time.monotonic() - then > FRESH:
                self._groups = {group.id: group for group in groups(self.folder)}
                locked = held()
                seen = [self._glance(group, locked) for group in self._groups.values()]
                seen.sort(key=lambda one: (0, 0, one["id"]) if one["state"] == "running" else (1, -one["changed"], one["id"]))
                found = {"folder": str(self.folder), "groups": seen}
                self._overview = (time.monotonic(), found)
            return found

    def _glance(self, group: Group, locked: frozenset[int]) -> dict[str, Any]:
        mark = _mark(group)
        if self._seen.get(group.id, (None, {}))[0] != mark:
            found = glance(group, locked)
            if found["state"] != "finished":  # whoever is at work may leave without a trace
                return found
            self._seen[group.id] = (mark, found)
        return self._seen[group.id][1]

    def group(self, name: str) -> dict[str, Any] | None:
        """Return everything about a group that the overview names, or ``None``."""
        self.overview()
        with self._lock:
            group = self._groups.get(name)
            if group is None:
                return None
            mark = _mark(group)
            if name not in self._whole or self._whole[name][0] != mark:
                self._whole = {name: (mark, whole(group))}  # one is enough: people look at one
            return self._whole[name][1]


def _mark(group: Group) -> list[Any]:
    """What changes when a group's record does."""
    found: list[Any] = []
    for run in group.runs:
        for seed in run.seeds.values():
            for path in (seed.lines.path, seed.refusals, seed.path):
                try:
                    stat = path.stat()
                except OSError:
                    continue
                found.append((str(path), stat.st_size, stat.st_mtime_ns))
    return found


class Handler(QuietHandler):
    """Answers GET and HEAD on fixed routes."""

    def __init__(self, watcher: Watcher, request: Any, client: Any, server: "WatchServer") -> None:
        self.watcher, self.port = watcher, server.server_port
        super().__init__(request, client, server)

    def do_GET(self) -> None:
        """Answer with a page, a file of it, or what is known of the runs."""
        self._answer(body=True)

    def do_HEAD(self) -> None:
        """Answer as GET does, without the content."""
        self._answer(body=False)

    def _answer(self, *, body: bool) -> None:
        if not self.local():
            self.send(HTTPStatus.FORBIDDEN, b"this page is for the browser of this machine\n", "text/plain", body=body)
            return
        asked = urlsplit(self.path)
        if asked.path in FILES:
            name, kind = FILES[asked.path]
            self.send(HTTPStatus.OK, (HERE / name).read_bytes(), kind, body=body)
        elif asked.path == "/runs.json":
            self._json(self.watcher.overview, body=body)
        elif asked.path == "/group.json":
            name = parse_qs(asked.query).get("id", [""])[0]
            self._json(partial(self.watcher.group, name), body=body)
        else:
            self.send(HTTPStatus.NOT_FOUND, b"there is nothing here\n", "text/plain", body=body)

    def _json(self, ask: Callable[[], Any], *, body: bool) -> None:
        try:
            found = ask()
        except PerfedError as error:
            found = {"error": str(error)}
        if found is None:
            self.send(HTTPStatus.NOT_FOUND, b"there is no such run\n", "text/plain", body=body)
            return
        text = json.dumps(found, allow_nan=False).encode()
        mark = f'"{sha256(text).hexdigest()[:20]}"'
        if self.headers.get("If-None-Match") == mark:
            self.send(HTTPStatus.NOT_MODIFIED, b"", "application/json", body=False, mark=mark)
        else:
            self.send(HTTPStatus.OK, text, "application/json", body=body, mark=mark)


class WatchServer(QuietServer):
    """Listens on loopback."""


def server(folder: Path, port: int = 0) -> WatchServer:
    """Return a server of the live page of a folder, on loopback; port 0 takes a free one."""
    groups(folder)  # refuse what is no folder before anybody opens the page
    try:
        return WatchServer(("127.0.0.1", port), partial(Handler, Watcher(folder)))
    except OSError as error:
        raise InputError(f"port {port} cannot be had ({error.strerror}); --port 0 takes a free one") from error
