"""To a type checker all verbs have types: a method that sends or merges something else than it says is found."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src"
SETTINGS = f"""
[mypy]
strict = true
mypy_path = {SRC}
[mypy-torch.*,numpy.*,perfed]
follow_imports = skip
[mypy-perfed.*]
ignore_errors = true
"""  # what surrounds the contract is left out, to be quick
HEAD = """
from dataclasses import dataclass
from typing import Any
from perfed.local import Shard
from perfed.method import Method
from perfed.server import Uploads, average, broadcast
from perfed.task import Task
from perfed.trees import Params

@dataclass(frozen=True, kw_only=True)
"""
TAIL = """
    def init(self, task: Task, clients: int) -> Any: ...
    def local(self, task: Task, down: Any, mine: Any, data: Shard) -> Any: ...
    def predict(self, task: Task, down: Any, mine: Any, x: Any) -> Any: ...
"""
GOOD = """class Good(Method[Params, Params, Params, tuple[()]]):
    send = broadcast
    merge = average
"""
BORROWED = """class Borrowed(Method[Params, str, int, tuple[()]]):
    send = broadcast
    merge = average
"""
WRITTEN = """class Written(Method[Params, str, int, tuple[()]]):
    def send(self, server: Params, client: int) -> int: return client
    def merge(self, server: Params, ups: Uploads[int]) -> str: return ""
"""


@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="needs mypy, of the extra lint")
def test_wrong_verbs_are_found_and_right_ones_pass(tmp_path: Path) -> None:
    (tmp_path / "mypy.ini").write_text(SETTINGS)
    for name, body in {"good": GOOD, "borrowed": BORROWED, "written": WRITTEN}.items():
        (tmp_path / f"{name}.py").write_text(HEAD + body + TAIL)
    command = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "good.py", "borrowed.py", "written.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    found = sorted(line.split(" error: ")[0] for line in done.stdout.splitlines() if " error: " in line)
    at = HEAD.count("\n") + 2  # the line of `send`; `merge` follows
    assert found == [f"{name}.py:{line}:" for name in ("borrowed", "written") for line in (at, at + 1)], done.stdout + done.stderr
