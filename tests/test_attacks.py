"""Attacks in simulation: each does what it says, by hand; rules and admission bear with them; silos refuse them."""

from pathlib import Path
from typing import Any

import pytest
import torch

import perfed
from perfed import keys
from perfed.attacks import ATTACKS, Attack, Forger, poisoned, stamped
from perfed.attacks.poison import TARGET
from perfed.data import load
from perfed.data.inputs import inputs_for
from perfed.errors import InputError
from perfed.evaluate.attacked import attacked
from perfed.federation import Federation
from perfed.methods.fedavg import FedAvg
from perfed.partition import build, split
from perfed.report.read import gather
from perfed.report.tables import comparison, short
from perfed.runs import parse
from perfed.server import Uploads
from perfed.testing import federation

NAMES = [f"client {i}" for i in range(5)]


class Told:
    """A transport whose clients answer what they are told."""

    name, store, ledger = "told", None, None

    def __init__(self, values: list[list[float]]) -> None:
        self.values, self.after = values, {}

    def train(self, server: Any, ids: Any, number: int, lost: set[int], after: bool) -> Uploads[Any]:
        return Uploads(ids, [1] * len(ids), ({"w": torch.tensor(self.values[i])} for i in ids))


def sent(name: str, values: list[list[float]], **options: Any) -> list[list[float]]:
    """Return what arrives from clients 0 … n, the first of whom attacks; (1, 1) was sent to all."""
    forger = Forger(Told(values), FedAvg(), Attack(name=name, **options), [0], seed=0)  # type: ignore[arg-type]
    ups = forger.train({"w": torch.ones(2)}, range(len(values)), 1, set(), False)
    return [up["w"].tolist() for up in ups]


VALUES = [[2.0, 3.0], [2.0, 1.0], [4.0, 1.0], [6.0, 1.0]]  # updates (1, 2), (1, 0), (3, 0), (5, 0)


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("sign", {}, [1 - 5 * 1, 1 - 5 * 2]),
        ("sign", {"strength": 1}, [0.0, -1.0]),
        ("scale", {}, [101.0, 201.0]),
        ("inner", {}, [1 - 5 * 3, 1.0]),  # the honest mean update is (3, 0)
        ("alie", {"strength": 2}, [1 + 3 - 2 * (8 / 3) ** 0.5, 1.0]),  # its deviation is the root of 8/3
    ],
)
def test_forged_answers_by_hand(name: str, options: dict[str, Any], expected: list[float]) -> None:
    found = sent(name, VALUES, **options)
    assert found[1:] == VALUES[1:] and found[0] == pytest.approx(expected)


def test_a_little_is_enough_takes_as_many_deviations_as_hide_it() -> None:
    """Of ten with one attacker five honest ones must be further off: (9 − 5)/9 of the normal distribution is at −0.14."""
    values = [[0.0, 0.0], *([1.0 + i, 1.0] for i in range(9))]
    found = sent("alie", values)
    assert found[0][0] == pytest.approx(1 + 4 + 0.1397 * (60 / 9) ** 0.5, abs=1e-3)


def test_noise_is_drawn_from_the_runs_keys() -> None:
    expected = 1 + keys.normal(keys.key(0, 1, "attack", 0), (2,))
    assert sent("gaussian", VALUES)[0] == expected.tolist() == sent("gaussian", VALUES)[0]


def test_who_attacks_is_drawn_or_named() -> None:
    assert Attack().who(NAMES, 0) == [] and not Attack()
    assert len(Attack(name="sign").who(NAMES, 0)) == 1 and len(Attack(name="sign", clients=0.4).who(NAMES, 0)) == 2
    assert len(Attack(name="sign", clients=3).who(NAMES, 1)) == 3
    assert Attack(name="sign", clients=("client 4", "client 1")).who(NAMES, 0) == [1, 4]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"name": "sing"}, "did you mean 'sign'"),
        ({"clients": 0.3}, "need an attack"),
        ({"name": "sign", "strength": -1}, "positive"),
        ({"name": "labels", "strength": 2}, "has no strength"),
        ({"name": "backdoor", "strength": 2}, "at most 1"),
        ({"name": "sign", "clients": 0}, "share, a number or names"),
    ],
)
def test_an_attack_that_cannot_be_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Attack(**options)


def test_everybody_or_a_stranger_cannot_attack() -> None:
    with pytest.raises(InputError, match="nobody is left"):
        Attack(name="sign", clients=5).who(NAMES, 0)
    with pytest.raises(InputError, match="did you mean 'client 4'"):
        Attack(name="sign", clients=("client4",)).who(NAMES, 0)


def digits() -> Federation:
    samples = load("digits", fraction=0.2)
    return Federation.of(samples, split(samples, build("iid"), 4, 0, 0.1, 0.25), inputs_for(samples))


