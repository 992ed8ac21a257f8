"""deploy: real silos on Flower."""

from pathlib import Path
from typing import Annotated, Any

import typer

from .output import emit, note, progress, table, words

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)

Part = Annotated[Path, typer.Argument(help="The part's folder.")]
Ordinary = Annotated[bool, typer.Option("--supernode", help="Silos on the engine's ordinary SuperNode: slower.")]
Json = Annotated[bool, typer.Option("--json", help="Machine-readable result on standard output.")]


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(help="A new folder.")],
    settings: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FILE.yaml] [key=value]...", help="The experiment: a YAML file, then overrides."),
    ] = None,
    silos: Annotated[int, typer.Option(help="How many silos.")] = 3,
    host: Annotated[str, typer.Option(help="The name under which silos reach the server.")] = "127.0.0.1",
    listen: Annotated[str, typer.Option(help="The server machine's own address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The link's port; silos on this machine take the ones after it.")] = 8443,
    seeded: Annotated[
        bool, typer.Option("--seeded-private", help="Private parts from the public seed: comparisons only.")
    ] = False,
    json: Json = False,
) -> None:
    """Write certificates, keys, the experiment, each silo's configuration and policy, and start scripts."""
    from ..silos.flower.layout import Address, init

    file, overrides = words(settings)
    terms: dict[str, Any] = {"seeded_private": True} if seeded else {}
    made = init(folder, silos, Address(host=host, port=port, listen=listen), overrides, file, terms)
    emit(
        {"folder": str(folder), "files": [str(p) for p in made]},
        json,
        lambda: note(f"wrote {len(made)} files in {folder}"),
    )


@app.command()
def check(folder: Annotated[Path, typer.Argument(help="A deployment, or one part of it.")], json: Json = False) -> None:
    """Verify certificates, keys, configurations and policies; warn 30 days before a certificate ends."""
    from ..silos.flower.inspect import check

    found = check(folder)
    emit(found, json, lambda: table(["what", "state", "note"], [[f["what"], f["state"], f["note"]] for f in found]))
    if any(f["state"] == "wrong" for f in found):
        raise typer.Exit(1)


@app.command()
def local(folder: Annotated[Path, typer.Argument(help="A deployment.")], supernode: Ordinary = False, json: Json = False) -> None:
    """Run a whole deployment on this machine, on loopback, and end everything that was started."""
    from ..silos.flower import operate

    with progress(None, "deploy") as on_round:
        run = operate.local(folder, note, _told(on_round), ordinary=supernode)
    _show(run, json)


@app.command()
def link(server: Part, json: Json = False) -> None:
    """Keep the link running at the server, until Ctrl-C."""
    from ..silos.flower import operate

    mark = operate.fresh_mark()
    _stay(operate.link(server, mark), mark, server, json)


@app.command()
def silo(folder: Part, supernode: Ordinary = False, json: Json = False) -> None:
    """Keep a silo running, until Ctrl-C; it comes back when the link was away."""
    from ..silos.flower import operate
    from ..silos.flower.engine import misfit

    if not supernode and (why := misfit()):
        note(f"on an ordinary SuperNode: {why}")
        supernode = True
    mark = operate.fresh_mark()
    _stay(operate.silo(folder, mark, supernode), mark, folder, json)


@app.command()
def run(server: Part, json: Json = False) -> None:
    """At the server: run the experiment to its end; after a stop, go on."""
    from ..silos.flower import operate

    mark = operate.fresh_mark()
    with progress(None, "deploy") as on_round, operate.ended([], mark):
        operate.until_healthy(server, [])
        run = operate.follow(server, mark, [], _told(on_round))
    _show(run, json)


def _stay(children: list[Any], mark: str, folder: Path, json: bool) -> None:
    """Keep processes running; as JSON, say first which and where they log."""
    from ..silos.flower import operate

    found = {"folder": str(folder), "keeps": {child.name: str(child.log) for child in children}}
    emit(found, json, lambda: None)
    operate.stay(children, mark)


def _told(on_round: Any) -> Any:
    """Return what is told of each round: a bar on a terminal, else a line."""
    if on_round is not None:
        return lambda seed, line: on_round(seed, line["round"])

    def say(seed: int, line: dict[str, Any]) -> None:
        absent = f", absent {line['absent']}" if line.get("absent") else ""
        note(f"seed {seed} round {line['round']}: {line['seconds']:.1f} s{absent}")

    return say


def _show(run: Path, json: bool) -> None:
    from ..disk import get_json

    path = run / "summary.json"
    found: dict[str, Any] = get_json(path) if path.exists() else {"run": str(run)}

    def show() -> None:
        if "accuracy" in found and found["accuracy"]["last"]:
            note(f"accuracy {found['accuracy']['last']['weighted']['mean']:.4f} after the last round", out=True)
        note(f"run: {run}", out=True)

    emit(found, json, show)
