"""perfed join: a client with data of its own comes when a run is over."""

from pathlib import Path
from typing import Annotated, Any

import typer

from .output import emit, note, table

WORDS = ("data", "epochs", "name", "seed")


def join(
    run: Annotated[Path, typer.Argument(help="A run's folder.")],
    given: Annotated[
        list[str] | None,
        typer.Argument(metavar="data=… [name=…] [epochs=…]", help="The newcomer's data, such as data=csv:oslo.csv."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="A folder for its model. Default: newcomers/NAME in the run's folder.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Machine-readable result on standard output.")] = False,
) -> None:
    """Give a client that took no part in a run a model of its own; the run is not changed.

    It receives what the method has for a newcomer, fits its own parts on its own samples, and is tested before and after. Also:
    data.* (options of the data, such as data.label=diagnosis) and seed=… (which seed of the run).
    """
    from ..errors import InputError
    from ..results.joined import join
    from ..runs.folder import RunFolder

    asked, options = _asked(given or [])
    if "data" not in asked:
        raise InputError("say where the newcomer's data are, such as data=csv:oslo.csv")
    new = join(run, str(asked.pop("data")), **asked, **options)
    told = new.save(out or RunFolder(run).newcomers / new.name.replace("/", "-"))

    def show() -> None:
        rows = [[when, *(_shown(told[when][metric]) for metric in metrics)] for when in ("before", "after")]
        table([f"{told['name']}, {told['test']} test samples", *metrics], rows)
        said = f"{told['method']} after round {told['round']}, {told['epochs']} passes over {told['train']} training samples"
        note(f"{said}; model: {told['file']}", out=True)

    metrics = [name for name, value in told["after"].items() if name != "count" and not isinstance(value, list)]
    emit(told, json, show)


def _shown(value: Any) -> str:
    return "undefined" if value is None else f"{value:.4f}"


def _asked(given: list[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the words that join knows, and the data's options."""
    from ..errors import InputError, suggest
    from ..runs.parse import value_of

    asked: dict[str, Any] = {}
    options: dict[str, Any] = {}
    for word in given:
        key, mark, value = word.partition("=")
        if not mark or not value:
            raise InputError(f"'{word}' is not a setting; write key=value, such as data=csv:oslo.csv")
        if key.startswith("data."):
            options[key.removeprefix("data.")] = value_of(value)
        elif key in WORDS:
            asked[key] = value if key in ("data", "name") else _whole(key, value)
        else:
            raise suggest("word of join", key, (*WORDS, "data.label"))
    return asked, options


def _whole(key: str, value: str) -> int:
    from ..errors import InputError

    if not value.isdigit():
        raise InputError(f"{key} must be a whole number, got '{value}'")
    return int(value)