def test_labels_are_turned_round_at_the_attackers_alone() -> None:
    own = federation(3)
    found = poisoned(own, Attack(name="labels"), [1])
    for i in range(3):
        before, after = own.y[own.train[i]], found.y[found.train[i]]
        assert torch.equal(after, 2 - before if i == 1 else before)
        assert torch.equal(own.x[own.train[i]], found.x[found.train[i]]) and torch.equal(own.test[i], found.test[i])
    assert found.sizes == own.sizes


def test_half_of_an_attackers_samples_carry_the_mark_and_are_called_the_first_class() -> None:
    own = digits()
    found = poisoned(own, Attack(name="backdoor"), [2])
    before, after = own.x[own.train[2]], found.x[found.train[2]]
    marks = (before != after).flatten(1).any(1) | (after[..., -2:, -2:] == 255).flatten(1).all(1)
    assert int(marks.sum()) == round(0.5 * len(before)) and bool((found.y[found.train[2]][marks] == TARGET).all())
    assert torch.equal(found.y[found.train[2]][~marks], own.y[own.train[2]][~marks])
    assert torch.equal(before[..., :-2, :], after[..., :-2, :])
    tests = stamped(own)
    for i in range(4):
        rows = tests.test[i]
        assert len(rows) == int((own.y[own.test[i]] != TARGET).sum()) and bool((tests.y[rows] == TARGET).all())
        assert bool((tests.x[rows][..., -2:, -2:] == 255).all())


def test_texts_carry_no_mark_and_numbers_have_no_labels() -> None:
    from dataclasses import replace

    tokens = replace(federation(3), x=torch.zeros(400, 5, dtype=torch.int32))
    with pytest.raises(InputError, match="not texts"):
        poisoned(tokens, Attack(name="backdoor"), [1])
    with pytest.raises(InputError, match="needs classes"):
        poisoned(replace(federation(3), goal="regression"), Attack(name="labels"), [1])


def run(tmp_path: Path | None = None, **options: Any) -> Any:
    given = {"clients": 5, "partition": "iid", "rounds": 6, "budget": {"lr": 0.2}, "transport": "serial", "every": 6}
    return perfed.run(method="fedavg", data={"name": "digits", "fraction": 0.4}, progress=False, out=tmp_path, **given | options)


def test_a_backdoor_opens_at_honest_clients_and_the_table_says_so(tmp_path: Path) -> None:
    done = run(tmp_path, attack={"name": "backdoor", "clients": 0.4}, rounds=12, every=12)
    runs = gather([tmp_path])
    (lines,) = runs[0].rounds.values()
    found = attacked(runs[0].rounds)
    assert found is not None and found["backdoor"]["mean"] > 0.5 and found["honest"]["mean"] > 0.6
    assert lines[0]["backdoor"]["count"] and len(lines[-1]["attackers"]) == 2
    table = comparison(runs)
    heads, _ = short(table)
    assert heads[-2:] == ["honest", "backdoor"] and any("Attacked on purpose (backdoor)" in note for note in table.notes)
    assert done.summary["attack"]["backdoor"]["mean"] == found["backdoor"]["mean"]


def test_the_mean_collapses_under_turned_updates_and_admission_or_a_rule_bears_them() -> None:
    """Four of five learn, one turns five times its update round: their mean goes nowhere."""
    honest = {}
    for name, options in {
        "alone": {},
        "mean": {"attack": "sign", "admission": "structure"},
        "strict": {"attack": "sign", "admission": "strict"},
        "multikrum": {"attack": "sign", "admission": "structure", "rule": "multikrum"},
    }.items():
        done = run(**options)
        found = done.summary.get("attack")
        honest[name] = found["honest"]["mean"] if found else done.accuracy
    assert honest["mean"] < 0.3 and min(honest[name] for name in ("alone", "strict", "multikrum")) > 0.75


def test_without_an_attack_nothing_is_recorded_and_no_digest_moves(tmp_path: Path) -> None:
    asked = parse.build({"method": "fedavg"})
    assert asked.digest() == parse.build({"method": "fedavg", "attack": "none", "admission": "bounds"}).digest()
    assert asked.digest() != parse.build({"attack": "sign"}).digest()
    assert parse.load(None, ["attack=sign", "attack.clients=0.3"]).attack == Attack(name="sign", clients=0.3)
    plain = run(tmp_path, rounds=1, every=1)
    assert "attack" not in plain.summary and "refused" not in plain.summary


def test_every_attack_has_a_word() -> None:
    assert set(ATTACKS) == {"none", "sign", "scale", "gaussian", "alie", "inner", "labels", "backdoor"}
