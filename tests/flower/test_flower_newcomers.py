"""Silos that come later and silos that leave, without Flower: who takes part, who has a model, and nobody else is disturbed."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from faraway import POLICY, Here, final, folders, lines, silo

from perfed.data import load
from perfed.disk import get_json
from perfed.errors import InputError, RunError
from perfed.silos.conductor import Conductor
from perfed.silos.exchange import Place
from perfed.silos.flower import membership
from perfed.transport import Newcomers


def newcomer(place: Path, number: int = 3, name: str = "Oslo", **allowed: Any) -> Path:
    """Write a silo that came later, with pictures of its own, and let the server know of it."""
    own, samples = place / f"silo-{number}", load("digits")
    own.mkdir()
    rows = torch.arange(number, 600, 7)
    np.savez(own / "own.npz", x=samples.x[rows].numpy(), y=samples.y[rows].numpy(), classes=np.array(samples.classes))
    data = {"digits": {"name": "npz:own.npz"}}
    (own / "silo.yaml").write_text(yaml.safe_dump({"client": number, "called": name, "data": data}))
    method = yaml.safe_load((place / "server" / "experiment.yaml").read_text())["method"]
    known = method["name"] if isinstance(method, dict) else method
    (own / "policy.yaml").write_text(yaml.safe_dump(POLICY | {"methods": [known], "epochs": 10} | allowed))
    terms = place / "server" / "server.yaml"
    found = yaml.safe_load(terms.read_text())
    more = {"added": found.get("added", 0) + 1, "names": found.get("names", {}) | {name: number}}
    terms.write_text(yaml.safe_dump(found | more))
    return own


def leave(place: Path, number: int) -> None:
    terms = place / "server" / "server.yaml"
    found = yaml.safe_load(terms.read_text())
    terms.write_text(yaml.safe_dump(found | {"removed": [*found.get("removed", []), number]}))


def test_after_training_a_newcomer_has_its_model_and_the_server_is_as_it_was(tmp_path: Path) -> None:
    place = folders(tmp_path, method="apple", partition="iid")
    run = Conductor(place / "server", Here(place)).conduct()
    before = {p.name: p.read_bytes() for p in (run / "seed-0").iterdir() if p.is_file()}
    newcomer(place)
    carrier = Here(place, silos=4)
    Conductor(place / "server", carrier).conduct()
    assert [(ask.verb, ask.client) for ask in carrier.asked] == [("join", 3)]
    after = {p.name: p.read_bytes() for p in (run / "seed-0").iterdir() if p.is_file()}
    told = json.loads(after.pop("newcomers.json"))["3"]
    assert after == before
    assert told["name"] == "Oslo" and told["round"] == 2 and told["after"]["loss"] < told["before"]["loss"]
    model, job, _ = silo(place, 3).model()
    data = job.site.federation
    right = (model.raw(data.x[data.test[0]]).argmax(1) == data.y[data.test[0]]).float().mean()
    assert float(right) == pytest.approx(told["after"]["accuracy"])
    Conductor(place / "server", carrier).conduct()
    assert len(carrier.asked) == 1, "who has joined is not asked again"


def test_where_others_have_long_been_there_an_absent_newcomer_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be an hour, and with everybody just starting it is."""
    place = folders(tmp_path, rounds=1)
    run = Conductor(place / "server", Here(place)).conduct()
    newcomer(place)
    terms = place / "server" / "server.yaml"
    terms.write_text(yaml.safe_dump(yaml.safe_load(terms.read_text()) | {"gone": 3600.0}))
    monkeypatch.setattr("perfed.silos.arrivals._BRIEF", 0.05)

    class Settled(Here):
        def nodes(self) -> dict[int, Place]:
            return {i: place._replace(age=1e4) for i, place in super().nodes().items()}

    Conductor(place / "server", Settled(place)).conduct()
    assert not (run / "seed-0" / "newcomers.json").exists()


