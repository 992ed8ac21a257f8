"""perfed settings: every setting with type, default, meaning, an example and what it applies to."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .output import emit, note, table

if TYPE_CHECKING:
    from ..reference import Setting


def settings(
    name: Annotated[str | None, typer.Argument(help="One setting, such as budget.lr, or a part, such as budget.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Machine-readable result on standard output.")] = False,
) -> None:
    """List every setting, or show one: type, default, meaning, an example, and which methods or data have it."""
    from ..reference import everything, find

    found = list(everything()) if name is None else find(name)
    rows = [asdict(one) | {"example": one.example, "applies": list(one.applies)} for one in found]
    emit(rows, json, lambda: _one(found) if name is not None and len({one.path for one in found}) == 1 else _all(found))


def _one(found: list["Setting"]) -> None:
    from ..reference import plain

    note(found[0].path, out=True)
    for one in found:
        lines = {"of": _applies(one, most=99), "meaning": one.meaning, "type": one.type, "default": plain(one.default)}
        lines["example"] = one.example
        note("\n" + "\n".join(f"  {what:8} {said}" for what, said in lines.items() if said), out=True)


def _all(found: list["Setting"]) -> None:
    from ..reference import plain

    rows: list[list[Any]] = [[one.path, one.type, plain(one.default), one.meaning, _applies(one)] for one in found]
    table(["setting", "type", "default", "meaning", "of"], rows)
    note(
        "\n`perfed settings budget.lr` shows one with an example; key=value sets it for `perfed run` and `perfed compare`",
        out=True,
    )


def _applies(one: "Setting", most: int = 4) -> str:
    shown = list(one.applies[:most])
    return ", ".join(shown) + (f" and {len(one.applies) - most} more" if len(one.applies) > most else "")


def complete(incomplete: str) -> list[str]:
    """Return what key=value may go on to, for the shell."""
    from ..methods import CATALOGUE
    from ..reference import everything, names

    key, mark, _ = incomplete.partition("=")
    if not mark:
        return [f"{path}=" for path in dict.fromkeys(one.path for one in everything()) if path.startswith(key)]
    if key == "method":
        values = list(CATALOGUE)
    elif key in ("partition", "model", "data"):
        values = sorted(names(key))
    else:
        values = [value for one in everything() if one.path == key and " | " in one.type for value in one.type.split(" | ")]
    return [whole for whole in (f"{key}={value}" for value in values) if whole.startswith(incomplete)]
