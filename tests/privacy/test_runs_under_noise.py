"""Runs with noise: ε in every line, over kills and resumes, until it is enough; the same bits whatever carries the messages."""

import json
from pathlib import Path
from typing import Any

import pytest

import perfed
from perfed.errors import InputError, RunError
from perfed.privacy import epsilon
from perfed.progress import Spoken, word
from perfed.report import read
from perfed.report.guarded import guarded
from perfed.runs import parse
from perfed.runs import run as runs
from perfed.runs.folder import RunFolder
from perfed.runs.purse import Allowance

ASKED = {
    "data": "digits",
    "partition": "iid",
    "clients": 3,
    "rounds": 3,
    "transport": "serial",
    "budget": {"steps": 3},
    "model": {"name": "mlp", "hidden": 8},
}


def settings(out: Path, **more: Any) -> perfed.Experiment:
    return parse.build(ASKED | {"out": str(out)} | more)


def spent(folder: RunFolder) -> list[float]:
    return [line["privacy"]["epsilon"] for line in folder.seed(0).lines.read()]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    noise = {"name": "client", "noise": 3.0, "delta": 1e-4}
    return runs.run(settings(tmp_path_factory.mktemp("runs"), method="fedper", privacy=noise))


def test_every_line_says_what_was_spent(finished: RunFolder) -> None:
    assert spent(finished) == [0.0, *(pytest.approx(epsilon([(1.0, 3.0, n)], 1e-4), abs=1e-6) for n in (1, 2, 3))]
    summary = json.loads((finished.path / "summary.json").read_text())
    assert summary["privacy"]["epsilon"] == spent(finished)[-1]
    assert summary["privacy"]["name"] == "client"


def test_the_table_says_it_in_words(finished: RunFolder) -> None:
    run = read.read(finished.path)
    said = guarded("FedPer", run.settings, run.rounds)
    assert f"ε = {spent(finished)[-1]:.2f} at δ = 0.0001 for all of a client's data" in said


def test_more_rounds_spend_more_and_nothing_falls(finished: RunFolder, tmp_path: Path) -> None:
    before = spent(finished)
    runs.resume(finished, rounds=5)
    assert spent(finished)[:4] == before
    straight = runs.run(settings(tmp_path, method="fedper", rounds=5, privacy={"name": "client", "noise": 3.0, "delta": 1e-4}))
    assert spent(straight) == spent(finished) == sorted(spent(finished))
    assert straight.seed(0).final["digest"] == finished.seed(0).final["digest"]  # type: ignore[index]


def test_training_ends_before_more_is_spent_than_was_granted(tmp_path: Path) -> None:
    two = epsilon([(1.0, 3.0, 2)], 1e-4)
    noise = {"name": "client", "noise": 3.0, "delta": 1e-4, "stop": two + 0.01}
    folder = runs.run(settings(tmp_path, method="fedavg", rounds=9, privacy=noise))
    assert [line["round"] for line in folder.seed(0).lines.read()] == [0, 1, 2]
    final = folder.seed(0).final
    assert final is not None and "round 3 would spend" in final["stopped"]["why"]
    digest = final["digest"]
    runs.resume(folder)  # it stays ended
    assert folder.seed(0).final["digest"] == digest  # type: ignore[index]
    assert spent(folder)[-1] <= two + 0.01


def test_a_budget_too_small_for_a_round_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="less than one round spends"):
        runs.run(settings(tmp_path, privacy={"name": "client", "stop": 0.01}))


@pytest.mark.parametrize("level", ["client", "sample"])
def test_noise_is_the_same_in_several_processes(level: str, tmp_path: Path) -> None:
    found = {}
    for transport in ("serial", "pooled"):
        asked = settings(tmp_path, rounds=1, privacy={"name": level}, transport=transport, name=transport, workers=2)
        found[transport] = runs.run(asked).seed(0).final["digest"]  # type: ignore[index]
    assert len(set(found.values())) == 1


def test_stacked_clients_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="privacy=client clips and noises each client by itself"):
        runs.run(settings(tmp_path, privacy="client", transport="stacked"))


def test_words_in_any_order_mean_the_same() -> None:
    one = parse.load(None, ["privacy=client", "privacy.clip=2"])
    other = parse.load(None, ["privacy.clip=2", "privacy=client"])
    assert one.privacy == other.privacy == perfed.Privacy("client", clip=2.0)
    assert perfed.Experiment(privacy=perfed.Privacy("sample")).privacy.name == "sample"
    assert perfed.Experiment().digest() == perfed.Experiment(privacy="none").digest()
    assert perfed.Experiment().digest() != perfed.Experiment(privacy="client").digest()


def test_progress_says_what_was_spent() -> None:
    heard: list[str] = []
    done = perfed.rounds.Round(4, None, [], epsilon=1.234)
    assert word(done).epsilon == 1.234
    clock = iter([0.0, 100.0])
    Spoken(None, "fedavg", heard.append, lambda: next(clock))(0, done)
    assert heard == ["fedavg seed 0 round 4, ε 1.23"]


def test_where_noise_is_drawn_anew_a_round_that_is_done_again_counts_again(finished: RunFolder, tmp_path: Path) -> None:
    made = runs.reshared(finished, finished.experiment).assemble(finished.experiment, 0)
    place = finished.seed(0)
    for path, counts in ((tmp_path / "a.json", [5, 5, 4]), (tmp_path / "b.json", None)):
        purse = Allowance(made, place, lambda number: [0, 1], away=True)
        purse.file = path
        if counts:
            path.write_text(json.dumps({"round": 4, "rounds": counts}))
        purse.restore(3)
        assert purse.spending is not None and purse.spending.rounds == (counts or [3, 3, 0])
        before = purse.spending.epsilon()
        assert purse.counted(4, [0, 1])["privacy"]["epsilon"] > before  # round 4, a second time
    (tmp_path / "a.json").write_text("{}")
    with pytest.raises(RunError, match="without it nobody knows what was spent"):
        purse.file = tmp_path / "a.json"
        purse.restore(3)


def test_every_page_has_the_methods_sentence() -> None:
    pages = Path(__file__).parents[2] / "docs" / "methods"
    for name in perfed.methods.CATALOGUE:
        text = (pages / f"{name}.md").read_text(encoding="utf-8")
        for level, said in zip(("client", "sample"), perfed.methods.guarded(name), strict=True):
            word_, _, why = said.partition(": ")
            assert f"`privacy={level}`: {why if word_ == 'yes' else f'refused, {why}'}." in text, name
