"""perfed race and perfed tune on the command line."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from perfed.cli.commands import app
from perfed.errors import InputError
from perfed.runs.race.folder import RaceFolder

SMALL = ["data=digits", "clients=3", "rounds=3", "candidates=2", "seeds=1", "transport=stacked", "workers=1", "every=3"]


def test_race_prints_json_and_can_be_resumed(tmp_path: Path) -> None:
    words = ["race", "methods=fedper", *SMALL, f"out={tmp_path}", "name=first", "--json"]
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    found = json.loads(done.stdout)
    assert found["winner"] in ("fedper", "local", "fedavgft") and found["unequal"] <= 0.35
    assert found["repeat"].startswith("perfed race methods=fedper") and "candidates=2" in found["repeat"]
    folder = RaceFolder(tmp_path / "first")
    again = CliRunner().invoke(app, ["resume", str(folder.path)], catch_exceptions=False)
    assert found["recommendation"] in again.stdout and "train the winner: perfed run" in again.stdout
    assert json.loads((folder.path / "summary.json").read_text())["digests"] == found["digests"]
    assert "race has the rounds" in str(CliRunner().invoke(app, ["resume", str(folder.path), "--rounds", "9"]).exception)


def test_tune_needs_a_method() -> None:
    with pytest.raises(InputError, match="name the method to tune"):
        CliRunner().invoke(app, ["tune", "data=digits"], catch_exceptions=False)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["methods=fedcp", "fedcp.aline=0.1..1"], "no field of fedcp 'aline'; did you mean 'align'"),
        (["methods=fedcp", "ditto.spring=0.1..1"], "ranges are for budget.lr and a racing method's fields"),
        (["methods=fedcp", "steps=5", "minutes=1"], "give one of them"),
        (["methods=fedcp", "sampler=tpee"], "did you mean 'tpe'"),
        (["methods=fedcp", "candidates=0"], "candidates must be a positive number"),
        (["methods=fedcp", "budget.lr=1..0.1"], "smaller to a larger"),
        (["methods=fedcp", "unseen=20"], "keeps all 20 clients out"),
        (["methods=fedcp", "candidate=3"], "no setting 'candidate'"),
    ],
)
def test_what_cannot_be_raced_is_said_in_a_sentence(words: list[str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        CliRunner().invoke(app, ["race", *words], catch_exceptions=False)
