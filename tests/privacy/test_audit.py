"""The audit: each attack by hand where a hand can, controls that succeed or are called weak, and a profile that must be shown."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from perfed.analysis import audit as audits
from perfed.analysis.audit import Findings, Inverted, held_to
from perfed.analysis.leakage import Leakage, apart, from_biases
from perfed.analysis.membership import Membership, area, areas, confidence
from perfed.analysis.subject import Subject
from perfed.cli.commands import app
from perfed.errors import InputError
from perfed.runs import parse
from perfed.runs import run as runs

ASKED: dict[str, Any] = {
    "data": "digits", "clients": 3, "partition": {"name": "dirichlet", "alpha": 1.0}, "rounds": 1, "transport": "serial",
    "model": {"name": "mlp", "hidden": 16}, "budget": {"lr": 0.05}, "validation": 0.0,
}  # fmt: skip


def test_the_area_by_hand() -> None:
    members = np.array([True, True, False, False])
    assert area(np.array([3.0, 1.0, 2.0, 0.0]), members) == 0.75  # of four pairs three are in order
    assert area(np.array([1.0, 1.0, 1.0, 1.0]), members) == 0.5
    assert area(np.array([1.0, 2.0]), np.array([True, True])) == 0.5


def test_shadow_models_tell_what_a_threshold_does_not() -> None:
    """Hard samples have low confidence even as members; only their own shadows show that."""
    generator = np.random.default_rng(0)
    halves = np.stack([generator.permutation(40) < 20 for _ in range(24)])
    hard = np.linspace(-10, 10, 40)
    confidences = hard + 1.0 * halves + 0.1 * generator.standard_normal(halves.shape)
    shadows, threshold = areas(confidences, halves)
    assert shadows > 0.99
    assert threshold < 0.6
    nothing, _ = areas(hard + 0.1 * generator.standard_normal(halves.shape), halves)
    assert abs(nothing - 0.5) < 0.1


def test_confidence_is_the_log_odds_of_the_label() -> None:
    logits = torch.log(torch.tensor([[0.2, 0.3, 0.5], [0.9, 0.05, 0.05]]))
    assert confidence(logits, torch.tensor([2, 1])) == pytest.approx([0.0, np.log(0.05 / 0.95)], abs=1e-6)


def test_shares_of_classes_by_hand() -> None:
    # one step from even predictions: the bias of class c goes η (share − 1/3)
    shares = np.array([0.5, 0.5, 0.0])
    assert from_biases(torch.tensor(0.2 * (shares - 1 / 3)), 0.2) == pytest.approx(shares)
    assert apart(shares, np.full(3, 1 / 3)) == pytest.approx(1 / 3)


def found(psnr: float, passed: bool = True, auc: float = 0.5, distance: float = 0.3) -> Findings:
    members = Membership(auc, 0.5, 0.98, True, 40, 16)
    leaked = Leakage("head.bias", distance, 0.4, 0.03, True)
    return Findings(
        "fedavg", {"name": "none"}, [Inverted("direction", psnr, "model", 60.0 if passed else 20.0, passed)], members, leaked
    )


def test_the_profile_of_a_hospital() -> None:
    assert held_to(found(6.0), "hospital") == []
    assert held_to(found(30.0), "hospital") == ["inversion reaches 30.0 dB, 10 are allowed"]
    assert held_to(found(6.0, auc=0.7), "hospital") == ["membership reaches 0.70, 0.6 are allowed"]
    assert "no attack passed its control" in held_to(found(6.0, passed=False), "hospital")[0]
    with pytest.raises(InputError, match="did you mean 'hospital'"):
        held_to(found(6.0), "hospitals")


def test_words_follow_the_figures() -> None:
    assert "a picture is recognised" in found(30.0).says()[0]
    assert "nothing of a picture is seen" in found(6.0).says()[0]
    assert "the attack is weak here" in found(6.0, passed=False).says()[0]
    assert "can be told" in found(6.0, auc=0.9).says()[1]
    assert "can be read off" in found(6.0, distance=0.1).says()[2]
    assert "no better known" in found(6.0, distance=0.4).says()[2]
    with pytest.raises(InputError, match="at least 4"):
        audits.checked(3, 10)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return runs.run(parse.build(ASKED | {"method": "fedper", "out": str(tmp_path_factory.mktemp("runs"))})).path


def test_a_weak_attack_shows_no_safety_and_the_command_says_so(plain: Path) -> None:
    """Two steps find nothing, so nothing is shown: exit code 1, a page, and the reason in words."""
    asked = ["audit", str(plain), "--steps", "2", "--shadows", "4", "--profile", "hospital"]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 1, done.output
    assert "the attack is weak here" in done.output and "is not shown" in done.output
    page = (plain / "audit" / "audit.html").read_text(encoding="utf-8")
    assert "Profile hospital" in page and "the attack is weak here" in page
    assert (plain / "audit" / "audit.json").exists()


def test_prototypes_list_the_classes_that_a_client_has_and_pictures_cannot_be_searched_for(tmp_path: Path) -> None:
    run = runs.run(parse.build(ASKED | {"method": "fedproto", "out": str(tmp_path), "name": "proto"}))
    told = audits.audit(Subject(run.path), steps=2, models=4)
    assert "uploads no part of the network" in told.untried["Inversion"]
    assert told.labels is not None and told.labels.distance is None and told.labels.classes == "known"
    assert "lists a client's classes outright" in " ".join(told.says())


def test_where_nothing_is_uploaded_nothing_is_told(tmp_path: Path) -> None:
    run = runs.run(parse.build(ASKED | {"method": "local", "out": str(tmp_path)}))
    told = audits.audit(Subject(run.path), steps=2, models=4)
    assert set(told.untried) == {"Inversion", "Membership"}
    assert held_to(told, "hospital")[1].startswith("membership at most 0.6 is not shown")


@pytest.mark.slow
def test_without_noise_a_hospital_is_refused_and_with_it_allowed(plain: Path, tmp_path: Path) -> None:
    assert CliRunner().invoke(app, ["audit", str(plain), "--profile", "hospital"]).exit_code == 1
    assert audits.audit(Subject(plain)).seen > 40  # type: ignore[operator]
    noise = {"name": "client", "clip": 0.5, "noise": 1.0, "delta": 1e-3}
    noisy = runs.run(parse.build(ASKED | {"method": "fedper", "out": str(tmp_path), "privacy": noise})).path
    done = CliRunner().invoke(app, ["audit", str(noisy), "--profile", "hospital"])
    assert done.exit_code == 0, done.output
    assert "nothing of a picture is seen" in done.output
