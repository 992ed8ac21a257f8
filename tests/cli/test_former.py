"""Folders that version 0.1.0 wrote still open, report, resume, export and analyse."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from perfed.cli.commands import app
from perfed.machine import kernels

FORMER = Path(__file__).parents[1] / "fixtures" / "v010"
WHOLE = {  # the digest of the run that was stopped, never stopped, by the kernels that it goes on with
    "AVX2": "73496de213a4ef946e1a5e25f011ce77592104c1f58de80ea922868f5b97327c",
    "AVX2, MKL as on Intel": "efa57af955bf4fb129fb1390f5b013e6c49e6902f875fed4c971e225966f351e",
}


@pytest.fixture
def former(tmp_path: Path) -> Path:
    return Path(shutil.copytree(FORMER, tmp_path / "v010"))


def perfed(*words: Any) -> Any:
    done = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.skipif(kernels() not in WHOLE, reason=f"no digest was kept with {kernels()}")
def test_a_stopped_run_goes_on_to_the_digest_of_the_whole_one(former: Path) -> None:
    assert json.loads(perfed("resume", former / "stopped", "--json"))["digest"] == WHOLE[kernels()]


def test_a_finished_run_is_left_as_it_is(former: Path) -> None:
    before = json.loads((former / "finished" / "summary.json").read_text())
    again = json.loads(perfed("resume", former / "finished", "--json"))
    assert again["digests"] == before["digests"] and again["accuracy"] == before["accuracy"]


def test_a_finished_run_can_be_given_more_rounds(former: Path) -> None:
    longer = json.loads(perfed("resume", former / "finished", "--rounds", 4, "--json"))
    assert longer["rounds"] == 4


def test_a_comparison_resumes_to_its_digests(former: Path) -> None:
    before = json.loads((former / "compared" / "summary.json").read_text())
    again = json.loads(perfed("resume", former / "compared", "--json"))
    assert {k: v["digest"] for k, v in again["runs"].items()} == {k: v["digest"] for k, v in before["runs"].items()}


@pytest.mark.parametrize("folder", ["finished", "compared"])
def test_a_page_is_written(former: Path, folder: str) -> None:
    perfed("report", former / folder)
    page = (former / folder / "report.html").read_text()
    assert "FedPer" in page and "<svg" in page


@pytest.mark.parametrize("at", [None, 2])
def test_models_are_exported(former: Path, at: int | None) -> None:
    more = [] if at is None else ["--at", at]
    rows = json.loads(perfed("export", former / "finished", "--client", 1, "--json", *more))
    assert rows[0]["round"] == (3 if at is None else 2) and Path(rows[0]["file"]).stat().st_size > 0


@pytest.mark.parametrize("what", ["fairness", "stability"])
def test_analyses_read_them(former: Path, what: str) -> None:
    found = json.loads(perfed("analyze", former / "finished", what, "--json"))
    assert found["analysis"] == what
