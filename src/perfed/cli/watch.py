"""perfed watch: a live page of a folder of runs."""

from pathlib import Path
from typing import Annotated

import typer

from .output import emit, note, until_stopped


def watch(
    folder: Annotated[Path, typer.Argument(help="A folder of runs, a comparison or a run.")] = Path("runs"),
    port: Annotated[int, typer.Option(help="The port to listen on; 0 takes a free one.")] = 0,
    show: Annotated[bool, typer.Option("--open", help="Also open it in the browser.")] = False,
    json: Annotated[bool, typer.Option("--json", help="The address as JSON on standard output.")] = False,
) -> None:
    """Serve one page, on this machine only, that shows runs as they grow: states, curves, table, clients; until Ctrl-C.

    It reads and never writes. Other users of this machine can open it too.
    """
    from ..watch.serve import server

    with server(folder, port) as found:
        address = f"http://127.0.0.1:{found.server_port}/"
        emit({"address": address, "folder": str(folder)}, json, lambda: note(f"{folder} is at {address} until Ctrl-C", out=True))
        until_stopped(found, address, show)
