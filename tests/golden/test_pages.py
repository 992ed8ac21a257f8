"""Pages of the five name every field with its default, their recipes are valid, and every page has measured numbers."""

import re
import shlex
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from perfed.methods import find
from perfed.runs.choice import record
from perfed.runs.parse import load

PAGES = Path(__file__).parents[2] / "docs" / "methods"
FIVE = ("dualfed", "fedcac", "fedcp", "fedpick", "gpfl")


def plain(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(f"{v:g}" if isinstance(v, float) else str(v) for v in value)
    return str(value).lower() if isinstance(value, bool) else str(value)


@pytest.mark.parametrize("name", FIVE)
def test_every_field_is_on_the_page_with_its_default(name: str) -> None:
    text = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]*) \|", text, re.M))
    wanted = {f.name: plain(f.default) for f in fields(find(name)) if f.name not in ("budget", "norm")}
    assert {k: v.strip("` ") for k, v in rows.items()} == wanted


@pytest.mark.parametrize("name", FIVE)
def test_the_recipe_is_valid(name: str) -> None:
    text = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    command = re.search(r"```\n(perfed run .*?)```", text, re.S)
    assert command is not None
    settings = load(None, shlex.split(command[1].replace("\\\n", " "))[2:])
    assert settings.method.name == name
    record(find(name), settings.method.options, "method.")


@pytest.mark.parametrize("name", FIVE)
def test_pages_have_their_parts(name: str) -> None:
    text = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    for heading in ("The update", "Fields", "Departures", "Recipe", "Measured", "Reference"):
        assert f"\n## {heading}\n" in text


def test_pages_say_what_the_results_say() -> None:
    script = PAGES.parent / "measured.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", sorted({*PAGES.glob("*.md")} - {PAGES / "index.md"}), ids=lambda page: page.stem)
def test_every_page_has_a_measured_number(page: Path) -> None:
    measured = page.read_text(encoding="utf-8").split("\n## Measured\n", 1)[1].split("\n## ", 1)[0]
    assert re.search(r"\(\.\./results/[\w-]+\.md#[\w-]+\) \| \d+\.\d+ ± ", measured)
