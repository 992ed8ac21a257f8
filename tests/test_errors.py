"""What perfed says when something is missing: a command that works where and how perfed was installed."""

import json
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from perfed.errors import MissingExtra, extra, install
from perfed.machine import checkup


class Installed:
    def __init__(self, told: Any) -> None:
        self.told = told

    def read_text(self, name: str) -> str | None:
        assert name == "direct_url.json"
        return None if self.told is None else json.dumps(self.told)


@pytest.mark.parametrize(
    ("told", "line"),
    [
        (None, 'pip install "perfed[onnx]"'),
        ({"url": "file:///my%20code/perfed", "dir_info": {"editable": True}}, 'pip install -e "/my code/perfed[onnx]"'),
        ({"url": "file:///code/perfed", "dir_info": {}}, 'pip install "/code/perfed[onnx]"'),
        ({"url": "file:///wheels/perfed-1.whl", "archive_info": {}}, 'pip install "perfed[onnx] @ file:///wheels/perfed-1.whl"'),
    ],
)
def test_the_advice_fits_how_perfed_was_installed(told: Any, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "distribution", lambda name: Installed(told))
    assert install("onnx") == line


def test_in_the_source_tree_the_advice_is_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"url": tmp_path.resolve().as_uri(), "dir_info": {"editable": True}}
    monkeypatch.setattr(metadata, "distribution", lambda name: Installed(told))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MissingExtra, match=r'^no_such_module is not installed; pip install -e "\.\[flower\]"$'):
        extra("no_such_module", "flower")


def test_a_tree_that_was_never_installed_names_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", missing)
    monkeypatch.chdir("/")
    assert install("onnx") == f'pip install -e "{Path(__file__).resolve().parents[1]}[onnx]"'
    monkeypatch.setattr("perfed.machine.version", missing)
    assert install("flower") in {check["note"] for check in checkup()["checks"]}
