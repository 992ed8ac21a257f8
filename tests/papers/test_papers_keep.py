"""What is kept of a table without its states shows the same digits, and is not taken for something to go on with."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from perfed.cli.commands import app
from perfed.errors import RunError
from perfed.runs.proof import anew
from perfed.runs.verify import verify

WORDS = ["paper", "fedcp/table2", "--only", "mnist-dirichlet,fedavg,fedper"]
TINY = [
    *("--rounds", "2", "--seeds", "0,1", "--stand-in", "--workers", "1"),
    *("clients=3", "partition.alpha=5.0", "model=mlp", "data.fraction=0.2", "transport=serial"),
]


@pytest.fixture(autouse=True)
def nothing_downloaded(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setenv("PERFED_DATA", str(tmp_path_factory.mktemp("none")))
    monkeypatch.setenv("PERFED_CACHE", str(tmp_path_factory.mktemp("cache")))


def said(*words: str) -> str:
    return CliRunner().invoke(app, list(words), catch_exceptions=False).stdout


def test_what_is_kept_shows_the_same_digits_in_less_room(tmp_path: Path) -> None:
    runs, kept = tmp_path / "läufe" / "runs", tmp_path / "kept"
    first = said(*WORDS, *TINY, "--out", str(runs), "--keep", str(kept))
    assert said(*WORDS, "--show", "--out", str(kept)).replace(str(kept), "") == first.replace(str(runs), "")
    files = [path for path in kept.rglob("*") if path.is_file()]
    assert not [path for path in files if path.suffix == ".safetensors" or path.name == "rounds.jsonl"]
    names = {path.name for path in files if "cells" in path.parts}
    assert {"settings.yaml", "manifest.json", "summary.json", "clients.json", "final.json", "rounds.jsonl.gz"} <= names
    assert "machines.json" not in names  # which names the machine; kept records are given away
    assert not [
        path for path in files if path.suffix != ".gz" and any(name in path.read_text() for name in ("läufe", "ufe/runs"))
    ]  # nor where the runs were
    for run in (kept / "cells").iterdir():
        assert verify(run).state == "proved"
        ends = [json.loads((place / "cells" / run.name / "seed-1/final.json").read_text())["chain"] for place in (runs, kept)]
        assert json.loads((run / "seed-1/origin.json").read_text())["copied"] == ends[0] != ends[1]


def test_no_place_of_this_machine_is_kept_even_where_the_runs_have_moved_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [*WORDS, *TINY, "--out", str(tmp_path / "first" / "runs"), "--keep", str(tmp_path / "it's" / "kept")]
    monkeypatch.setattr("sys.argv", ["perfed", *words])
    said(*words)
    moved = (tmp_path / "first").rename(tmp_path / "then") / "runs"
    kept = tmp_path / "again"
    said(*WORDS, "--show", "--out", str(moved), "--keep", str(kept))
    texts = {path: path.read_text() for path in kept.rglob("*") if path.suffix in (".json", ".yaml")}
    assert not [path for path, text in texts.items() if str(tmp_path.parent) in text]
    for run in (kept / "cells").iterdir():
        assert "--out runs --keep kept" in texts[run / "manifest.json"] and "out: runs/cells\n" in texts[run / "settings.yaml"]
        assert verify(run).state == "proved"


def test_a_copy_of_a_copy_names_the_end_of_the_first_record(tmp_path: Path) -> None:
    runs, kept, again = tmp_path / "runs", tmp_path / "kept", tmp_path / "again"
    said(*WORDS, *TINY, "--out", str(runs), "--keep", str(kept))
    for manifest in (kept / "cells").glob("*/manifest.json"):  # as a version kept it that left a place there
        manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"command": f"perfed paper --keep {kept}"}))
        for number in (0, 1):
            anew(manifest.parent / f"seed-{number}")
    said(*WORDS, "--show", "--out", str(kept), "--keep", str(again))
    for run in (again / "cells").iterdir():
        first = json.loads((runs / "cells" / run.name / "seed-1/final.json").read_text())["chain"]
        assert verify(run).state == "proved"
        assert json.loads((run / "seed-1/origin.json").read_text())["copied"] == first
        assert str(kept) not in (run / "manifest.json").read_text()


def test_a_record_that_names_no_place_is_copied_byte_by_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    said(*WORDS, *TINY, "--out", "runs", "--keep", "kept")
    for run in (tmp_path / "kept" / "cells").iterdir():
        assert verify(run).state == "proved"
        for name in ("settings.yaml", "manifest.json", "summary.json", "seed-0/origin.json", "seed-0/final.json"):
            assert (run / name).read_bytes() == (tmp_path / "runs" / "cells" / run.name / name).read_bytes()


def test_a_copy_of_a_run_that_has_gone_on_since_keeps_nothing_of_its_former_end(tmp_path: Path) -> None:
    runs, kept = tmp_path / "runs", tmp_path / "kept"
    said(*WORDS, *TINY, "--out", str(runs), "--keep", str(kept))
    run = next((runs / "cells").glob("fedper-*"))
    for ended in ("seed-1/final.json", "summary.json"):  # as if it were between its last round and its end
        (run / ended).unlink()
    first = said(*WORDS, "--show", "--out", str(runs), "--keep", str(kept))
    assert not [name for name in ("seed-1/final.json", "summary.json") if (kept / "cells" / run.name / name).exists()]
    assert (kept / "cells" / run.name / "seed-0/final.json").exists()
    assert said(*WORDS, "--show", "--out", str(kept)).replace(str(kept), "") == first.replace(str(runs), "")


def test_seeds_that_are_only_kept_cannot_go_on(tmp_path: Path) -> None:
    runs, kept = tmp_path / "runs", tmp_path / "kept"
    said(*WORDS, *TINY, "--out", str(runs), "--keep", str(kept))
    before = (kept / "fedcp-table2" / "cells.json").read_bytes()
    more = json.loads(said(*WORDS, *TINY, "--seeds", "0,1,2", "--out", str(kept), "--json"))
    assert all("keeps the record of a run without its states" in why for why in more["refused"].values())
    assert len(more["refused"]) == 2
    assert (kept / "fedcp-table2" / "cells.json").read_bytes() == before  # which has the command that made the numbers


def test_nothing_is_kept_where_nothing_was_run_or_onto_the_runs_themselves(tmp_path: Path) -> None:
    said(*WORDS, *TINY, "--out", str(tmp_path))
    with pytest.raises(RunError, match="is where the runs are; --keep names another folder"):
        said(*WORDS, "--show", "--out", str(tmp_path), "--keep", str(tmp_path))
