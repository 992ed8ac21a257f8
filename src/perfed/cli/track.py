"""perfed track: tell a tracker of runs that are on disk."""

from pathlib import Path
from typing import Annotated, Any

import typer

from .output import emit, note


def track(
    run: Annotated[Path, typer.Argument(help="A run's or a comparison's folder.")],
    to: Annotated[str, typer.Option("--to", help="tensorboard, mlflow or wandb; several joined by commas.")],
    json: Annotated[bool, typer.Option("--json", help="Machine-readable result on standard output.")] = False,
) -> None:
    """Tell TensorBoard, MLflow or Weights & Biases of runs that were run before, from their record; track= does it live."""
    from ..errors import RunError
    from ..runs.folder import CompareFolder, RunFolder
    from ..runs.parse import flat
    from ..trackers import check, replay
    from ..trackers.tracker import About

    names = [word.strip() for word in to.split(",") if word.strip()]
    check(names)
    compared = CompareFolder.there(run)
    folders = CompareFolder(run).runs if compared else [RunFolder(run)] if RunFolder.there(run) else RunFolder.inside(run)
    if not folders:
        raise RunError(f"'{run}' is neither a run nor a folder of runs")
    rows: list[dict[str, Any]] = []
    for folder in folders:
        settings = {key: value for key, value in flat(folder.settings).items() if value is not None}
        for number, seed in folder.seeds.items():
            about, lines = About(seed.path, folder.path.name, number, settings, run.name if compared else ""), seed.lines.read()
            for name in names:
                rows.append({"run": str(folder.path), "seed": number, "to": name, "rounds": replay(name, about, lines)})
    total = sum(row["rounds"] for row in rows)
    emit(rows, json, lambda: note(f"told {', '.join(names)} of {total} rounds of {len(folders)} runs", out=True))
