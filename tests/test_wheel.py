"""The wheel is whole: installed into an empty folder, it runs with nothing of the source tree on the path."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import perfed

ROOT = Path(__file__).parents[1]
SCRIPT = """
import sys
sys.path[:0] = {path!r}
from perfed.cli import main

def perfed(*words):
    sys.argv = ["perfed", *words]
    try:
        main()
    except SystemExit as done:
        assert not done.code, words

perfed("run", "method=fedper", "data=digits", "clients=4", "rounds=1", "name=first")
perfed("report", "runs/first")
from perfed import papers
assert papers.load("fedcp/table2").cells()
"""


def python(*words: str, cwd: Path) -> str:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")} | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, *words], cwd=cwd, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def built(place: Path) -> tuple[Path, Path]:
    """Build in a copy, so that nothing left over in the tree can slip in; return the wheel and where it was installed."""
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, place)
    shutil.copytree(ROOT / "src", place / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    quiet = ("-m", "pip", "-q", "--disable-pip-version-check", "--no-input")
    python(*quiet, "wheel", "--no-index", "--no-build-isolation", "--no-deps", "-w", "dist", ".", cwd=place)
    (made,) = (place / "dist").glob("*.whl")
    python(*quiet, "install", "--no-index", "--no-deps", "--no-compile", "--target", "installed", str(made), cwd=place)
    return made, place / "installed"


def test_the_wheel_has_every_file_and_the_packages_version_and_runs_alone(tmp_path: Path) -> None:
    wheel, installed = built(tmp_path)

    info = f"perfed-{perfed.__version__}.dist-info"
    source = ROOT / "src"
    wanted = {str(f.relative_to(source)) for f in (source / "perfed").rglob("*") if f.is_file() and "__pycache__" not in f.parts}
    inside = set(zipfile.ZipFile(wheel).namelist())
    assert not wanted - inside
    assert {name.split("/")[0] for name in inside} == {"perfed", info}

    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    path = [str(installed), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    python("-I", "-S", "-c", SCRIPT.format(path=path), cwd=elsewhere)  # -S: an editable install is not seen
    run = elsewhere / "runs" / "first"
    manifest = json.loads((run / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["versions"]["perfed"] == perfed.__version__
    assert manifest["commit"] is None  # no repository around it
    assert "</html>" in (run / "report.html").read_text(encoding="utf-8")
