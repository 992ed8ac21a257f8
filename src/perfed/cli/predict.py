"""perfed predict: a model's answers for tables, pictures and arrays."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .models import At, Job, Seed, predictor
from .output import note

if TYPE_CHECKING:
    from collections.abc import Iterable

Model = Annotated[Path, typer.Argument(help="An exported file, a silo's folder, or a run's folder with --client.")]
Client = Annotated[str | None, typer.Option(help="Of a run: the client's number, from 0, or name.")]
Network = Annotated[str | None, typer.Option(help="Of a file with a network of somebody's own: its code, FILE.py:NAME.")]
Method = Annotated[str | None, typer.Option(help="Of a file with a method of somebody's own: its code, FILE.py:CLASS.")]
Trust = Annotated[bool, typer.Option("--trust", help="Load a .pt2 although torch may run code that is in it.")]


def predict(
    model: Model,
    inputs: Annotated[list[Path], typer.Argument(metavar="INPUT...", help="CSV files, pictures or folders of them, npz files.")],
    out: Annotated[Path | None, typer.Option(help="Write to a file, .csv or .json. Default: standard output.")] = None,
    kind: Annotated[str | None, typer.Option("--format", help="csv or json. Default: the file's, else csv.")] = None,
    json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    label: Annotated[
        str | None, typer.Option(help="The column with the true class, to compare with; of pictures: folder; of an npz: y.")
    ] = None,
    keep: Annotated[list[str] | None, typer.Option(help="A column to carry over, such as a number; may be repeated.")] = None,
    client: Client = None,
    seed: Seed = None,
    at: At = None,
    experiment: Job = None,
    network: Network = None,
    method: Method = None,
    trust: Trust = False,
) -> None:
    """Say for every row or picture which class it is, and with which probability.

    Inputs are prepared as the training data was. What does not fit the model is refused, with the file, column and row.
    """
    from ..errors import suggest
    from ..serving.predict import compared, read
    from ..serving.tell import as_csv, as_json, rows_of

    ending = "json" if json else kind or (out.suffix[1:] if out is not None else "csv")
    if ending not in ("csv", "json"):
        raise suggest("format", ending, ("csv", "json"))
    used = predictor(model, client, seed, at, experiment, network, method, trust)
    given = [read(path, used, label, keep or ()) for path in inputs]
    scores = [used.scores(one.x) for one in given]
    checked = compared(used, given, scores)
    rows = rows_of(used, given, scores)
    text = as_csv(rows) if ending == "csv" else as_json(used.card, rows, checked)
    if out is None:
        print(text, end="")
    else:
        from ..disk import put

        put(out, text.encode())
        note(f"{len(rows)} predictions in {out}")
    for line in (*(f"{one.file}: {done}" for one in given for done in one.said), *_said(checked)):
        note(line)


def _said(checked: "dict[str, Any] | None") -> "Iterable[str]":
    """Say how labelled inputs were scored, beside how the model was when it was exported."""
    from ..serving.tell import agrees, share_said

    if checked is None:
        return
    yield f"here: {share_said(checked['now'])}"
    if checked["then"]:
        yield f"when it was trained: {share_said(checked['then'])}; {agrees(checked)}"
