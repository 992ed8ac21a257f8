"""perfed runs: what was run, how far, how well and how large; show, diff, verify, rm and clean."""

from pathlib import Path
from typing import Annotated, Any

import typer

from .output import emit, note, table

app = typer.Typer(no_args_is_help=False, add_completion=False, rich_markup_mode=None, invoke_without_command=True)
Json = Annotated[bool, typer.Option("--json", help="Machine-readable result on standard output.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


@app.callback()
def listing(
    context: typer.Context,
    out: Annotated[Path, typer.Option(help="The folder of runs.")] = Path("runs"),
    json: Json = False,
) -> None:
    """List runs and comparisons: what, when, how far, best score and of what, size, state."""
    if context.invoked_subcommand:
        return
    from ..shelf import entries
    from ..units import weighed

    found = entries(out)
    rows = [
        [
            own.path,
            own.what,
            own.began[:16].replace("T", " "),
            f"{own.done} of {own.total}",
            _score(own.best, own.scored),
            weighed(own.size),
            own.state,
        ]
        for own in found
    ]
    emit(
        [own.plain() for own in found],
        json,
        lambda: (
            table(["folder", "what", "began (UTC)", "rounds", "best", "size", "state"], rows)
            if rows
            else note(f"no runs in {out}")
        ),
    )


@app.command()
def show(path: Annotated[Path, typer.Argument(help="A run's or a comparison's folder.")], json: Json = False) -> None:
    """Show one run or comparison: state, settings, results."""
    from ..runs.parse import flat
    from ..shelf import entry, results, runs
    from ..units import weighed

    own, parts = entry(path), runs(path)
    details = {run.path.name: {"settings": flat(run.settings), "results": results(run)} for run in parts}

    def text() -> None:
        note(f"{own.path}: {own.what}", out=True)
        note(
            f"began {own.began}, {own.done} of {own.total} rounds, {weighed(own.size)}, {own.state} {own.why}".rstrip(), out=True
        )
        for name, found in details.items():
            note(f"\n{name}", out=True)
            shown = {**found["settings"], **found["results"]}
            table(["setting or result", "value"], [[key, value] for key, value in shown.items() if value not in (None, {}, [])])
        if own.state == "stopped":
            note(f"\n`perfed resume {path}` goes on", out=True)

    emit(own.plain() | {"runs": details}, json, text)


@app.command()
def diff(
    one: Annotated[Path, typer.Argument(help="A run's folder.")],
    other: Annotated[Path, typer.Argument(help="Another run's folder.")],
    json: Json = False,
) -> None:
    """Show the settings and results in which two runs differ."""
    from ..errors import InputError
    from ..shelf import differences, runs

    pair = [runs(path) for path in (one, other)]
    for path, found in zip((one, other), pair, strict=True):
        if len(found) > 1:
            raise InputError(f"'{path}' is a comparison; name one of its runs, such as {found[0].path}")
    rows = differences(pair[0][0], pair[1][0])
    emit(
        [dict(zip(("what", str(one), str(other)), row, strict=True)) for row in rows],
        json,
        lambda: table(["what", str(one), str(other)], rows) if rows else note("they do not differ", out=True),
    )


@app.command()
def rm(
    paths: Annotated[list[Path], typer.Argument(help="Folders of runs or comparisons.")], yes: Yes = False, json: Json = False
) -> None:
    """Delete runs or comparisons, with all they hold, after asking."""
    from ..shelf import remove, runs, weight
    from ..units import weighed

    for path in paths:
        runs(path)  # refuses what is neither
    for path in paths:
        note(f"{path}: {weighed(weight(path))}")
    _sure(yes, f"delete {len(paths)} for good?")
    freed = sum(remove(path) for path in paths)
    emit({"deleted": [str(path) for path in paths], "bytes": freed}, json, lambda: note(f"freed {weighed(freed)}", out=True))


@app.command()
def clean(
    out: Annotated[Path, typer.Argument(help="A folder of runs, or one run.")] = Path("runs"),
    snapshots: Annotated[bool, typer.Option("--snapshots", help="Also states kept for analyses over rounds.")] = False,
    states: Annotated[
        bool, typer.Option("--states", help="Also last states of finished runs: no models, no more rounds.")
    ] = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Say what can be deleted and how much it is; delete what was chosen, after asking."""
    from ..shelf import spare
    from ..units import weighed

    found = spare(out)
    sizes = {why: sum(path.stat().st_size for path in files) for why, files in found.items()}
    chosen = {"half-written": True, "snapshots": snapshots, "states": states}
    rows: list[list[Any]] = [
        [why, len(files), weighed(sizes[why]), "now" if chosen[why] else f"with --{why}"] for why, files in found.items()
    ]
    if not json:
        table(["what", "files", "size", "deleted"], rows)
    going = [path for why, files in found.items() if chosen[why] for path in files]
    if going:
        _sure(yes, f"delete {len(going)} files for good?")
    for path in going:
        path.unlink()
    freed = sum(sizes[why] for why in found if chosen[why])
    result = {"deleted": [str(path) for path in going], "bytes": freed, "spare": sizes}
    emit(result, json, lambda: note(f"freed {weighed(freed)}" if going else "nothing was deleted", out=True))


@app.command()
def verify(
    folders: Annotated[list[Path] | None, typer.Argument(help="Folders of runs, comparisons, races or papers' tables.")] = None,
    json: Json = False,
) -> None:
    """Prove that records are as they were written: every line, note, state and summary against the hashes that name it.

    Ends with code 1 unless all of them hold.
    """
    from ..shelf import proofs

    found = [own for root in folders or [Path("runs")] for own in proofs(root)]
    rows = [[own.path, own.said, own.head[:16] or "–"] for own in found]
    emit([own.plain() for own in found], json, lambda: table(["folder", "what can be proved", "head"], rows))
    if not found:
        note("no runs there")
    if any(own.state in ("disproved", "before") for own in found):
        raise typer.Exit(1)


def _sure(yes: bool, question: str) -> None:
    if not yes and not typer.confirm(question, err=True):
        raise typer.Abort


def _score(value: float | None, of: str) -> str:
    if value is None:
        return "–"
    return f"{value:.3f}" if of == "accuracy" else f"{value:.3f} {of}"
