"""How commands speak: results on standard output, everything else on standard error."""

import json as _json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from socketserver import BaseServer

T = TypeVar("T")


def words(given: Sequence[str] | None) -> tuple[Path | None, list[str]]:
    """Return the settings file, if one is named, and the overrides."""
    files = [w for w in given or () if "=" not in w]
    overrides = [w for w in given or () if "=" in w]
    for word in [*files, *overrides]:
        refuse(word)
    if len(files) > 1:
        from ..errors import InputError

        raise InputError(f"give one settings file, got {', '.join(files)}; overrides are key=value")
    return (Path(files[0]) if files else None), overrides


def refuse(word: str) -> None:
    """Refuse a word that is neither a file nor key=value, and say what it may have been."""
    from ..errors import InputError
    from ..methods import CATALOGUE
    from ..reference import everything

    known = {setting.path: setting.example for setting in everything()} if not Path(word).exists() else {}
    if "=" in word and word.strip("="):
        if word.startswith("-") and word.lstrip("-").partition("=")[0].replace("-", "_") in known:
            raise InputError(f"settings are written without dashes: {word.lstrip('-')}")
        return
    key, colon, value = word.partition(":")
    if word.strip("=") == "":
        raise InputError("settings are written without spaces around the equals sign, such as rounds=100")
    if word in CATALOGUE:
        raise InputError(f"'{word}' is a method; write method={word}")
    if colon and key in known and value:
        raise InputError(f"settings are written with an equals sign: {key}={value}")
    if word in known:
        raise InputError(f"'{word}' is a setting without a value; write {known[word]}")


def emit(result: Any, json: bool, show: Callable[[], None]) -> None:
    """Print a result as JSON or as a person reads it."""
    if json:
        print(_json.dumps(result, indent=1, default=str), flush=True)
    else:
        show()


def note(text: str, *, out: bool = False) -> None:
    """Print a line to standard error, or to standard output where it is part of the result."""
    print(text, file=sys.stdout if out else sys.stderr)


def clear() -> None:
    """Begin a terminal's screen anew; what is no terminal keeps every look."""
    if sys.stdout.isatty():
        print("\033[H\033[J", end="")


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a table."""
    from rich.console import Console
    from rich.table import Table

    made = Table(box=None, header_style="bold", pad_edge=False)
    numeric = [
        bool(rows) and all(str(row[i])[:1].isdigit() or str(row[i]) in ("–", "") for row in rows) for i in range(len(columns))
    ]
    for name, right in zip(columns, numeric, strict=True):
        made.add_column(str(name), justify="right" if right else "left", overflow="fold")
    for row in rows:
        made.add_row(*(str(cell) for cell in row))
    Console(width=None if sys.stdout.isatty() else 160, highlight=False, markup=False).print(made)


@contextmanager
def progress(total: int | None, what: str) -> Iterator[Callable[[int, Any], None] | None]:
    """Show rounds as they finish, on a terminal; elsewhere the caller says what it has to say."""
    from ..progress import shown

    with shown(total, what, progress=sys.stderr.isatty()) as on_round:
        yield on_round


def each(items: Sequence[T], what: str) -> Iterable[T]:
    """Yield items under a bar, on a terminal; elsewhere say every so often how many are done."""
    from ..progress import Spoken

    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import track

        yield from track(items, what, console=Console(stderr=True), transient=True)
        return
    lines = Spoken(len(items), what, lambda _: note(f"{what}: {lines.done} of {len(items)}"))
    for item in items:
        yield item
        lines(0, lines.done)


def until_stopped(server: "BaseServer", address: str, show: bool) -> None:
    """Serve until Ctrl-C; ``show`` opens the address in the browser."""
    if show:
        import webbrowser

        webbrowser.open(address)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        note("ended")
