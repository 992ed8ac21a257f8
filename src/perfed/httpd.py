"""The pieces of perfed's own small web servers: fixed routes, strict headers, and whom they answer."""

from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class QuietHandler(BaseHTTPRequestHandler):
    """Sends answers with strict headers, and says nothing in the terminal."""

    server_version, sys_version, protocol_version = "perfed", "", "HTTP/1.1"
    timeout = 30  # seconds for which a silent connection is kept
    port: int

    def local(self) -> bool:
        """Whether the browser asks for this machine by its own name: a strange name that leads here is somebody's trick."""
        host, mark, port = self.headers.get("Host", "").rpartition(":")
        return bool(mark) and host in LOOPBACK and port == str(self.port)

    def send(self, status: HTTPStatus, content: bytes, kind: str, *, body: bool = True, mark: str = "") -> None:
        """Answer; ``body`` is whether the content goes along, ``mark`` what a later question may name to be spared it."""
        self.send_response(status)
        for name, value in (HEADERS | {"Content-Type": kind} | ({"ETag": mark} if mark else {})).items():
            self.send_header(name, value)
        if status != HTTPStatus.NOT_MODIFIED:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if body:
            self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: a page that asks every two seconds would fill the terminal."""


class QuietServer(ThreadingHTTPServer):
    """A browser that goes away in the middle of an answer is no error."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of browsers that go away."""