def test_a_silo_joins_as_the_method_says_for_newcomers(tmp_path: Path) -> None:
    place = folders(tmp_path, method="fedrep")
    Conductor(place / "server", Here(place)).conduct()
    newcomer(place)
    Conductor(place / "server", Here(place, silos=4)).conduct()
    model, job, ask = silo(place, 3).model()
    new = Newcomers(job.site, 3, 10)
    down, mine = new.fitted(0, _body(ask, job), job.first.mine, 2)
    for name, leaf in mine.items():
        assert torch.equal(dict(model.tensors())[f"mine/{name}".replace(".", "_")], leaf)
    assert all(torch.equal(dict(model.tensors())[f"down/{name}".replace(".", "_")], leaf) for name, leaf in down.items())


def _body(ask: Any, job: Any) -> Any:
    from perfed.silos.newcomer import opened

    return opened(ask.body, job)


@pytest.mark.parametrize("method", ["fedrep", "fedcac"])
def test_in_a_running_experiment_a_newcomer_takes_part_from_the_next_round(tmp_path: Path, method: str) -> None:
    place = folders(tmp_path, method=method, rounds=4, policy={"rounds": 4})
    came: list[int] = []

    def on_round(seed: int, done: Any) -> None:
        if done.number == 1 and not came:  # told while round 1 is over and round 2 is under way
            newcomer(place)
            came.append(done.number)

    run = Conductor(place / "server", Here(place, silos=4), on_round).conduct()
    found = lines(run / "seed-0")
    assert [line["participants"] for line in found] == [[], [0, 1, 2], [0, 1, 2], [0, 1, 2, 3], [0, 1, 2, 3]]
    assert [len(line["test"]["count"]) for line in found] == [3, 3, 3, 4, 4] and found[-1]["test"]["count"][3] > 0
    assert get_json(run / "seed-0" / "silos.json")[3]["since"] == 2
    assert get_json(run / "seed-0" / "clients.json")["names"][3] == "Oslo"
    assert not (run / "seed-0" / "newcomers.json").exists()
    for client in range(3):  # those who were there train no round twice
        (experiment,) = [p for p in (place / f"silo-{client}" / "state").iterdir() if p.is_dir()]
        assert (experiment / "trained").read_text().split()[0] == "4"


def test_a_method_that_cannot_take_anybody_in_says_so_and_gives_the_model_afterwards(tmp_path: Path) -> None:
    place = folders(tmp_path, method="apple")
    newcomer(place)
    run = Conductor(place / "server", Here(place, silos=4)).conduct()
    refused = (run / "seed-0" / "refused.jsonl").read_text()
    assert "what APPLE sends grows with the number of silos, so nobody can come in while it runs" in refused
    assert [line["participants"] for line in lines(run / "seed-0")][-1] == [0, 1, 2]
    assert get_json(run / "seed-0" / "newcomers.json")["3"]["round"] == 2


def test_a_newcomer_whose_data_differ_costs_only_itself_its_place(tmp_path: Path) -> None:
    place = folders(tmp_path / "alone", rounds=1)
    alone = final(Conductor(place / "server", Here(place)).conduct() / "seed-0")["digest"]
    again = folders(tmp_path / "again", rounds=1)
    own = newcomer(again)
    np.savez(own / "own.npz", x=np.zeros((40, 1, 9, 9), np.uint8), y=np.arange(40) % 10)
    run = Conductor(again / "server", Here(again, silos=4)).conduct()
    assert final(run / "seed-0")["digest"] == alone
    assert "the silo's shape is [1, 9, 9], the others' is [1, 8, 8]" in (run / "seed-0" / "refused.jsonl").read_text()


def test_a_newcomers_own_policy_limits_the_passes_in_which_it_joins(tmp_path: Path) -> None:
    place = folders(tmp_path, method="fedrep")
    run = Conductor(place / "server", Here(place)).conduct()
    newcomer(place, epochs=9)
    Conductor(place / "server", Here(place, silos=4)).conduct()
    assert "more passes over the data than are allowed there" in (run / "seed-0" / "refused.jsonl").read_text()
    assert "10 passes to join are more than the 9 allowed here" in (place / "silo-3" / "state" / "refused.jsonl").read_text()


