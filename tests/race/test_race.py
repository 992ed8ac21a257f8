"""A race is fair, looks at no test sample before its end, and ends the same however often it is killed."""

import os
import random
import signal
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from racing import digests, raced, resumed, samples, wanted

from perfed import disk
from perfed.errors import InputError, RunError
from perfed.report.race_page import render
from perfed.report.raced import Raced, columns, equal
from perfed.report.recommend import recommendation
from perfed.runs.race import ask
from perfed.runs.race.folder import RaceFolder
from perfed.runs.race.prepare import ready
from perfed.runs.race.run import run


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Raced:
    """A race of three methods that nobody interrupted."""
    return raced(tmp_path_factory.mktemp("whole"), "apple")


def test_local_and_fedavg_with_fine_tuning_are_always_in_it(whole: Raced) -> None:
    assert {row.name for row in whole.table} == {"apple", "local", "fedavgft"}


def test_every_method_has_the_same_client_steps(tmp_path: Path) -> None:
    made = raced(tmp_path, "ditto", rounds=18, candidates=6, every=18, seeds=(1,))
    steps, apart = equal(made)
    assert len(steps) == 3 and apart <= 0.01
    lines = {one.path.name: one.seed(0).lines.read() for one in made.folder.runs if one.path.parent.name == "candidates"}
    taken = sum(2 * len(own[-1:]) * (own[-1]["round"]) * 6 for name, own in lines.items() if name.startswith("ditto"))
    assert taken == steps["ditto"]  # twice over two batches of three clients in each round that was really run


def test_survivors_go_on_and_everyone_else_stops_at_its_rung(whole: Raced) -> None:
    sizes = whole.plan.sizes
    assert sizes == [3, 2]
    for racer in whole.plan.racers:
        reached = [whole.folder.candidate(racer.name, n).seed(0).reached for n in range(3)]
        assert reached.count(2) == 1  # one fell out after a third of six rounds, two came to the end
        for rung in whole.standings["rungs"]:
            there = [one for one in rung["standings"] if one["racer"] == racer.name]
            assert len(there) == sizes[rung["rung"]]


def test_the_race_holds_no_test_sample(whole: Raced) -> None:
    for one in whole.folder.runs:
        if one.path.parent.name == "candidates":
            assert not any(map(len, one.seed(0).split().test))
            assert all("test" not in line for line in one.seed(0).lines.read())


def test_a_schedule_is_that_of_a_full_run(whole: Raced) -> None:
    settings = [whole.folder.candidate("apple", number).settings for number in range(3)]
    final = next(one for one in whole.folder.final.runs if one.path.name == "apple").settings
    assert {own["method"]["rounds"] for own in settings} == {final["method"]["rounds"]} == {6}


def test_scrambling_all_test_labels_changes_neither_the_winner_nor_a_digest(whole: Raced, tmp_path: Path) -> None:
    other = raced(tmp_path, "apple", scrambled=True)
    assert other.winner == whole.winner and other.best == whole.best
    assert digests(other.folder.path) == digests(whole.folder.path)
    assert other.table[0].test != whole.table[0].test  # they were scrambled


def killed(out: Path, moment: int) -> None:
    """Run the race in a process that kills itself, with no time to clean up, when it writes a file for the nth time."""
    real, count = disk.put, [0]

    def put(path: Path, content: Any, **named: Any) -> None:
        count[0] += 1
        if count[0] == moment:
            os.kill(os.getpid(), signal.SIGKILL)
        real(path, content, **named)

    disk.put = put  # type: ignore[assignment]
    for module in ("runs.folder", "runs.lines", "runs.place", "runs.race.folder", "runs.code", "partition.split"):
        own = __import__(f"perfed.{module}", fromlist=["put"])
        if hasattr(own, "put"):
            own.put = put
    if RaceFolder.there(out / "race"):
        resumed(out / "race")
    else:
        run(wanted(out, "apple", checkpoint=0))


def interrupted(out: Path, moments: list[int]) -> Raced:
    for moment in moments:
        process = get_context("fork").Process(target=killed, args=(out, moment))
        process.start()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        if not RaceFolder.there(out / "race"):  # it was killed before there was anything to resume
            return interrupted(out.with_name(f"{out.name}-again"), [moment + 20])
    return resumed(out / "race")


def test_kill_9_changes_nothing(whole: Raced, tmp_path: Path) -> None:
    again = interrupted(tmp_path / "race", [45, 70])
    assert again.winner == whole.winner and again.standings == whole.standings
    assert digests(again.folder.path) == digests(whole.folder.path)


@pytest.mark.slow
def test_kill_9_at_ten_random_moments_changes_nothing(whole: Raced, tmp_path: Path) -> None:
    for attempt in range(10):
        again = interrupted(tmp_path / str(attempt), [random.Random(attempt).randrange(4, 200)])
        assert again.winner == whole.winner and digests(again.folder.path) == digests(whole.folder.path)


def test_a_finished_race_is_left_as_it_is(whole: Raced) -> None:
    before = digests(whole.folder.path)
    again = resumed(whole.folder.path)
    assert digests(again.folder.path) == before and again.winner == whole.winner


def test_only_one_process_races_in_a_folder(whole: Raced) -> None:
    with whole.folder.alone(), pytest.raises(RunError, match="raced by another process"):
        resumed(whole.folder.path)


def test_candidates_that_run_away_fall_out(tmp_path: Path) -> None:
    found = raced(tmp_path, "fedper", search={"fedper.budget.lr": (1e6, 1e7)}, seeds=(1,))
    rung = [one for one in found.standings["rungs"][0]["standings"] if one["racer"] == "fedper"]
    assert [bool(one["why"]) for one in rung] == [False, True, True] and "ran away" in rung[1]["why"]
    assert found.best["fedper"]["values"] == {}


