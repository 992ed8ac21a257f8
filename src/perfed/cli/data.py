"""data: list, fetch, split and show."""

from pathlib import Path
from typing import Annotated, Any

import typer

from .output import emit, note, table

app = typer.Typer(no_args_is_help=False, rich_markup_mode=None, invoke_without_command=True)
Json = Annotated[bool, typer.Option("--json", help="Machine-readable result on standard output.")]


@app.callback()
def listing(
    context: typer.Context,
    json: Json = False,
    root: Annotated[Path | None, typer.Option(help="A folder of data sets; default: PERFED_DATA and the cache.")] = None,
) -> None:
    """List every data set with its size, classes, kind, licence and whether it is here."""
    if context.invoked_subcommand:
        return
    from ..data import listing as everything

    found = everything(root)
    columns = ["name", "samples", "classes", "kind", "here", "licence"]
    rows = [
        [
            d["name"],
            "–" if d["samples"] is None else f"{d['samples']:,}",
            d["classes"],
            d["kind"],
            (d.get("edition") or "yes") if d["here"] else "no",
            d["licence"],
        ]
        for d in found
    ]
    emit(found, json, lambda: table(columns, rows))


@app.command()
def fetch(
    name: Annotated[str, typer.Argument(help="A data set of the list.")],
    accept: Annotated[bool, typer.Option("--accept", help="Accept the publisher's terms.")] = False,
    into: Annotated[Path | None, typer.Option(help="Where to keep it; default: the cache.")] = None,
    json: Json = False,
) -> None:
    """Download a data set: resumes where it stopped, checks the checksum, never leaves half a file."""
    from ..data import fetch as get

    with _bar() as progress:
        where = get(name, into=into, accept=accept, progress=progress)
    emit({"name": name, "path": str(where)}, json, lambda: note(f"{name} is in {where}", out=True))


@app.command()
def split(
    settings: Annotated[list[str], typer.Argument(metavar="key=value...", help="data=, partition=, clients=, seed=, out=")],
    json: Json = False,
) -> None:
    """Share a data set among clients and write the split: data=… partition=… partition.alpha=… clients=… seed=… out=FILE."""
    from ..disk import writing
    from ..errors import InputError
    from ..runs import parse
    from ..runs.assemble import samples_of, split_of

    words = dict(word.partition("=")[::2] for word in settings)
    out, seed = words.pop("out", None), words.pop("seed", "0")
    if not out:
        raise InputError("say where to write the split, such as out=my.split")
    asked = parse.load(None, [*(f"{k}={v}" for k, v in words.items()), f"seeds={seed}"])
    samples = samples_of(asked)
    made = split_of(asked, samples, asked.seeds[0])
    with writing(Path(out)):
        Path(out).parent.mkdir(parents=True, exist_ok=True)
        made.save(out)
    sizes = made.sizes().sum(1).tolist()
    result = {
        "path": out,
        "hash": made.digest(),
        "data": made.data,
        "clients": made.clients,
        "settings": made.settings,
        "sizes": sizes,
    }
    emit(
        result,
        json,
        lambda: note(
            f"{made.clients} clients, {min(sizes)} to {max(sizes)} samples each\nhash {made.digest()}\nwrote {out}",
            out=True,
        ),
    )


@app.command()
def show(
    path: Annotated[Path, typer.Argument(help="A split's file, a run's seed folder, or data such as csv:patients.csv.")],
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[key=value...]", help="Of a table: label=, client=, drop= ...")
    ] = None,
    data: Annotated[str | None, typer.Option(help="The data set it is of, for labels and pictures.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the pictures; default: beside the split.")] = None,
    json: Json = False,
) -> None:
    """Print a split and draw it, clients × classes as bubbles and example images; or say what data is, column by column."""
    from ..data import load
    from ..errors import InputError
    from ..partition import Split

    if ":" in str(path) and not path.exists():
        _table(str(path), words or [], json)
        return
    if words:
        raise InputError(f"'{words[0]}' has no effect here: only a table such as csv:patients.csv has options")
    file = path / "split.safetensors" if path.is_dir() else path
    found = Split.load(file)
    result: dict[str, Any] = {
        "hash": found.digest(),
        "data": found.data,
        "clients": found.clients,
        "settings": found.settings,
        "train": [len(r) for r in found.train],
        "validation": [len(r) for r in found.validation],
        "test": [len(r) for r in found.test],
    }
    if data is not None:
        samples = load(data)
        found = Split.load(file, samples.digest())
        result["labels"] = found.label_counts(samples.y.numpy(), len(samples.classes)).tolist()
        result["figures"] = [str(p) for p in _draw(found, samples, out or file.parent)]

    decided = _decided(path)
    if decided is not None:
        result["columns"] = [own.as_json() for own in dict.fromkeys(decided)]

    def rows() -> None:
        sizes = zip(found.names, result["train"], result["validation"], result["test"], strict=True)
        table(["client", "train", "validation", "test"], list(sizes))
        if decided is not None:
            _columns(decided)
        note(f"hash {result['hash']}" + "".join(f"\nwrote {f}" for f in result.get("figures", [])), out=True)

    emit(result, json, rows)


