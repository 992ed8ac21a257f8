"""What leaves a silo, and what slips past its policy: neither names nor numbers, and nothing."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from faraway import Here, folders, silo

from perfed.errors import InputError, RunError
from perfed.silos.conductor import Conductor
from perfed.silos.messages import Ask, SiloAnswer, pack
from perfed.silos.policy import SitePolicy
from perfed.silos.refusals import CODES


def asked(place: Path, **changes: Any) -> Ask:
    """Return a hello of the deployment's experiment, with other settings."""
    carrier = Here(place)
    Conductor(place / "server", carrier).conduct()
    ask = next(a for a in carrier.asked if a.verb == "hello")
    return replace(ask, settings=ask.settings | changes)


def noted(place: Path, client: int = 0) -> str:
    return (place / f"silo-{client}" / "state" / "refused.jsonl").read_text()


@pytest.mark.parametrize("scores", [True, False])
def test_a_patients_name_in_an_error_stays_at_home(tmp_path: Path, scores: bool) -> None:
    place = folders(tmp_path, rounds=1, data="own", policy={"data": ["own"], "scores": scores, "labels": scores})
    for i in range(3):
        (place / f"silo-{i}" / "Ann_Miller.csv").write_text("label,Ann Miller,Ann Miller\nill,40,1\nwell,50,2\n")
        config = {"client": i, "data": {"own": "csv:Ann_Miller.csv"}}
        (place / f"silo-{i}" / "silo.yaml").write_text(yaml.safe_dump(config))
    answers: list[SiloAnswer] = []
    carrier = Here(place, tamper=lambda ask, answer: answers.append(answer) or [answer])  # type: ignore[func-returns-value]
    with pytest.raises(RunError, match="the data are not allowed there, or cannot be read") as told:
        Conductor(place / "server", carrier).conduct()
    said = str(told.value) + "".join(pack(answer)[0] for answer in answers)
    assert "Ann" not in said and str(tmp_path) not in said and {a.refused for a in answers} == {"data"}
    assert "Ann" in noted(place)


@pytest.mark.parametrize(
    ("changes", "policy", "code"),
    [
        ({"method": {"name": "fedrep", "head_epochs": "50"}}, {}, "passes"),
        ({"method": {"name": "fedrep", "options": {"head_epochs": 50}}}, {}, "passes"),
        ({"method": {"name": "pfedme", "steps": 5}}, {"epochs": 4}, "passes"),
        ({"method": {"name": "fedala", "most_epochs": 50}}, {}, "passes"),
        ({"budget": {"epochs": "3"}}, {"epochs": 2}, "passes"),
        ({"budget": {"epochs": 2.5}}, {}, "settings"),
        ({"budget": {"batch_size": 1}}, {"steps": 20}, "steps"),
        ({"model": {"name": "mlp", "hidden": 100_000}}, {}, "parameters"),
        ({"rounds": 6}, {}, "rounds"),
        ({"data": "fashion"}, {}, "data"),
        ({"method": "ditto"}, {"methods": ["fedavg"]}, "method"),
    ],
)
def test_what_is_beyond_the_policy_is_refused_at_hello(
    tmp_path: Path, changes: dict[str, Any], policy: dict[str, Any], code: str
) -> None:
    place = folders(tmp_path, rounds=1)
    ask = asked(place, **changes)
    names = ["fedavg", "fedrep", "pfedme", "fedala"]
    found = yaml.safe_load((place / "silo-0" / "policy.yaml").read_text()) | {"methods": names} | policy
    (place / "silo-0" / "policy.yaml").write_text(yaml.safe_dump(found))
    assert silo(place, 0).answer(ask).refused == code


def test_every_code_is_a_sentence_without_details() -> None:
    assert all(" " in said and "{" not in said for said in CODES.values())


def test_trainings_of_a_day_are_counted_over_experiments_and_not_twice(tmp_path: Path) -> None:
    place = folders(tmp_path, rounds=2, policy={"daily": 3})
    Conductor(place / "server", Here(place)).conduct()
    carrier = Here(place)
    (place / "server" / "experiment.yaml").write_text(
        (place / "server" / "experiment.yaml").read_text().replace("rounds: 2", "rounds: 3")
    )
    with pytest.raises(RunError, match="round 2: 0 of 3"):
        Conductor(place / "server", carrier).conduct()
    assert "3 trainings today" in noted(place)
    last = next(a for a in carrier.asked if a.client == 0 and a.train == 1)
    assert silo(place, 0).answer(last).refused == ""  # the same training again is no further one


def test_scores_and_labels_are_permitted_apart(tmp_path: Path) -> None:
    place = folders(tmp_path, rounds=1, policy={"labels": False})
    answers: list[SiloAnswer] = []
    carrier = Here(place, tamper=lambda ask, answer: answers.append(answer) or [answer])  # type: ignore[func-returns-value]
    Conductor(place / "server", carrier).conduct()
    assert any(a.scores for a in answers) and not any("labels" in a.facts for a in answers)


def reported(place: Path) -> list[SiloAnswer]:
    answers: list[SiloAnswer] = []
    carrier = Here(place, tamper=lambda ask, answer: answers.append(answer) or [answer])  # type: ignore[func-returns-value]
    Conductor(place / "server", carrier).conduct()
    return answers