def test_refusals_are_one_sentence(tmp_path: Path) -> None:
    def refused(match: str, methods: str = "fedper", **more: Any) -> None:
        with pytest.raises(InputError, match=match) as wrong:
            run(wanted(tmp_path, methods, **more))
        assert "\n" not in str(wrong.value)

    from dataclasses import replace

    empty = replace(samples()[1], validation=([], [], []))
    refused("no validation data|have none", split=empty)
    refused("too few for one rung", rounds=1)
    refused("too few for rounds=6", steps=10, candidates=None)
    refused("undefined for every client", choose="auc", split=one_class(samples()[1]))
    refused("came through", search={"budget.lr": (1e6, 1e7)}, budget={"lr": 1e6, "epochs": 1})
    refused("seed 1 is raced on", seed=1, seeds=(1, 2))
    refused("no sampler", sampler="grid")
    refused("the third follows", steps=5000)
    assert not (tmp_path / "race").exists() or RaceFolder.there(tmp_path / "race")


def one_class(split: Any) -> Any:
    """The same clients, whose validation samples are all of one class each."""
    from dataclasses import replace

    y = samples()[0].y.numpy()
    return replace(split, validation=tuple(own[y[own] == y[own[0]]] for own in split.validation))


def test_steps_pay_for_a_length_or_for_candidates(tmp_path: Path) -> None:
    made = ready(wanted(tmp_path, steps=4000, rounds=6, candidates=None))
    assert made.plan.rounds == 6 and made.purse.total <= 4000
    from dataclasses import replace

    from perfed.runs.race.plan import Purse

    more = Purse(replace(made.plan, candidates=made.plan.candidates + 1), made.purse.meters)
    assert more.total > 4000 or more.full < more.needed
    long = ready(wanted(tmp_path, steps=4000, rounds=None))
    assert long.plan.candidates == 3 and 0.9 * 4000 < long.purse.total <= 4000


def test_minutes_are_measured_once(tmp_path: Path) -> None:
    said: list[str] = []
    made = ready(wanted(tmp_path, minutes=0.5, rounds=None), said.append)
    assert "client-step takes" in said[0] and made.plan.minutes == 0.5
    assert set(made.plan.pilot) == {"fedper", "local", "fedavgft"}
    assert made.plan.plain()["pilot"] == made.plan.pilot  # what a resumed race reads


def test_what_is_fixed_is_not_searched() -> None:
    asked = ask.load(None, ["methods=fedcp,ditto", "fedcp.align=1", "budget.lr=0.1", "ditto.spring=0.5..2", "minutes=1"])
    found = {racer.name: racer.search for racer in ready_names(asked)}
    assert found["fedcp"] == {} and found["local"] == {}
    assert {name: str(space) for name, space in found["ditto"].items()} == {"spring": "0.5..2"}
    assert asked.options["minutes"] == 1


def ready_names(asked: ask.Wanted) -> Any:
    from perfed.data import load
    from perfed.runs.race.prepare import _named

    return _named(asked, load("digits"), 0)


def test_all_leaves_out_what_cannot_run_here(tmp_path: Path) -> None:
    made = ready(wanted(tmp_path, "all", rounds=30))
    assert "BatchNorm" in made.plan.left_out["fedbn"] and "fedcp" in {racer.name for racer in made.plan.racers}
    with pytest.raises(InputError, match="BatchNorm"):
        ready(wanted(tmp_path, "fedbn"))


def test_clients_nobody_has_seen_join_after_the_race_and_decide_nothing(tmp_path: Path) -> None:
    small = {"candidates": 2, "rounds": 2, "seeds": (1,), "unseen": ("b",)}
    found = raced(tmp_path / "one", **small)
    for one in found.folder.runs:
        lines = one.seed(1 if one.path.parent.name == "final" else 0).lines.read()
        assert all(len(line["validation"]["count"]) == 2 for line in lines)  # the seen
        assert ("unseen" in lines[-1]) == (one.path.parent.name == "final")
    by_hand = found.records["fedper"].rounds[1][-1]
    row = next(row for row in found.table if row.name == "fedper")
    assert row.unseen is not None and row.unseen[0] == by_hand["unseen"]["accuracy"][0]
    assert row.unseen[1] == pytest.approx(row.unseen[0] - sum(by_hand["test"]["accuracy"]) / 2)
    head, rows = columns(found)
    assert "unseen" in head and all(len(cells) == len(head) for cells in rows)
    assert "once they have joined" in recommendation(found)
    other = raced(tmp_path / "two", **small, garbled="b")
    assert digests(other.folder.path) == digests(found.folder.path) and other.winner == found.winner


@pytest.mark.parametrize(("choose", "title"), [(None, "R²"), ("mae", "absolute error")])
def test_numbers_are_raced_by_their_own_score(tmp_path: Path, choose: str | None, title: str) -> None:
    found = raced(tmp_path, numbers=True, choose=choose, candidates=3, rounds=3, seeds=(1,))
    assert found.metric.title == title and title in recommendation(found)
    sign = 1 if found.metric.higher else -1
    for racer in found.plan.racers:
        last = [one["score"] for one in found.standings["rungs"][-1]["standings"] if one["racer"] == racer.name]
        assert sign * found.best[racer.name]["score"] == max(sign * score for score in last)
    scores = {row.name: row.validation for row in found.table}
    assert sign * (scores[found.winner] or 0) == max(sign * (value or 0) for value in scores.values())
    assert f"test {title}" in render(found)
