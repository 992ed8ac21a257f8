"""Every analysis works on a run's folder, and says what to record where something is missing."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from perfed import trees
from perfed.analysis import privacy
from perfed.analysis.catalogue import CATALOGUE, analyse, find, save
from perfed.analysis.result import Options
from perfed.analysis.subject import Subject
from perfed.cli.commands import app
from perfed.errors import InputError, RunError
from perfed.runs import parse as setting
from perfed.runs import run as experiment

DIGITS = {"data": "digits", "partition": {"name": "dirichlet", "alpha": 1.0}, "clients": 3, "model": "cnn"}
DOMAINS = {"data": {"name": "digits_domains", "domains": ["plain", "tilted"]}, "partition": "domains", "model": "cnn"}
RUNS: dict[str, dict[str, Any]] = {
    "dualfed": DOMAINS | {"data": {"name": "digits_domains", "domains": ["plain", "tilted"], "size": 8}},
    "fedcac": DIGITS,
    "fedcp": DIGITS,
    "fedpick": DOMAINS | {"data": {"name": "digits_domains", "domains": ["plain", "tilted"], "size": 8}},
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    out = tmp_path_factory.mktemp("runs")
    shared = {"rounds": 3, "snapshots": 1, "after": True, "transport": "serial", "out": str(out), "validation": 0.0}
    made = {}
    for name, own in RUNS.items():
        method = {"name": name, "contrast": 1.0} if name == "dualfed" else name  # 40 needs larger batches
        raw = {"method": method, "name": name, **shared, **own, "budget": {"batch_size": 50, "lr": 0.05}}
        made[name] = experiment.run(setting.build(raw)).path
    bare = {"method": "fedavg", "name": "bare", "out": str(out), "rounds": 1, "transport": "serial", **DIGITS, "model": "mlp"}
    made["bare"] = experiment.run(setting.build(bare)).path
    return made


WHERE = {
    "dualfed": ("cka", "classifiers", "separation", "tsne"),
    "fedcac": ("angle", "collaborators", "masks", "overlap", "sensitivity"),
    "fedcp": ("convergence", "curves", "distribution", "fairness", "gradcam", "pir", "policy", "probe", "stability", "timing"),
    "fedpick": ("feature_overlap", "fisher", "selection", "sparsity"),
}


def test_the_catalogue_names_functions_that_are_there() -> None:
    assert list(CATALOGUE) == sorted(CATALOGUE)
    for name in CATALOGUE:
        assert callable(find(name))


@pytest.mark.parametrize(("run", "name"), [(run, name) for run, names in WHERE.items() for name in names])
def test_every_analysis_has_values_for_machines_and_a_figure_for_people(
    runs: dict[str, Path], run: str, name: str, tmp_path: Path
) -> None:
    found = analyse(runs[run], name, samples=30)
    json.dumps(found.values)
    files = save(found, tmp_path, name)
    assert [path.suffix for path in files] == [".json", ".png", ".svg", ".pdf"]
    assert all(path.stat().st_size > 30 for path in files)


def test_a_replayed_round_is_the_round_that_was_run(runs: dict[str, Path]) -> None:
    """From the state kept after round 1, doing round 2 again gives the state kept after round 2, bit for bit."""
    subject = Subject(runs["fedcac"])
    states = {state.round: state for state in subject.states("a test")}
    again, answers = states[1].next(subject.participants(2))
    assert trees.equal(again.server, states[2].server)
    assert all(trees.equal(again.private(c), states[2].private(c)) for c in answers)
    assert list(subject.folder.snapshots) == [0, 1, 2, 3]


def test_before_and_after_the_last_round_are_what_was_recorded(runs: dict[str, Path]) -> None:
    found = analyse(runs["fedcp"], "convergence").values
    lines = Subject(runs["fedcp"]).lines
    after, before = lines[3]["after"], lines[2]["test"]
    assert found["accuracy_after"][-1] == pytest.approx(np.average(after["accuracy"], weights=after["count"]))
    assert found["accuracy_before"][-1] == pytest.approx(np.average(before["accuracy"], weights=before["count"]))


def test_before_and_after_the_next_round_are_what_a_longer_run_records(runs: dict[str, Path], tmp_path: Path) -> None:
    """Nothing was recorded right after training; the round that was not run is done from the last state."""
    found = analyse(runs["bare"], "convergence")
    last = Subject(runs["bare"]).lines[-1]["test"]
    longer = {"method": "fedavg", "out": str(tmp_path), "rounds": 2, "after": True, "transport": "serial"}
    after = Subject(experiment.run(setting.build({**longer, **DIGITS, "model": "mlp"})).path).lines[-1]["after"]
    clients = found.values["clients"].values()
    assert [own["before"] for own in clients] == last["accuracy"] and [own["after"] for own in clients] == after["accuracy"]
    assert found.values["loss_after"] == pytest.approx([np.average(after["loss"], weights=after["count"])], abs=1e-5)
    alone = analyse(runs["bare"], "convergence", client=1)
    assert alone.values["clients"] == {"client 1": found.values["clients"]["client 1"]} and len(alone.rows) == 1
    assert "after=true" in found.says[1] and found.figure is not None


def test_classifiers_together_score_what_the_run_recorded(runs: dict[str, Path]) -> None:
    for run in ("dualfed", "fedpick", "fedcp"):
        subject = Subject(runs[run])
        found = analyse(runs[run], "classifiers", samples=10_000).values
        scored = subject.lines[-1]["test"]
        for place, name in enumerate(subject.names):
            assert found["last"][name]["together"] == pytest.approx(100 * scored["accuracy"][place])


def test_a_policy_of_one_half_is_what_an_untrained_network_has(runs: dict[str, Path]) -> None:
    """The policy network ends in ReLU(LayerNorm(·)) of both halves alike, so its softmax is near one half on average."""
    found = analyse(runs["fedcp"], "pir", samples=50).values
    assert found["rounds"] == [0, 1, 2, 3]
    assert found["mean"][0] == pytest.approx(0.5, abs=0.05)


def test_one_client_may_be_looked_at_alone(runs: dict[str, Path]) -> None:
    assert list(analyse(runs["fedcp"], "policy", client=1).values) == ["client 1"]
    with pytest.raises(InputError, match="numbered 0 to 2"):
        analyse(runs["fedcp"], "policy", client=7)


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("angle", {}, "snapshots=1"),
        ("pir", {}, "part of FedCP; .* is a run of FedAvg"),
        ("masks", {}, "part of FedCAC; .* is a run of FedAvg"),
        ("selection", {}, "part of FedPick; .* is a run of FedAvg"),
        ("gradcam", {}, "Grad-CAM needs a convolution"),
        ("communication", {}, "--target 0.85"),
        ("communication", {"target": 85.0}, "85 % is 0.85"),
    ],
)
def test_what_is_missing_is_said(runs: dict[str, Path], name: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises((InputError, RunError), match=said):
        analyse(runs["bare"], name, **options)


def test_a_target_that_is_never_reached_is_said_and_not_a_number(runs: dict[str, Path]) -> None:
    words = ["analyze", str(runs["bare"]), "communication", "--target", "0.999"]
    found = json.loads(CliRunner().invoke(app, [*words, "--json"], catch_exceptions=False).stdout)
    assert found["payload"]["mib"] is None and found["paper"]["mib"] is None
    said = CliRunner().invoke(app, words, catch_exceptions=False).stdout
    assert "never reached" in said and "not reached" in said


def test_dualfeds_counting_adds_its_projector(runs: dict[str, Path]) -> None:
    """cnn at 8×8 has 64 features: a projector of depth 2, width 256 has 64·256 + 256 + 2·256 + 256·64 + 64 + 2·64."""
    from perfed.analysis.recorded import parameters

    subject = Subject(runs["dualfed"])
    projector = 64 * 256 + 256 + 2 * 256 + 256 * 64 + 64 + 2 * 64
    first = next(line for line in subject.lines if line["round"] == 1)
    assert parameters(subject) == first["bytes_up"] // (4 * 2) + projector


def test_an_unknown_analysis_suggests_the_nearest(runs: dict[str, Path]) -> None:
    with pytest.raises(InputError, match="did you mean 'fairness'"):
        analyse(runs["bare"], "farness")


def test_the_attack_says_that_it_is_weak_when_its_control_fails(runs: dict[str, Path]) -> None:
    found = analyse(runs["fedcp"], "attack", steps=2)
    assert found.values["scope"] == "upload"
    assert not found.values["control"]["passed"]
    assert "the attack, not the method, is weak" in found.says[0]


def test_one_sample_of_undefended_fedavg_is_recovered_by_the_search_that_attacks_uploads(runs: dict[str, Path]) -> None:
    checked = privacy.control(Subject(runs["bare"]).start, 0, Options(steps=600))
    assert checked.control.passed, checked.control


def test_a_scope_that_the_upload_does_not_have_is_refused(runs: dict[str, Path]) -> None:
    with pytest.raises(RunError, match="FedCP has no pseudo_model in its upload, .* extractor, model, known, upload"):
        analyse(runs["fedcp"], "attack", scope="pseudo_model", steps=2)
    with pytest.raises(InputError, match="did you mean 'extractor'"):
        analyse(runs["fedcp"], "attack", scope="extracter", steps=2)
