"""perfed serve: a model behind a small web server."""

from pathlib import Path
from typing import Annotated

import typer

from .models import At, Job, Seed, predictor
from .output import emit, note, until_stopped
from .predict import Client, Method, Model, Network, Trust


def serve(
    model: Model,
    port: Annotated[int, typer.Option(help="The port to listen on; 0 takes a free one.")] = 0,
    host: Annotated[
        str, typer.Option(help="The address to listen on; elsewhere than on loopback a token is needed.")
    ] = "127.0.0.1",
    token_file: Annotated[
        Path | None, typer.Option(help="A file with the token that questions must bring; default: one is made up where needed.")
    ] = None,
    rows: Annotated[int, typer.Option(help="Most inputs of one question.")] = 1000,
    megabytes: Annotated[int, typer.Option(help="Most MiB of one question.")] = 16,
    client: Client = None,
    seed: Seed = None,
    at: At = None,
    experiment: Job = None,
    network: Network = None,
    method: Method = None,
    trust: Trust = False,
    show: Annotated[bool, typer.Option("--open", help="Also open its page in the browser.")] = False,
    json: Annotated[bool, typer.Option("--json", help="The address as JSON on standard output.")] = False,
) -> None:
    """Answer POST /predict with a model's predictions, on this machine only unless --host says otherwise; until Ctrl-C.

    GET /schema says what a question looks like, GET /health that it lives, and the page at / lets people try it.
    """
    from ..serving.route import Answering
    from ..serving.serve import model_server, near

    token = _token(token_file, needed=not near(host))
    desk = Answering(predictor(model, client, seed, at, experiment, network, method, trust), rows, megabytes << 20)
    with model_server(desk, host, port, token) as found:
        shown = f"[{host}]" if ":" in host else host
        address = f"http://{shown}:{found.server_port}/"
        made = {"token": token} if token and token_file is None else {}

        def said() -> None:
            note(f"{desk.model.name} answers at {address}predict until Ctrl-C; {address} is a page to try it", out=True)
            if made:
                note(f"token: {token}", out=True)

        emit({"address": address, "model": desk.model.name, **made}, json, said)
        if not found.near:
            note("it listens without TLS: put a proxy with TLS before it, or questions and token can be read on the way")
        until_stopped(found, address, show)


def _token(file: Path | None, *, needed: bool) -> str:
    """Return the token in a file, or a new one where one is needed."""
    import secrets

    from ..errors import InputError

    if file is None:
        return secrets.token_urlsafe(24) if needed else ""
    try:
        found = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as wrong:
        raise InputError(f"cannot read the token in '{file}': {wrong}") from wrong
    if len(found) < 16 or not found.isascii() or any(letter.isspace() for letter in found):
        raise InputError(f"'{file}' holds no token: one line of at least 16 letters, digits and marks, without spaces")
    return found
