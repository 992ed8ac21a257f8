"""The page with three hospitals and a fourth: its commands, typed as they stand there, end in models that are used."""

import csv
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr")
pytestmark = pytest.mark.flower

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "hospitals.md").read_text(encoding="utf-8")
HEADER = "age,pressure,cholesterol,diagnosis"


def commands() -> list[str]:
    return re.search(r"```sh\n(.*?)```", PAGE, re.S)[1].splitlines()  # type: ignore[index]


def write_table(path: Path, seed: int, count: int = 120) -> None:
    rng = np.random.default_rng(seed)
    age, pressure, fat = rng.normal(60, 10, count), rng.normal(130, 15, count), rng.normal(5, 1, count)
    ill = (age - 60) / 10 + (pressure - 130) / 15 + rng.normal(0, 0.3, count) > 0
    rows = zip(age, pressure, fat, np.where(ill, "ill", "well"), strict=True)
    path.write_text("\n".join([HEADER, *(f"{a:.0f},{p:.0f},{f:.1f},{d}" for a, p, f, d in rows)]) + "\n")


def right(answers: Path, table: Path) -> float:
    found = [row["class"] for row in csv.DictReader(answers.open())]
    known = [line.rpartition(",")[2] for line in table.read_text().splitlines()[1:]]
    assert len(found) == len(known)
    return float(np.mean([a == b for a, b in zip(found, known, strict=True)]))


def test_the_commands_of_the_page_end_in_models_that_are_used(tmp_path: Path) -> None:
    typed = commands()
    assert len(typed) <= 10 and typed[0] == 'pip install "perfed[flower]"'  # which this installation is
    for seed, name in enumerate(("london", "oslo", "rome", "bern", "known")):
        write_table(tmp_path / f"{name}.csv", seed)
    rows = [line.rpartition(",")[0] for line in (tmp_path / "known.csv").read_text().splitlines()]
    (tmp_path / "new.csv").write_text("\n".join(rows) + "\n")
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "perfed"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -c "from perfed.cli import main; main()" "$@"\n')
    program.chmod(0o755)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = os.environ | {"PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    said = ""
    for line in typed[1:]:
        line += f" --port {port}" if " init " in line else ""  # other tests may be at work on the usual one
        done = subprocess.run(line, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        said += done.stdout
    assert "Bern joined after round 20 and has its model" in said
    assert right(tmp_path / "answers.csv", tmp_path / "known.csv") > 0.8
    assert right(tmp_path / "bern-answers.csv", tmp_path / "known.csv") > 0.7
    server = b"".join(path.read_bytes() for path in (tmp_path / "study" / "server").rglob("*") if path.is_file())
    assert not any(row.encode() in server for row in (tmp_path / "rome.csv").read_text().splitlines()[1:])
