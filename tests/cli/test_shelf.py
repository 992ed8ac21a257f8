"""What was run is listed, shown, compared and deleted, never without asking."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from perfed.cli.commands import app
from perfed.disk import locked

FORMER = Path(__file__).parents[1] / "fixtures" / "v010"


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    return Path(shutil.copytree(FORMER, tmp_path / "runs"))


def perfed(*words: Any, code: int = 0, answer: str = "") -> Any:
    done = CliRunner().invoke(app, [str(word) for word in words], input=answer)
    assert done.exit_code == code, done.output
    return done


def listed(shelf: Path) -> dict[str, dict[str, Any]]:
    return {Path(row["path"]).name: row for row in json.loads(perfed("runs", "--out", shelf, "--json").stdout)}


def test_runs_are_listed_with_their_state(shelf: Path) -> None:
    (shelf / "broken").mkdir()
    (shelf / "broken" / "settings.yaml").write_text("{")
    rows = listed(shelf)
    assert {name: row["state"] for name, row in rows.items()} == {
        "finished": "finished", "compared": "finished", "stopped": "stopped", "broken": "damaged",
    }  # fmt: skip
    best = json.loads((shelf / "finished" / "summary.json").read_text())["accuracy"]["best"]["weighted"]["mean"]
    assert rows["finished"]["best"] == best and rows["finished"]["done"] == rows["finished"]["total"]
    assert 0 < rows["stopped"]["done"] < rows["stopped"]["total"] and rows["stopped"]["best"] > 0
    assert rows["finished"]["size"] == sum(file.stat().st_size for file in (shelf / "finished").rglob("*") if file.is_file())
    assert "stopped" in perfed("runs", "--out", shelf).stdout


def test_a_run_that_is_trained_at_this_moment_is_running_and_stays(shelf: Path) -> None:
    with locked(shelf / "stopped" / "seed-0" / "lock") as held:
        assert held and listed(shelf)["stopped"]["state"] == "running"
        done = perfed("runs", "rm", shelf / "stopped", "--yes", code=1)
        assert "is being trained" in str(done.exception) and (shelf / "stopped").exists()


def test_one_is_shown(shelf: Path) -> None:
    said = perfed("runs", "show", shelf / "stopped").stdout
    assert "budget.lr" in said and f"`perfed resume {shelf / 'stopped'}` goes on" in said


def test_two_are_compared(shelf: Path) -> None:
    runs = sorted(path.parent for path in (shelf / "compared").glob("*/settings.yaml"))
    rows = json.loads(perfed("runs", "diff", runs[0], runs[1], "--json").stdout)
    assert {"method", "digest"} <= {row["what"] for row in rows}
    assert "do not differ" in perfed("runs", "diff", runs[0], runs[0]).stdout


def test_nothing_is_deleted_without_asking(shelf: Path) -> None:
    perfed("runs", "rm", shelf / "stopped", code=1, answer="n\n")
    assert (shelf / "stopped").exists()
    perfed("runs", "rm", shelf / "stopped", answer="y\n")
    assert not (shelf / "stopped").exists() and (shelf / "finished").exists()


def test_what_is_no_run_is_not_deleted(tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    done = perfed("runs", "rm", tmp_path / "thesis", "--yes", code=1)
    assert "is no run and no comparison" in str(done.exception) and (tmp_path / "thesis").exists()


def test_clean_says_what_can_go_and_takes_what_was_chosen(shelf: Path) -> None:
    half = shelf / "stopped" / "seed-0" / "checkpoint-9.safetensors.half"
    half.write_bytes(b"x" * 100)
    state = next((shelf / "stopped" / "seed-0").glob("checkpoint-*.safetensors"))
    found = json.loads(perfed("runs", "clean", shelf, "--yes", "--json").stdout)
    assert found["bytes"] == 100 and not half.exists() and found["spare"]["states"] > 0 and found["spare"]["snapshots"] > 0
    perfed("runs", "clean", shelf, "--states", "--snapshots", "--yes")
    assert state.exists(), "a stopped run keeps what it goes on from"
    assert not list((shelf / "finished").rglob("*.safetensors.half")) and not list(
        (shelf / "finished").glob("seed-*/checkpoint-*.safetensors")
    )
    assert listed(shelf)["finished"]["state"] == "finished"
