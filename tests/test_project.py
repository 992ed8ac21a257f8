"""The project's own files say the same: hosted tests, hooks, citation and templates follow the Makefile and pyproject."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
MAKE = (ROOT / "Makefile").read_text(encoding="utf-8")


def read(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


def test_hosted_tests_run_what_make_test_runs() -> None:
    steps = [step.get("run") for job in read(".github/workflows/test.yml")["jobs"].values() for step in job["steps"]]
    asked = [step for step in steps if step]
    assert "make test" in asked
    assert all(step.startswith("make ") and f"\n{step.removeprefix('make ')}:" in MAKE for step in asked)


def test_hosted_tests_begin_with_the_oldest_python_that_is_promised() -> None:
    versions = read(".github/workflows/test.yml")["jobs"]["test"]["strategy"]["matrix"]["python"]
    assert f">={versions[0]}" == PROJECT["requires-python"]


def test_hooks_are_local_and_check_what_lint_checks() -> None:
    (repo,) = read(".pre-commit-config.yaml")["repos"]
    assert repo["repo"] == "local"
    entries = [hook["entry"] for hook in repo["hooks"]]
    for tool in ("ruff check", "ruff format", "mypy"):
        assert f"$(BIN)/{tool}" in MAKE and [e for e in entries if e.startswith(f".venv/bin/{tool}")]


def test_the_version_stands_in_one_place() -> None:
    assert PROJECT["dynamic"] == ["version"] and "version" not in PROJECT
    assert "version" not in read("CITATION.cff")


def test_the_citation_has_what_readers_of_it_require() -> None:
    found = read("CITATION.cff")
    assert {"cff-version", "message", "title", "authors"} <= set(found)
    assert found["license"] == PROJECT["license"]


@pytest.mark.parametrize("path", sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml")), ids=lambda path: path.stem)
def test_issue_templates_are_forms(path: Path) -> None:
    found = read(str(path.relative_to(ROOT)))
    if path.stem == "config":
        assert "blank_issues_enabled" in found
        return
    assert {"name", "description", "body"} <= set(found)
    assert len({part["id"] for part in found["body"]}) == len(found["body"]) > 0
