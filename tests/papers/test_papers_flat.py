"""A seed that has learned what it can stops, says so, and can go on as if it had never stopped."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from perfed import papers
from perfed.cli.commands import app
from perfed.errors import InputError
from perfed.papers import show
from perfed.papers.flat import Flat
from perfed.papers.plan import Asked, plans
from perfed.papers.run import Work, remember, run
from perfed.papers.values import Value
from perfed.runs import run as experiment

TINY = ("clients=3", "partition.alpha=5.0", "model=mlp", "data.fraction=0.2", "transport=serial")


@pytest.fixture(autouse=True)
def nothing_downloaded(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setenv("PERFED_DATA", str(tmp_path_factory.mktemp("none")))
    monkeypatch.setenv("PERFED_CACHE", str(tmp_path_factory.mktemp("cache")))


def lines(correct: list[int], validation: list[int] | None = None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{"round": n, "test": {"count": [100], "accuracy": [c / 100]}} for n, c in enumerate(correct)]
    for line, right in zip(found, validation or [], strict=False):
        line["validation"] = {"count": [100], "accuracy": [right / 100]}
    return found


def test_a_curve_is_flat_where_a_block_is_not_above_all_before_by_more_than_noise() -> None:
    """Blocks 60, 62, 61 and 62, 61, 63: means 61 and 62, steps −1 and 2, noise 2·√((1 + 4)/2/2 · (1/3 + 1/3)) = 1.83 points."""
    found = Flat(3).verdict(lines([10, 60, 62, 61, 62, 61, 63]))
    assert found is not None
    assert (found.round, found.flat, found.patience, found.curve) == (6, True, 3, "test, weighted")
    assert (found.mean, found.before, found.noise) == pytest.approx((0.62, 0.61, 0.02 * (5 / 6) ** 0.5))


@pytest.mark.parametrize(
    ("correct", "why"),
    [
        ([10, 60, 62, 61, 63, 64, 65], "3 points more are beyond a noise of 1.15"),
        ([10, 30, 76, 90, 91, 92, 93], "a steep beginning is no noise, though it deviates by 31 points"),
        ([10, 40, 41, 42, 43, 44, 45], "a steady rise is no noise either"),
        ([10, 60, 61, 62], "one block has nothing to be compared with"),
        ([10, 60, 62, 61, 61, 62, 63, 60], "only where a block ends"),
        ([], "nothing has been run"),
    ],
)
def test_a_curve_that_rises_or_is_too_short_goes_on(correct: list[int], why: str) -> None:
    assert Flat(3).verdict(lines(correct)) is None, why


def test_a_curve_that_falls_stops_and_a_late_rise_back_to_an_old_height_is_none() -> None:
    assert Flat(3).verdict(lines([10, 60, 61, 62, 50, 51, 52])) is not None
    assert Flat(3).verdict(lines([10, 80, 81, 82, 50, 51, 52, 80, 81, 82])) is not None


def test_a_plateau_at_the_untrained_models_height_is_a_slow_start() -> None:
    slow = lines([61, 60, 62, 61, 61, 62, 61])
    assert Flat(3).verdict(slow) is None
    found = Flat(3, most=6).verdict(slow)
    assert found is not None and not found.flat


def test_validation_data_decides_where_there_is_any() -> None:
    rising, still = [10, 60, 61, 62, 70, 71, 72], [10, 60, 60, 60, 60, 60, 60]
    assert Flat(3).verdict(lines(rising, still)) is not None
    assert Flat(3).verdict(lines(still, rising)) is None


def test_a_patience_with_too_few_tests_is_refused() -> None:
    with pytest.raises(InputError, match=r"--patience must be at least 15 rounds \(3 tests, one every 5 rounds\), got 10"):
        Flat(10, every=5)


def test_a_curve_that_rises_ends_where_it_is_given_no_more_rounds() -> None:
    rising = lines([10, 60, 62, 61, 63, 64, 65])
    found = Flat(3, most=6).verdict(rising)
    assert found is not None and (found.round, found.flat) == (6, False)
    assert Flat(3, most=9).verdict(rising) is None
    note = found._asdict()
    assert Flat(3, most=6).enough(note)
    assert not Flat(3, most=9).enough(note) and not Flat(3).enough(note)
    assert Flat(3).enough(note | {"flat": True})
    with pytest.raises(InputError, match=r"--at-most must be 2, 3, … times --patience \(3 rounds\), got 7"):
        Flat(3, most=7)


def work(out: Path, patience: int | None = 3, rounds: int = 12, most: int = 6) -> Work:
    """FedAvg, which ends after six rounds, flat or not."""
    loaded = papers.load("fedcp/table2")
    asked = Asked(("mnist-dirichlet", "fedavg"), rounds, None, (0,), TINY, stand_in=True)
    return Work(loaded, plans(loaded, asked), out, "perfed paper …", workers=1, patience=patience, most=most)


def seed(task: Work) -> Path:
    return task.path(task.plans[0]) / "seed-0"


def final(task: Work) -> dict[str, Any]:
    return dict(json.loads((seed(task) / "final.json").read_text()))


def test_a_seed_that_stops_says_so_and_goes_on_to_the_bits_of_one_that_never_stopped(tmp_path: Path) -> None:
    task = work(tmp_path / "a")
    run(task)
    assert final(task)["rounds"] == final(task)["stopped"]["round"] == 6
    manifest = json.loads((seed(task).parent / "manifest.json").read_text())
    assert manifest["stopped"]["0"]["patience"] == 3
    (answer,) = show.answers(task.recipe, task.folder)
    how = "when flat" if final(task)["stopped"]["flat"] else "while rising"
    assert f"stopped {how}, after 6 of 12 rounds" in answer.reduced
    assert not work(tmp_path / "a").rounds  # nothing left
    assert work(tmp_path / "a", patience=4, most=8).rounds  # a longer patience is another question
    run(work(tmp_path / "a", patience=None))
    whole = work(tmp_path / "b", patience=None)
    run(whole)
    assert final(task)["digest"] == final(whole)["digest"]
    (answer,) = show.answers(task.recipe, task.folder)
    assert not any("stopped" in note for note in answer.reduced)


@pytest.mark.parametrize(
    ("flat", "how"), [(0, "while rising"), (1, "1 of 3 seeds when flat, the others while rising"), (3, "when flat")]
)
def test_seeds_of_which_some_were_flat_are_told_apart(flat: int, how: str, monkeypatch: Any, tmp_path: Path) -> None:
    """With --at-most a seed may end flat and another still rising; neither may be called what the other is."""
    task = work(tmp_path)
    remember(task)
    found = Value(90.0, 1.0, 3, rounds=6, planned=12, stopped=(6, 9, 12), flat=flat)
    monkeypatch.setattr(show, "value", lambda *_: found)
    (answer,) = show.answers(task.recipe, task.folder)
    assert f"stopped {how}, after 6 to 12 of 12 rounds" in answer.reduced


def test_a_seed_interrupted_where_it_ends_stops_there_again(tmp_path: Path) -> None:
    task = work(tmp_path)

    def end(_seed: int, done: Any) -> None:
        if done.number == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(task, end)
    assert not (seed(task) / "final.json").exists()
    run(work(tmp_path))
    assert final(task)["rounds"] == 6
    assert len((seed(task) / "rounds.jsonl").read_text().splitlines()) == 7


def test_a_seed_under_way_does_not_count_beside_a_finished_one(tmp_path: Path) -> None:
    task = work(tmp_path, patience=None, rounds=2)
    run(task)
    (alone,) = show.answers(task.recipe, task.folder)
    further = replace(task, plans=plans(task.recipe, Asked(("mnist-dirichlet", "fedavg"), 2, None, (0, 1), TINY, stand_in=True)))

    def end(_seed: int, done: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(further, end)
    (answer,) = show.answers(task.recipe, task.folder)
    assert answer.ours.mean == alone.ours.mean
    assert "seed 1 under way, not counted yet" in answer.reduced
    assert experiment.opened(task.path(task.plans[0])).experiment.seeds == (0, 1)


@pytest.mark.parametrize("option", ["--patience", "--at-most"])
def test_what_only_makes_sense_until_flat_is_refused_without_it(option: str, tmp_path: Path) -> None:
    words = ["paper", "fedcp/table2", option, "20", "--out", str(tmp_path)]
    with pytest.raises(InputError, match=f"{option} goes with --until-flat"):
        CliRunner().invoke(app, words, catch_exceptions=False)


def test_the_plan_counts_no_more_rounds_than_are_given() -> None:
    words = ["paper", "fedcp/table2", "--only", "mnist-dirichlet,fedavg", "--stand-in", "--seeds", "0", "--plan", "--json"]
    whole, part = (
        json.loads(CliRunner().invoke(app, [*words, *more, *TINY], catch_exceptions=False).stdout)
        for more in ([], ["--until-flat", "--at-most", "100"])
    )
    assert (whole["runs"][0]["rounds"], part["runs"][0]["rounds"]) == (2000, 100)
    assert part["bytes"] == whole["bytes"]
