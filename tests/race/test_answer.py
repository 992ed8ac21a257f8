"""What a race answers: intervals by hand, words, a page, a table, and what becomes of clients that choose for themselves."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from racing import raced, wanted

from perfed import api
from perfed.report import race_page, recommend
from perfed.report.bootstrap import DRAWS, Interval, draws, interval
from perfed.report.raced import Placed, Raced, columns, plain
from perfed.results import Race, conclude_race
from perfed.runs.race.folder import RaceFolder
from perfed.runs.race.run import run


def test_draws_take_clients_and_seeds_anew_and_the_same_for_all() -> None:
    values = np.array([[[0.5, 0.7], [0.6, 0.8]], [[0.4, 0.6], [0.5, 0.7]]])  # the second is a tenth behind everywhere
    whole, drawn = draws(values, np.array([1.0, 3.0]))
    assert whole == pytest.approx([0.7, 0.6]) and drawn.shape == (DRAWS, 2)
    assert drawn[:, 0] - drawn[:, 1] == pytest.approx(np.full(DRAWS, 0.1))
    assert set(drawn[:, 0].round(6)) <= {  # one or two of two clients, one or two of two seeds
        round(s + c, 6) for s in (0.0, 0.05, 0.1) for c in (0.5, 0.65, 0.7)
    }
    gap = interval(0.1, drawn[:, 0] - drawn[:, 1])
    assert gap.sure and not interval(0.0, drawn[:, 0] - 0.65).sure


def test_a_value_that_is_undefined_leaves_the_mean() -> None:
    whole, _ = draws(np.array([[[0.5, np.nan, 0.9]]]), np.array([1.0, 8.0, 1.0]))
    assert whole == pytest.approx([0.7])


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Raced:
    made = raced(tmp_path_factory.mktemp("answer"), "fedper", own_choice=True)
    conclude_race(made.folder, 1.0)
    return made


def test_the_winner_is_chosen_on_validation_data(found: Raced) -> None:
    scores = {row.name: row.validation for row in found.table}
    assert scores[found.winner] == max(scores.values()) and found.table[0].name == found.winner  # type: ignore[type-var]


def test_the_setting_that_is_shown_is_the_one_that_was_tested(found: Raced) -> None:
    for row in found.table:
        settings = found.records[row.name].settings
        step = row.values.get("budget.lr", found.asked.budget.lr)
        assert settings["budget"]["lr"] == step
        scores = [one["score"] for one in found.standings["rungs"][-1]["standings"] if one["racer"] == row.name]
        assert found.best[row.name]["score"] == max(scores)


def test_the_answer_is_said_in_words(found: Raced) -> None:
    said = recommend.recommendation(found)
    assert said.startswith(found.table[0].title) and "on test samples that nobody had looked at" in said
    assert "Better than Local for" in said or "Collaborating does not pay" in said
    assert "\n" not in said


def placed(name: str, behind: Interval, gain: Interval | None, sent: float) -> Placed:
    return Placed(name, name.title(), {}, 0.9, Interval(0.9, 0.8, 1.0), behind, gain, (3, 1), (2, 0), sent, 1.0, 10, 100)


def answer(over_local: Interval) -> str:
    """What is said of a winner, of a method that sends half of its bytes 2 points behind it, and of Local."""
    rows = [
        placed("ditto", Interval(0.0, 0.0, 0.0), over_local, 100.0),
        placed("fedrep", Interval(0.02, -0.01, 0.05), Interval(0.0, -0.1, 0.1), 50.0),
        placed("local", over_local, None, 0.0),
    ]
    metric = SimpleNamespace(scale=100.0, digits=2, unit="%", title="accuracy")
    asked, plan = SimpleNamespace(choose="accuracy"), SimpleNamespace(plainly=False)
    return recommend.recommendation(SimpleNamespace(table=rows, metric=metric, asked=asked, plan=plan, clients=4))  # type: ignore[arg-type]


def test_what_sends_less_is_named_with_its_distance() -> None:
    said = answer(Interval(0.05, 0.01, 0.09))
    assert "Fedrep is within noise (+2.00 [−1.00, +5.00] behind) and sends 50 % of the bytes." in said
    assert "Local sends nothing" not in said


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        ("lr 0.07, head_epochs 1", "lr~0.07, head_epochs~1"),
        ("69.44 to 78.90", "69.44~to 78.90"),
        ("+6.28 [+3.19, +10.40]", "+6.28 [+3.19,~+10.40]"),
        ("14 / 1 of 20", "14~/~1~of~20"),
    ],
)
def test_cells_of_the_page_break_between_settings_and_at_intervals_alone(cell: str, shown: str) -> None:
    assert race_page._unbroken(cell).replace("\N{NO-BREAK SPACE}", "~") == shown


def test_where_local_is_as_good_nothing_that_sends_less_is_named() -> None:
    said = answer(Interval(0.05, -0.01, 0.09))
    assert "within noise, and Local sends nothing" in said and "of the bytes" not in said


def test_everybody_is_better_worse_or_equal(found: Raced) -> None:
    for row in found.table:
        if row.gain is not None:
            gaps = (found.values(row.name) - found.values("local")).mean(0)
            assert row.clients == (int((gaps > 1e-9).sum()), int((gaps < -1e-9).sum()))
            assert row.gain.value == pytest.approx(gaps.mean())  # all have ten test samples


def test_clients_choose_on_their_own_validation_samples(found: Raced) -> None:
    chosen = recommend.own_choice(found)
    assert chosen is not None and sum(chosen.taken.values()) == chosen.choices == 6
    by_hand = []
    for seed in range(2):
        for client in range(3):
            scores = [
                (-found.values(name, "validation")[seed, client], found.values(name, "validation", "loss")[seed, client], place)
                for place, name in enumerate(chosen.options)
            ]
            by_hand.append((seed, client, chosen.options[min(scores)[2]]))
    test = {name: found.values(name) for name in chosen.options}
    taken = [test[name][seed, client] for seed, client, name in by_hand]
    assert chosen.gain.value == pytest.approx(np.mean(taken) - test[chosen.personal].mean())
    best = [max(test[name][seed, client] for name in chosen.options) for seed, client, _ in by_hand]
    assert chosen.wrong == sum(b > t + 1e-9 for b, t in zip(best, taken, strict=True))
    assert "Validation chose wrongly" in recommend.choice_said(found, chosen)


def test_the_page_shows_the_race_and_how_to_go_on(found: Raced) -> None:
    text = found.folder.page.read_text(encoding="utf-8")
    for part in ("The answer", "The race", "No client left behind", "Equal budgets", "How to repeat it", "<svg"):
        assert part in text
    assert f"perfed run method={found.winner}" in text and "http" not in text.replace("http://www.w3.org", "")


def test_the_commands_name_what_was_settled(found: Raced) -> None:
    train = race_page.train(found)
    assert "split=" in train and "transport=serial" in train and f"rounds={found.table[0].rounds}" in train


def test_a_race_is_a_value_in_python(found: Raced) -> None:
    race = api.open(found.folder.path)
    assert isinstance(race, Race) and race.winner == found.winner
    table = race.table()
    assert table["name"].tolist()[0] == race.winner and (table["test.low"] <= table["test.high"]).all()
    assert race.recommendation in race._repr_html_().replace("&#x27;", "'") and repr(race).startswith("Race(")
    assert race.summary["winner"] == race.winner and json.loads(json.dumps(race.summary))
    assert set(race.final.runs) == set(table["name"])
    head, rows = columns(found)
    assert len(rows) == len(plain(found)) and all(len(row) == len(head) for row in rows)


def test_tuning_shows_what_it_brings(tmp_path: Path) -> None:
    from dataclasses import replace

    asked = replace(wanted(tmp_path, "fedper", seeds=(1,)), alone=True)
    asked = replace(asked, experiments=asked.experiments[:1])
    folder = run(asked)
    made = Raced(folder.path)
    assert made.winner == "fedper" and RaceFolder.there(folder.path)
    names = {row.name for row in made.table}
    assert names == ({"fedper", "fedper-plain"} if made.best["fedper"]["values"] else {"fedper"})
    if len(names) > 1:
        assert "tuning brings" in recommend.recommendation(made)
