"""Every example runs as it stands and is short enough to read at once."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
PATHS = sorted(EXAMPLES.glob("*.py"))


@pytest.mark.parametrize("path", PATHS, ids=lambda p: p.stem)
def test_the_example_runs(path: Path, tmp_path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 60
    if path.stem == "silos":
        pytest.importorskip("flwr")
    done = subprocess.run(
        [sys.executable, str(path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
