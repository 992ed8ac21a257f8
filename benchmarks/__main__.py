"""`python -m benchmarks`: measure every row, print the table, keep it with machine, date and commit."""

import argparse
import json
import os
import platform
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from . import work
from .export import export
from .rays import ROWS as ON_RAY
from .rows import QUICK, ROOT, Row, Scale
from .rows import ROWS as HERE

ROWS = HERE | ON_RAY
RESULTS = Path(__file__).parent / "results"


def machine() -> dict[str, Any]:
    """Return what the figures depend on."""
    names = [line.partition(":")[2].strip() for line in _read("/proc/cpuinfo").splitlines() if line.startswith("model name")]
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit or None,
        "processor": names[0] if names else platform.processor(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "load": round(os.getloadavg()[0], 1),  # of the minute before: a busy machine blurs the ratios
    }


def _read(path: str) -> str:
    return Path(path).read_text() if Path(path).exists() else ""


def line(row: Row) -> str:
    """Return a row of the table."""
    figure = "–" if row.figure is None else f"{row.figure:.3g}"
    verdict = {True: "yes", False: "**no**", None: "–"}[row.met]
    target = "–" if row.target is None else f"{'≥' if row.more else '≤'} {row.target:g}"
    return f"| {row.name} | {row.what} | {figure} | {target} | {verdict} | {row.detail} |"


HEAD = "| row | what | figure | target | met | detail |\n|---|---|---|---|---|---|"


def page(about: dict[str, Any], rows: list[Row]) -> str:
    """Return the results as Markdown."""
    facts = "\n".join(f"- {name}: {value}" for name, value in about.items())
    return f"# Measured\n\n{facts}\n\n{HEAD}\n" + "\n".join(map(line, rows)) + "\n"


def main() -> None:
    ask = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure perfed against plain loops.")
    ask.add_argument("--only", metavar="NAME", action="append", help=f"only these rows: {', '.join(ROWS)} (or how they begin)")
    ask.add_argument("--quick", action="store_true", help="little data, few repeats: a look, not a result")
    ask.add_argument("--repeats", metavar="N", type=int, help="how often what is compared runs in turn (3; 2 with --quick)")
    ask.add_argument("--export", metavar="FOLDER", type=Path, help="also write the clients' data and the figures there")
    ask.add_argument("--flower", metavar="PYTHON", default=sys.executable, help="an interpreter with flwr[simulation] and torch")
    ask.add_argument("--out", metavar="FOLDER", type=Path, default=RESULTS, help="where the table is kept")
    given = ask.parse_args()
    chosen = [name for name in ROWS if not given.only or any(name.startswith(start) for start in given.only)]
    if not chosen:
        ask.error(f"no row is called {given.only}; there are {', '.join(ROWS)}")
    torch.set_num_threads(1)
    scale = replace(QUICK if given.quick else Scale(), flower=given.flower)
    scale = replace(scale, repeats=given.repeats or scale.repeats)
    about, rows = machine() | {"quick": given.quick}, list[Row]()
    print(HEAD, flush=True)
    for name in chosen:
        for row in ROWS[name](scale):
            print(line(row), flush=True)
            rows.append(row)
    about["load at the end"] = round(os.getloadavg()[0], 1)
    given.out.mkdir(parents=True, exist_ok=True)
    stem = given.out / f"{about['date'][:10]}{'-quick' if given.quick else ''}{'-' + '-'.join(given.only) if given.only else ''}"
    plain = [row.plain() for row in rows]
    stem.with_suffix(".md").write_text(page(about, rows), encoding="utf-8")
    stem.with_suffix(".json").write_text(json.dumps({"about": about, "rows": plain}, indent=2) + "\n", encoding="utf-8")
    if given.export:
        export(work.pictures(20, scale.each), given.export, plain)


if __name__ == "__main__":
    main()