def test_who_left_is_not_asked_any_more_and_the_others_go_on(tmp_path: Path) -> None:
    place = folders(tmp_path, rounds=3)
    left: list[int] = []

    def on_round(seed: int, done: Any) -> None:
        if done.number == 0 and not left:
            leave(place, 1)
            left.append(1)

    carrier = Here(place)
    run = Conductor(place / "server", carrier, on_round).conduct()
    found = lines(run / "seed-0")
    assert [line["participants"] for line in found] == [[], [0, 1, 2], [0, 2], [0, 2]]
    assert [line["test"]["count"][1] for line in found[2:]] == [0, 0]
    assert all(ask.client != 1 for ask in carrier.asked if ask.score is not None and ask.score > 1)


def test_unseen_clients_are_for_one_machine(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a silo comes later by `perfed deploy add`"):
        Conductor(folders(tmp_path, unseen=1) / "server", Here(tmp_path))


@pytest.mark.parametrize("snapshots", [0, 1], ids=["from the start", "from before it came"])
def test_retraining_without_one_who_left_begins_before_it_came(tmp_path: Path, snapshots: int) -> None:
    place = folders(tmp_path, method="fedrep", rounds=3, snapshots=snapshots)
    came: list[int] = []

    def on_round(seed: int, done: Any) -> None:
        if done.number == 1 and not came:
            newcomer(place)
            came.append(1)

    former = Conductor(place / "server", Here(place, silos=4), on_round).conduct()
    before = final(former / "seed-0")
    with pytest.raises(InputError, match="Oslo takes part; `perfed deploy remove"):
        membership.retrain(place, "Oslo")
    told = membership.remove(place, "Oslo")
    assert told["runs"] == {former.name: [3]} and "rounds 3 to 3" in told["remains"] and "deploy retrain" in told["remains"]
    found = membership.retrain(place, "Oslo")
    assert found["rounds"] == {0: 2 if snapshots else 0}
    carrier = Here(place, silos=4)
    run = Conductor(place / "server", carrier).conduct()
    assert str(run) == found["run"] and run != former and final(former / "seed-0") == before
    assert all(ask.client != 3 for ask in carrier.asked)
    trained = sorted({ask.train for ask in carrier.asked if ask.train is not None})
    assert trained == ([3] if snapshots else [1, 2, 3])
    mine, theirs = lines(run / "seed-0"), lines(former / "seed-0")
    assert mine[:3] == theirs[:3] if snapshots else len(mine) == 4
    assert all(3 not in line["participants"] for line in mine)
    with pytest.raises(RunError, match="is there already"):
        membership.retrain(place, "Oslo")


def test_who_had_no_part_leaves_nothing_behind(tmp_path: Path) -> None:
    place = folders(tmp_path)
    Conductor(place / "server", Here(place)).conduct()
    newcomer(place)
    Conductor(place / "server", Here(place, silos=4)).conduct()
    assert membership.remove(place, "Oslo")["remains"].startswith("nothing of Oslo is in a common model: it sent no answer")
    with pytest.raises(InputError, match="had no part in"):
        membership.retrain(place, "Oslo")


def test_a_server_that_was_killed_as_one_came_goes_on_with_it(tmp_path: Path) -> None:
    def until(number: int) -> Any:
        def halt(seed: int, done: Any) -> None:
            if done.number == number:
                raise KeyboardInterrupt

        return halt

    whole, cut = folders(tmp_path / "whole", rounds=3), folders(tmp_path / "cut", rounds=3)
    for place in (whole, cut):
        with pytest.raises(KeyboardInterrupt):
            Conductor(place / "server", Here(place), until(1)).conduct()
        newcomer(place)
    first = Conductor(whole / "server", Here(whole, silos=4)).conduct()
    with pytest.raises(KeyboardInterrupt):
        Conductor(cut / "server", Here(cut, silos=4), until(2)).conduct()
    second = Conductor(cut / "server", Here(cut, silos=4)).conduct()
    assert final(first / "seed-0")["server"] == final(second / "seed-0")["server"]
    assert [line["participants"] for line in lines(second / "seed-0")][2] == [0, 1, 2, 3]
