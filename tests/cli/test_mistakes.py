"""Mistakes that people make on the command line, and the sentence that sets them right."""

import shlex
import sys
from pathlib import Path

import pytest
import yaml

from perfed.cli import main

TABLE = yaml.safe_load((Path(__file__).parent / "mistakes.yaml").read_text(encoding="utf-8"))


@pytest.fixture
def nothing_begins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A mistake that is not found would train; it fails here instead."""

    def begun(*_: object, **__: object) -> None:
        raise AssertionError("training began")

    monkeypatch.setattr("perfed.runs.run.finished", begun)
    monkeypatch.setattr("perfed.runs.compare.train", begun)
    monkeypatch.chdir(tmp_path)


def said(given: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> tuple[object, str]:
    monkeypatch.setattr(sys, "argv", ["perfed", *given])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code, capsys.readouterr().err


@pytest.mark.parametrize("entry", TABLE, ids=lambda entry: entry[0])
def test_a_mistake_is_set_right_in_one_sentence(
    entry: list[str], nothing_begins: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, heard = said(shlex.split(entry[0]), monkeypatch, capsys)
    assert code == 2 and "Traceback" not in heard
    assert len(heard.strip().splitlines()) == 1, heard
    assert entry[1] in heard


def test_there_are_many_and_each_is_another() -> None:
    assert len({entry[0] for entry in TABLE}) == len(TABLE) >= 150
