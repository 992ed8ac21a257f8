"""perfed audit: what a run's uploads give away, by attacks that were shown to work."""

from pathlib import Path
from typing import Annotated

import typer

from .output import emit, note, table

Json = Annotated[bool, typer.Option("--json", help="Machine-readable result on standard output.")]


def audit(
    run: Annotated[Path, typer.Argument(help="A run's folder.")],
    profile: Annotated[str | None, typer.Option(help="hospital: what must hold; exit code 1 if it is not shown.")] = None,
    client: Annotated[int, typer.Option(help="The client that is attacked.")] = 0,
    seed: Annotated[int | None, typer.Option(help="One of the run's seeds; default: the first.")] = None,
    steps: Annotated[int, typer.Option(help="Steps of an inversion's search.")] = 800,
    shadows: Annotated[int, typer.Option(help="Models by which membership is told.")] = 16,
    out: Annotated[Path | None, typer.Option(help="Where page and values go; default: RUN/audit.")] = None,
    json: Json = False,
) -> None:
    """Attack what a run's method uploads: inversion, membership, shares of labels; each beside a control that must succeed."""
    from ..analysis import audit as audits
    from ..analysis.catalogue import finite
    from ..analysis.subject import Subject
    from ..disk import put_json
    from ..errors import suggest
    from ..report.page import put

    audits.checked(shadows, steps)
    if profile is not None and profile not in audits.PROFILES:
        raise suggest("profile", profile, audits.PROFILES)
    found = audits.audit(Subject(run, seed), client, steps, shadows)
    failed = audits.held_to(found, profile) if profile else []
    folder = out or run / "audit"
    written = put(audits.page(found, f"Privacy audit of {run.name}", profile or "", failed), folder, "audit.html")
    result = {"run": str(run), **found.plain(), "profile": profile, "failed": failed, "page": str(written)}
    put_json(folder / "audit.json", finite(result))

    def show() -> None:
        for line in found.says():
            note(line, out=True)
        if profile:
            rows = [[line] for line in failed] or [["all of it is shown"]]
            table([f"profile {profile}"], rows)
        note(f"wrote {written}")

    emit(finite(result), json, show)
    if failed:
        raise typer.Exit(1)
