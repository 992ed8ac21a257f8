"""perfed report: one page about runs, or their table and figures to take elsewhere."""

from pathlib import Path
from typing import Annotated, Any

import typer

from .output import emit, note

Json = Annotated[bool, typer.Option("--json", help="Machine-readable result on standard output.")]


def report(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs or comparisons.")],
    kind: Annotated[str, typer.Option("--format", help="html (the page), or the table alone: md, csv, latex, json.")] = "html",
    out: Annotated[
        Path | None, typer.Option("--out", help="The file; default: report.html in the first folder, a table on standard output.")
    ] = None,
    columns: Annotated[str, typer.Option(help="Of a table: groups or keys, such as last,cost or best.weighted.")] = "",
    figures: Annotated[Path | None, typer.Option(help="A folder for all figures, as PNG, SVG and PDF.")] = None,
    json: Json = False,
) -> None:
    """Write one self-contained HTML page with table, curves, clients and label distribution; or the table, or the figures."""
    from ..errors import InputError
    from ..report import page, tables
    from ..report.formats import draw, text
    from ..report.read import gather, options

    found = gather(runs)
    table = tables.comparison(found, **options(found))
    result: dict[str, Any] = {"format": kind, "table": tables.records(table), "notes": list(table.notes)}
    printed = ""
    if kind == "html":
        if columns:
            raise InputError("--columns is for tables: --format md, csv, latex or json")
        result["report"] = str(page.put(page.render(found), out or runs[0] / "report.html"))
    else:
        printed = text(found, kind, [word.strip() for word in columns.split(",") if word.strip()])
        if out is not None:
            result["report"] = str(page.put(printed, out, f"table.{kind}"))
    if figures is not None:
        result["figures"] = [str(path) for path in draw(found, figures)]

    def show() -> None:
        if "report" not in result:
            note(printed.rstrip("\n"), out=True)
        for path in [result["report"]] if "report" in result else []:
            note(f"wrote {path}")
        if figures is not None:
            note(f"wrote {len(result['figures'])} files in {figures}")

    emit(result, json, show)