@app.command()
def columns(
    source: Annotated[str, typer.Argument(help="A table, such as csv:patients.csv, or a folder of tables, one per client.")],
    words: Annotated[list[str], typer.Argument(metavar="key=value...", help="label=, client=, drop=, ... and out=FILE")],
    json: Json = False,
) -> None:
    """Decide what becomes of a table's columns and write it to a file, so that silos that train together code rows alike."""
    import json as plain

    from ..disk import put
    from ..errors import InputError

    given = dict(word.partition("=")[::2] for word in words)
    out = given.pop("out", None)
    if not out:
        raise InputError("say where to write the decisions, such as out=columns.json")
    decided, _ = _of_table(source, [f"{key}={value}" for key, value in given.items()])
    if decided is None:
        raise InputError(f"'{source}' is no table, so there is nothing to decide for its columns")
    put(Path(out), plain.dumps(decided.as_json(), indent=1, ensure_ascii=False).encode())
    emit({"path": out, "columns": decided.as_json()}, json, lambda: _columns([decided], f"wrote {out}"))


def _of_table(source: str, words: list[str]) -> tuple[Any, Any]:
    """Return what would be decided from a table's rows but its test rows, or None where it is no table; and its samples."""
    import numpy as np

    from ..data import load
    from ..data.columns import Columns
    from ..data.sheet import Sheet, plain_columns
    from ..runs.parse import value_of

    pairs = (word.partition("=")[::2] for word in words)
    samples = load(source, **{key.removeprefix("data."): value_of(value) for key, value in pairs})
    if samples.kind != "features":
        return None, samples
    sheet = samples.sheet or Sheet(plain_columns(samples.x.numpy()), "none")
    rows = np.arange(len(samples)) if samples.test is None else np.flatnonzero(~samples.test.numpy())
    return sheet.given or Columns.fit(sheet, [rows], "none" if sheet.scale == "none" else "federated"), samples


def _table(source: str, words: list[str], json: bool) -> None:
    decided, samples = _of_table(source, words)
    result = {"rows": len(samples), "task": samples.task, "classes": list(samples.classes), "groups": list(samples.groups)}
    counted = f"{len(samples.classes)} classes" if samples.task == "classification" else samples.task
    owners = f", {len(samples.groups)} clients" if samples.groups else ""
    if decided is None:
        form = "texts" if samples.texts is not None else f"{samples.kind} {'×'.join(map(str, samples.shape))}"
        tested = "" if samples.test is None else f", {int(samples.test.sum())} of them test samples"
        said = f"{len(samples)} samples{tested}, {form}, {counted}{owners}"
        emit(result | {"kind": samples.kind, "shape": list(samples.shape)}, json, lambda: note(said, out=True))
        return
    ending = (
        f"{len(samples)} rows, {counted}{owners}; as decided from all rows but test rows, a run decides from its training rows"
    )
    emit(result | {"columns": decided.as_json()}, json, lambda: _columns([decided], ending))


def _decided(path: Path) -> Any:
    """Return what a seed's folder says of a table's columns, if it is one."""
    from ..runs.folder import SeedFolder

    return SeedFolder(path).columns() if path.is_dir() and path.name.removeprefix("seed-").isdigit() else None


def _columns(decided: Any, ending: str = "") -> None:
    """Print what was decided; where clients scale by their own rows, the first client's."""
    table(["column", "kind", "features", "decided"], [[c.name, c.kind, len(c.features), c.said()] for c in decided[0].columns])
    if len(set(decided)) > 1:
        note("numbers are scaled by each client's own training rows; shown are the first client's", out=True)
    if ending:
        note(ending, out=True)


def _draw(found: Any, samples: Any, folder: Path) -> list[Path]:
    from ..report.canvas import save
    from ..report.pictures import bubbles, examples

    counts = found.label_counts(samples.y.numpy(), len(samples.classes))
    folder.mkdir(parents=True, exist_ok=True)
    written = [folder / "clients-classes.png"]
    save(bubbles(counts, found.names, samples.classes), written[0])
    if samples.kind == "image":
        images = [samples.x[rows[:12].copy()].numpy() for rows in found.train[:20]]
        written.append(folder / "examples.png")
        save(examples(images, list(found.names[:20])), written[1])
    return written


def _bar() -> Any:
    """Return a context with a callback ``(file, bytes, total)`` that draws on a terminal."""
    import sys
    from contextlib import contextmanager

    @contextmanager
    def shown() -> Any:
        if not sys.stderr.isatty():
            yield None
            return
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

        with Progress(
            TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), console=Console(stderr=True)
        ) as bar:
            tasks: dict[str, Any] = {}

            def progress(file: str, done: int, total: int | None) -> None:
                if file not in tasks:
                    tasks[file] = bar.add_task(file, total=total)
                bar.update(tasks[file], completed=done, total=total)

            yield progress

    return shown()
