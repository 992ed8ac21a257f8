"""How commands speak: results on standard output, everything else on standard error."""

import json as _json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


def words(given: Sequence[str] | None) -> tuple[Path | None, list[str]]:
    """Return the settings file, if one is named, and the overrides."""
    files = [w for w in given or () if "=" not in w]
    if len(files) > 1:
        from ..errors import InputError

        raise InputError(f"give one settings file, got {', '.join(files)}; overrides are key=value")
    return (Path(files[0]) if files else None), [w for w in given or () if "=" in w]


def emit(result: Any, json: bool, show: Callable[[], None]) -> None:
    """Print a result as JSON or as a person reads it."""
    if json:
        print(_json.dumps(result, indent=1, default=str), flush=True)
    else:
        show()


def note(text: str, *, out: bool = False) -> None:
    """Print a line to standard error, or to standard output where it is part of the result."""
    print(text, file=sys.stdout if out else sys.stderr)


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
    """Show rounds as they finish, on a terminal; elsewhere stay silent."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task(what, total=total)

        def on_round(seed: int, done: Any) -> None:
            number = getattr(done, "number", done)
            text = f"{what} seed {seed} round {number}"
            scores = getattr(done, "scores", {}).get("test")
            if scores:
                from ..evaluate.scores import columns
                from ..evaluate.summary import average

                text += f"  accuracy {average(columns(scores)):.3f}"
            bar.update(task, advance=1, description=text)

        yield on_round


def each(items: Sequence[T], what: str) -> Iterable[T]:
    """Yield items under a bar, on a terminal; elsewhere in silence."""
    from rich.console import Console
    from rich.progress import track

    return track(items, what, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty())
