"""A run says where it writes, how far it is, and how to go on after a stop."""

import logging
import signal
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import warm

from perfed import progress
from perfed.evaluate.scores import Score

ENDLESS = ["clients=4", "rounds=100000", "partition=iid", "data.fraction=0.2", "transport=serial", "checkpoint=0"]


def after_rounds(folder: Path) -> None:
    lines = folder / "seed-0" / "rounds.jsonl"
    while not lines.exists() or lines.read_text().count("\n") < 4:  # the run has no end: it comes
        time.sleep(0.05)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_run_says_where_it_is_and_how_to_go_on(tmp_path: Path, how: signal.Signals) -> None:
    process = warm.Warm(["run", *ENDLESS, f"out={tmp_path}", "name=it"])
    after_rounds(tmp_path / "it")
    process.send_signal(how)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in said
    lines = said.splitlines()
    assert lines[0] == f"folder: {tmp_path / 'it'}"
    assert lines[1] == "4 clients made by sharing the samples evenly, 89 to 90 samples each; network: mlp"
    assert lines[-1].startswith("stopped after round ") and lines[-1].endswith(f"; `perfed resume {tmp_path / 'it'}` goes on")


def test_a_stopped_comparison_says_how_to_go_on(tmp_path: Path) -> None:
    process = warm.Warm(["compare", "methods=fedavg", *ENDLESS, f"out={tmp_path}", "name=it"])
    after_rounds(tmp_path / "it" / "fedavg")
    process.terminate()
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130 and said.splitlines()[0] == f"folder: {tmp_path / 'it'}"
    assert f"`perfed resume {tmp_path / 'it'}` goes on" in said.splitlines()[-1]


def test_without_a_terminal_a_line_comes_every_so_often() -> None:
    said: list[str] = []
    now = [0.0]
    lines = progress.Spoken(100, "fedcp", said.append, lambda: now[0])
    scored = {"test": [Score(10, {"correct": 8, "accuracy": 0.8}), Score(10, {"correct": 6, "accuracy": 0.6})]}
    for number in range(40):
        now[0] += 1.0
        lines(0, SimpleNamespace(number=number, scores=scored))
    assert said == [
        "fedcp seed 0 round 4, accuracy 0.700, about 1.6 min left",
        "fedcp seed 0 round 34, accuracy 0.700, about 1.1 min left",
    ]


def test_a_round_of_another_process_is_named() -> None:
    said: list[str] = []
    now = [0.0]
    lines = progress.Spoken(None, "compare", said.append, lambda: now[0])
    now[0] = 6.0
    lines(1, progress.Word(3, 0.5, "fedper"))
    assert said == ["fedper seed 1 round 3, accuracy 0.500"]


def test_it_is_switched_off_by_an_argument_or_by_the_logger(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[int] = []
    with progress.shown(3, "it", progress=False, on_round=lambda seed, done: heard.append(done)) as on_round:
        assert on_round is not None
        on_round(0, 7)
    assert heard == [7] and progress.wanted(True)
    monkeypatch.setattr(progress.LOGGER, "level", logging.WARNING)
    assert not progress.wanted(True)
