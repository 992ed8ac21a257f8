"""A model as a small web server: one route that answers, its schema, its health, and a page to try it."""

import hmac
import ipaddress
import json
import logging
import socket
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ..errors import InputError, PerfedError
from ..httpd import QuietHandler, QuietServer
from .route import Answering

HERE = Path(__file__).parent
FILES = {  # everything that is served from disk; a request never becomes a path
    "/": ("page.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
}
JSON = "application/json"
log = logging.getLogger("perfed.serve")


class ModelHandler(QuietHandler):
    """Answers GET on the page, the schema and the health, and POST on one route."""

    def __init__(self, desk: Answering, token: str, request: Any, client: Any, server: "ModelServer") -> None:
        self.desk, self.token, self.near, self.port = desk, token, server.near, server.server_port
        super().__init__(request, client, server)

    def do_GET(self) -> None:
        """Answer with the page, a file of it, the schema or the health."""
        self._get(body=True)

    def do_HEAD(self) -> None:
        """Answer as GET does, without the content."""
        self._get(body=False)

    def _get(self, *, body: bool) -> None:
        path = urlsplit(self.path).path
        if not self._known():
            self._tell(HTTPStatus.FORBIDDEN, "this model is for the browser of this machine", body=body)
        elif path in FILES:
            name, kind = FILES[path]
            self.send(HTTPStatus.OK, (HERE / name).read_bytes(), kind, body=body)
        elif path == "/health":
            self._json(HTTPStatus.OK, {"status": "ok", "token": bool(self.token)}, body=body)
        elif path == "/schema":
            if self._allowed(body=body):
                self._json(HTTPStatus.OK, self.desk.schema(), body=body)
        elif path == "/predict":
            self._tell(HTTPStatus.METHOD_NOT_ALLOWED, "questions are asked by POST; GET /schema says how", body=body)
        else:
            self._tell(HTTPStatus.NOT_FOUND, "there are /, /schema, /health and POST /predict", body=body)

    def do_POST(self) -> None:
        """Answer a question."""
        self.close_connection = True  # what is refused is not read, and must not be taken for the next question
        if not self._known():
            self._tell(HTTPStatus.FORBIDDEN, "this model is for this machine")
        elif urlsplit(self.path).path != "/predict":
            self._tell(HTTPStatus.NOT_FOUND, "questions go to /predict")
        elif self._allowed():
            self._question()

    def _question(self) -> None:
        kind = self.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        told = self.headers.get("Content-Length", "")
        if kind != JSON:  # a page of elsewhere cannot send it without being asked first, and is never answered
            self._tell(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"questions are of the type {JSON}")
        elif not told.isdigit():
            self._tell(HTTPStatus.LENGTH_REQUIRED, "a question says its Content-Length")
        elif int(told) > self.desk.body:
            self._tell(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a question has at most {self.desk.body} bytes, this one {told}")
        else:
            try:
                self._json(HTTPStatus.OK, self.desk.answer(self.rfile.read(int(told))))
            except PerfedError as refused:
                self._tell(HTTPStatus.BAD_REQUEST, str(refused))
            except OSError:
                raise  # the other side went away
            except Exception:
                log.exception("a question failed")
                self._tell(HTTPStatus.INTERNAL_SERVER_ERROR, "the model failed on this question; the server's log says why")

    def _known(self) -> bool:
        """Whether it is asked for by a name of its own; where it listens elsewhere, the token is what counts."""
        return not self.near or self.local()

    def _allowed(self, *, body: bool = True) -> bool:
        given = self.headers.get("Authorization", "")
        if not self.token or hmac.compare_digest(given.encode(), f"Bearer {self.token}".encode()):
            return True
        self._tell(HTTPStatus.UNAUTHORIZED, "the token is missing or wrong; send it as Authorization: Bearer TOKEN", body=body)
        return False

    def _tell(self, status: HTTPStatus, why: str, *, body: bool = True) -> None:
        self._json(status, {"error": why}, body=body)

    def _json(self, status: HTTPStatus, found: Any, *, body: bool = True) -> None:
        self.send(status, json.dumps(found, allow_nan=False, default=str).encode(), JSON, body=body)


class ModelServer(QuietServer):
    """Listens on loopback, or where it was told to."""

    def __init__(self, address: tuple[str, int], handler: Any) -> None:
        self.near = near(address[0])
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, handler)


def near(host: str) -> bool:
    """Return whether an address is this machine's own loopback."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def model_server(desk: Answering, host: str = "127.0.0.1", port: int = 0, token: str = "") -> ModelServer:
    """Return a server of one model; elsewhere than on loopback it needs a token."""
    if not near(host) and not token:
        raise InputError(f"'{host}' can be reached by others, so a token is needed")
    try:
        return ModelServer((host, port), partial(ModelHandler, desk, token))
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(f"{host}, port {port} cannot be had ({why}); --port 0 takes a free one") from error