def test_scores_are_permitted_by_name_and_the_rest_stays_at_home(tmp_path: Path) -> None:
    place = folders(tmp_path, rounds=1, metrics=["balanced_accuracy"], after=True)
    for i, names in enumerate((["accuracy"], ["loss"], [])):
        policy = place / f"silo-{i}" / "policy.yaml"
        policy.write_text(yaml.safe_dump(yaml.safe_load(policy.read_text()) | {"scores": names}))
    found: dict[int, set[str]] = {0: set(), 1: set(), 2: set()}
    for answer in reported(place):
        for row in (*answer.scores, *([answer.after] if answer.after else [])):
            found[answer.client] |= row.keys()
        assert ("majority" in answer.facts) == (answer.client == 0)
    assert found == {0: {"count", "accuracy"}, 1: {"count", "loss"}, 2: set()}
    last = json.loads(next(place.rglob("rounds.jsonl")).read_text().splitlines()[-1])["test"]
    assert last["accuracy"][0] is not None and last["accuracy"][1:] == [None, None] and "balanced_accuracy" not in last


def test_scores_of_too_few_samples_are_not_reported(tmp_path: Path) -> None:
    place = folders(tmp_path, rounds=1, policy={"fewest": 10**6})
    answers = reported(place)
    assert {key for a in answers for row in a.scores for key in row} == {"count"}
    assert not any("majority" in a.facts for a in answers)


def test_a_metric_that_nobody_knows_is_no_permission() -> None:
    with pytest.raises(InputError, match="accuracy"):
        SitePolicy.of({"scores": ["acuracy"]})
    with pytest.raises(InputError, match="scores must be"):
        SitePolicy.of({"scores": "accuracy"})


def test_data_for_another_task_is_refused_in_a_sentence(tmp_path: Path) -> None:
    place = folders(tmp_path, rounds=1, data="ward", partition="iid", policy={"data": ["ward"]}, model="mlp")
    for i in range(3):
        rows = "\n".join(f"{n / 7:.3f},{n % 7},{n % 5}" for n in range(60))
        (place / f"silo-{i}" / "ward.csv").write_text(f"stay,age,weight\n{rows}\n")
        own = {"name": "csv:ward.csv", "label": "stay", "task": "regression"}
        (place / f"silo-{i}" / "silo.yaml").write_text(yaml.safe_dump({"client": i, "data": {"ward": own}}))
    with pytest.raises(RunError, match="the data are not allowed there, or cannot be read"):
        Conductor(place / "server", Here(place)).conduct()
    assert "the experiment is for classification, and 'ward' is for regression here" in noted(place)


def test_the_old_permission_is_named_with_what_it_became() -> None:
    with pytest.raises(InputError, match="scores and labels"):
        SitePolicy.of({"metrics": True})


def tables(tmp_path: Path, headers: list[str]) -> Path:
    place = folders(tmp_path, rounds=1, data="ward", partition="iid", policy={"data": ["ward"]}, model="mlp")
    for i, header in enumerate(headers):
        rows = "\n".join(f"{n % 2},{n % 7},{n % 5}" for n in range(60))
        (place / f"silo-{i}" / "ward.csv").write_text(f"{header}\n{rows}\n")
        config = {"client": i, "called": f"Hospital {i}", "data": {"ward": {"name": "csv:ward.csv", "label": "label"}}}
        (place / f"silo-{i}" / "silo.yaml").write_text(yaml.safe_dump(config))
    return place


def test_tables_with_other_columns_take_no_part(tmp_path: Path) -> None:
    place = tables(tmp_path, ["label,age,weight", "label,weight,age", "label,age,weight"])
    run = Conductor(place / "server", Here(place)).conduct()
    refused = [json.loads(text) for text in (run / "seed-0" / "refused.jsonl").read_text().splitlines()]
    assert {r["client"] for r in refused} == {1} and all("columns" in r["why"] for r in refused)


def test_a_silo_with_its_own_data_keeps_its_name(tmp_path: Path) -> None:
    place = tables(tmp_path, ["label,age,weight"] * 3)
    run = Conductor(place / "server", Here(place)).conduct()
    assert json.loads((run / "seed-0" / "clients.json").read_text())["names"] == ["Hospital 0", "Hospital 1", "Hospital 2"]


def test_an_older_experiments_model_can_be_had_whatever_the_policy_says_now(tmp_path: Path) -> None:
    place = folders(tmp_path, rounds=1)
    Conductor(place / "server", Here(place)).conduct()
    (first,) = silo(place, 0).experiments()
    old = (place / "server" / "experiment.yaml").read_text()
    (place / "server" / "experiment.yaml").write_text(old.replace("rounds: 1", "rounds: 2"))
    Conductor(place / "server", Here(place)).conduct()
    (place / "silo-0" / "policy.yaml").write_text("methods: []\n")
    own = silo(place, 0)
    assert own.experiments()[0] == first and len(own.experiments()) == 2
    assert own.model(first[:8])[2].score == 1 and own.model()[2].score == 2
    with pytest.raises(InputError, match="0 experiments here begin with 'zz'"):
        own.model("zz")


def test_a_silo_known_to_be_away_does_not_cost_the_deadline(tmp_path: Path) -> None:
    """It says hello, leaves, and every later round closes at once; the deadline would be an hour."""
    place = folders(tmp_path, rounds=3)
    terms = yaml.safe_load((place / "server" / "server.yaml").read_text()) | {"deadline": 3600, "gone": 0.2}
    (place / "server" / "server.yaml").write_text(yaml.safe_dump(terms))
    seen = 0

    def away(client: int) -> bool:
        nonlocal seen
        seen += client == 2
        return client == 2 and seen > 1

    run = Conductor(place / "server", Here(place, away=away)).conduct()
    found = [json.loads(text) for text in (run / "seed-0" / "rounds.jsonl").read_text().splitlines()]
    assert [line.get("absent") for line in found] == [None, [2], [2], [2]]
    assert all("not at the link for" in line["missing"]["2"] for line in found)
