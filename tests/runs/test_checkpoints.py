"""How often a state is written: as often as was asked, else so seldom that writing takes little of the time."""

from pathlib import Path
from typing import Any

import pytest

from perfed.runs import run, seed
from perfed.runs.experiment import Experiment

SMALL: dict[str, Any] = {"clients": 2, "partition": "iid", "data": {"name": "digits", "fraction": 0.1}, "model": "mlp"}


class Clock:
    """A clock that moves when it is told to: by 40 seconds in each round, and by 10 in each write."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("asked", "written"),
    [(None, [1, 6, 11]), (30, list(range(1, 12))), (100, [3, 6, 9, 11]), (0, list(range(1, 12)))],
    ids=["by default", "30", "100", "every round"],
)
def test_states_are_written_as_often_as_asked_and_by_default_seldom(
    asked: float | None, written: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, found = Clock(), list[int]()

    def save(one: seed.Seed, number: int) -> None:
        clock.now += 10
        found.append(number)
        saved(one, number)

    def told(_seed: int, done: Any) -> None:
        clock.now += 40

    saved = seed.Seed._save
    monkeypatch.setattr(seed, "time", clock)
    monkeypatch.setattr(seed.Seed, "_save", save)
    run.run(Experiment(rounds=11, checkpoint=asked, transport="serial", out=tmp_path, **SMALL), on_round=told)
    assert found == written
