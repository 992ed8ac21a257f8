"""The transport and the silos without Flower: what they share, refuse, keep and survive."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import yaml
from faraway import Here, final, folders, lines, serial, silo
from lies import CHANGES

import perfed
from perfed import trees
from perfed.cli.models import predictor
from perfed.data import load
from perfed.errors import InputError, RunError
from perfed.rounds import Protocol, Span, rounds
from perfed.runs import parse as setting
from perfed.runs import run as experiment
from perfed.runs.assemble import assemble
from perfed.runs.seed import Seed
from perfed.sampling import Sampling
from perfed.serving.export import export
from perfed.serving.predict import load as load_model
from perfed.silos.conductor import Conductor
from perfed.silos.messages import Ask, SiloAnswer
from perfed.transport import Serial

METHODS = ("fedavg", "fedrep", "ditto", "fedproto", "fedcp", "fedcac", "gpfl", "dualfed", "fedpick")


@pytest.mark.parametrize("method", METHODS)
def test_silos_give_the_bits_of_serial(tmp_path: Path, method: str) -> None:
    large = {"budget": {"batch_size": 100, "lr": 0.05}} if method == "dualfed" else {}  # its projector's BatchNorm needs it
    place = folders(tmp_path / "deployment", method=method, **large)
    run = Conductor(place / "server", Here(place)).conduct()
    reference = serial(place, tmp_path / "runs")
    assert final(run / "seed-0")["digest"] == final(reference)["digest"]
    assert lines(run / "seed-0") == lines(reference)


def test_batchnorm_that_stays_at_home_gives_the_bits_of_serial(tmp_path: Path) -> None:
    place = folders(tmp_path / "deployment", model="cnn_bn", method="fedbn", rounds=1)
    run = Conductor(place / "server", Here(place)).conduct()
    assert final(run / "seed-0")["digest"] == final(serial(place, tmp_path / "runs"))["digest"]


@pytest.mark.parametrize(
    "method", [{"name": "lgfedavg", "warmup": 1}, {"name": "spherefed", "calibrate": True}], ids=lambda m: m["name"]
)
def test_messages_that_change_their_form_give_the_bits_of_serial(tmp_path: Path, method: dict[str, object]) -> None:
    place = folders(tmp_path / "deployment", method=method, rounds=3)
    run = Conductor(place / "server", Here(place)).conduct()
    reference = serial(place, tmp_path / "runs")
    assert final(run / "seed-0")["digest"] == final(reference)["digest"]
    assert lines(run / "seed-0") == lines(reference)


def test_texts_give_the_bits_of_serial(tmp_path: Path) -> None:
    words = ("good fine best", "bad poor worst")
    rows = [f"{i % 2},{words[i % 2]} number {i % 7}" for i in range(90)]
    (tmp_path / "texts.csv").write_text("\n".join(["label,text", *rows]))
    name = f"csv:{tmp_path / 'texts.csv'}"
    data = {"name": name, "text": "text"}
    place = folders(tmp_path / "deployment", policy={"data": [name]}, data=data, model="fasttext", partition="iid")
    for i in range(3):
        (place / f"silo-{i}" / "silo.yaml").write_text(yaml.safe_dump({"client": i, "data": {name: data | {"rows": "split"}}}))
    run = Conductor(place / "server", Here(place)).conduct()
    reference = serial(place, tmp_path / "runs")
    assert final(run / "seed-0")["digest"] == final(reference)["digest"]
    assert lines(run / "seed-0") == lines(reference)


def test_sampling_drop_outs_and_tests_after_training_give_the_bits_of_serial(tmp_path: Path) -> None:
    sampling = {"ratio": 0.67, "drop": 0.3}
    measured = ["auc", "average_precision", "ece", "recall", "confusion"]
    asked = {"sampling": sampling, "rounds": 4, "every": 2, "after": True, "seeds": [3], "metrics": measured}
    place = folders(tmp_path / "deployment", method="fedrep", **asked)
    run = Conductor(place / "server", Here(place)).conduct()
    reference = serial(place, tmp_path / "runs").parent / "seed-3"
    assert final(run / "seed-3")["digest"] == final(reference)["digest"]
    assert lines(run / "seed-3") == lines(reference)


@pytest.mark.parametrize("method", ["fedavg", "fedrep", "ditto", "fedavgft", "fedcp"])
def test_every_silo_takes_home_the_model_that_was_scored(tmp_path: Path, method: str) -> None:
    """With nothing but its own folder: the server's last message, its private state, its data."""
    place = folders(tmp_path / "deployment", method=method, sampling={"ratio": 0.67}, rounds=3)
    with pytest.raises(InputError, match="the server has sent none"):
        silo(place, 1).model()
    Conductor(place / "server", Here(place)).conduct()
    reference = perfed.open(serial(place, tmp_path / "runs").parent)
    x, y = reference.trained().site.federation.some(1)
    model, job, ask = silo(place, 1).model()
    assert ask.score == 3 and torch.equal(model.raw(x), reference.model(1).raw(x))
    said = export(model, tmp_path / "own.pt2", job.facts["classes"], samples=(x, y))
    assert said["right"] == round(reference.accuracies()["client 1"] * len(y))


def test_a_silos_model_is_exported_from_its_folder(tmp_path: Path) -> None:
    place = folders(tmp_path / "deployment", method="fedrep")
    Conductor(place / "server", Here(place)).conduct()
    call = [sys.executable, "-c", "from perfed.cli import main; main()", "export", str(place / "silo-2"), "--json"]
    (said,) = json.loads(subprocess.run(call, capture_output=True, text=True, check=True).stdout)
    assert Path(said["file"]) == place / "silo-2" / "models" / "client-2.safetensors" and Path(said["file"]).exists()
    refused = subprocess.run([*call, "--client", "1"], capture_output=True, text=True, check=False)
    assert refused.returncode == 2 and "--client, --seed and --at are for runs" in refused.stderr
    (record,) = (place / "server" / "runs").iterdir()
    with pytest.raises(RunError, match="private states are at the silos"):
        perfed.open(record).model(0)
    assert said["method"] == "FedRep" and said["round"] == 2 and said["classes"] == [str(i) for i in range(10)]
    used, x = predictor(place / "silo-2", None, None, None, None, None, None, False), load("digits").x[:300]
    assert torch.equal(used.scores(x), load_model(Path(said["file"])).scores(x)) and used.card["data"]["clients"] == 3


def test_one_message_per_client_and_round(tmp_path: Path) -> None:
    place = folders(tmp_path)
    carrier = Here(place)
    Conductor(place / "server", carrier).conduct()
    work = [(ask.client, ask.score, ask.train) for ask in carrier.asked if ask.verb == "work"]
    assert work == [(i, n, n + 1 if n < 2 else None) for n in range(3) for i in range(3)]


def test_the_summary_is_a_runs_own(tmp_path: Path) -> None:
    place = folders(tmp_path)
    run = Conductor(place / "server", Here(place)).conduct()
    summary = json.loads((run / "summary.json").read_text())
    assert summary["transport"] == "flower"
    assert experiment.opened(run).experiment.method.name == "fedavg"


# --- Stops and starts ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", [4, 7, 8, 10])
def test_a_server_that_was_cut_off_anywhere_resumes_to_the_same_bits(tmp_path: Path, after: int) -> None:
    place = folders(tmp_path / "deployment", method="fedrep", rounds=3)

    class Cutting(Here):
        def push(self, asks, seconds):  # type: ignore[no-untyped-def]
            if len(self.asked) >= after:
                raise KeyboardInterrupt
            return super().push(asks, seconds)

    with pytest.raises(KeyboardInterrupt):
        Conductor(place / "server", Cutting(place)).conduct()
    run = Conductor(place / "server", Here(place)).conduct()
    reference = serial(place, tmp_path / "runs")
    assert final(run / "seed-0")["digest"] == final(reference)["digest"]
    assert lines(run / "seed-0") == lines(reference)


def test_a_finished_experiment_asks_nobody(tmp_path: Path) -> None:
    place = folders(tmp_path)
    first = Conductor(place / "server", Here(place)).conduct()
    carrier = Here(place)
    assert Conductor(place / "server", carrier).conduct() == first
    assert carrier.asked == []


def test_lost_messages_and_crashed_clients_are_asked_again(tmp_path: Path) -> None:
    place = folders(tmp_path / "deployment", method="fedrep")
    seen: set[tuple[int, int | None]] = set()

    def once(ask: Ask, answer: SiloAnswer) -> list[SiloAnswer | str]:
        if (ask.client, ask.score) in seen:
            return [answer]
        seen.add((ask.client, ask.score))
        return ["error 5 (the node is away)"]

    run = Conductor(place / "server", Here(place, tamper=once)).conduct()
    assert final(run / "seed-0")["digest"] == final(serial(place, tmp_path / "runs"))["digest"]


def test_an_absent_silo_is_as_if_it_had_not_taken_part(tmp_path: Path) -> None:
    place = folders(tmp_path / "deployment", method="fedrep")
    terms = yaml.safe_load((place / "server" / "server.yaml").read_text()) | {"deadline": 0.8}
    (place / "server" / "server.yaml").write_text(yaml.safe_dump(terms))
    asked = 0

    def away(client: int) -> bool:
        nonlocal asked
        asked += client == 2
        return client == 2 and asked > 1  # it says hello and is never seen again

    run = Conductor(place / "server", Here(place, away=away)).conduct()

    class Two(Sampling):
        def participants(self, seed: int, number: int, clients: int) -> list[int]:
            return [0, 1]

    settings = setting.load(place / "server" / "experiment.yaml", [f"out={tmp_path}"])
    job = Seed(assemble(settings, 0))
    transport = Serial(job.made.site, job.store)
    loop = rounds(job.made.method, job.server, transport, Two(), Protocol(), Span(0, 3, 2))
    last = [done.server for done in loop][-1]
    from perfed.runs.states import fingerprint

    assert final(run / "seed-0")["server"] == fingerprint(last).hex()
    assert [json.loads(t).get("absent") for t in (run / "seed-0" / "rounds.jsonl").read_text().splitlines()] == [
        None,
        [2],
        [2],
    ]


# --- Answers that cannot be right ---------------------------------------------------------------------------------


def _up(place: Path) -> trees.Params:
    settings = setting.load(place / "server" / "experiment.yaml")
    return assemble(settings, 0).site.task.params()


@pytest.fixture(scope="module")
def without_two(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The server's state after one round of clients 0 and 1 alone."""
    place = folders(tmp_path_factory.mktemp("clean") / "deployment", rounds=1)
    there = iter([False])
    study = Conductor(place / "server", Here(place, away=lambda i: i == 2 and next(there, True)))
    study.patience = replace(study.patience, deadline=0.5)
    return str(final(study.conduct() / "seed-0")["server"])


@pytest.mark.parametrize(("change", "said"), [c[1:] for c in CHANGES], ids=[c[0] for c in CHANGES])
def test_an_answer_that_cannot_be_right_is_refused_and_the_others_go_on(
    tmp_path: Path, without_two: str, change: Callable[[SiloAnswer, trees.Params], SiloAnswer], said: str
) -> None:
    place = folders(tmp_path, rounds=1)
    up = _up(place)

    def tamper(ask: Ask, answer: SiloAnswer) -> list[SiloAnswer | str]:
        return [change(answer, up) if ask.client == 2 and ask.train == 1 else answer]

    run = Conductor(place / "server", Here(place, tamper=tamper)).conduct()
    refused = [json.loads(t) for t in (run / "seed-0" / "refused.jsonl").read_text().splitlines()]
    assert [r["client"] for r in refused] == [2]
    assert any(part in refused[0]["why"] for part in said.split("|")), refused
    assert final(run / "seed-0")["server"] == without_two


def test_the_same_answer_twice_counts_once(tmp_path: Path) -> None:
    place = folders(tmp_path / "deployment")
    twice = Here(place, tamper=lambda ask, answer: [answer, answer])
    run = Conductor(place / "server", twice).conduct()
    assert final(run / "seed-0")["digest"] == final(serial(place, tmp_path / "runs"))["digest"]
    refused = [json.loads(t)["why"] for t in (run / "seed-0" / "refused.jsonl").read_text().splitlines()]
    assert refused and all("already given" in why for why in refused)


def test_without_enough_answers_the_round_does_not_close(tmp_path: Path) -> None:
    place = folders(tmp_path)
    terms = yaml.safe_load((place / "server" / "server.yaml").read_text()) | {"least": 3}
    (place / "server" / "server.yaml").write_text(yaml.safe_dump(terms))
    refuse = Here(place, tamper=lambda ask, answer: [replace(answer, train=9) if ask.client == 1 else answer])
    with pytest.raises(RunError, match="2 of 3 silos"):
        Conductor(place / "server", refuse).conduct()


# --- What a silo refuses -------------------------------------------------------------------------------------------


def _asks(place: Path) -> list[Ask]:
    carrier = Here(place)
    Conductor(place / "server", carrier).conduct()
    return [ask for ask in carrier.asked if ask.verb == "work"]


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ({"methods": ["fedrep"]}, "method 'fedavg' is not allowed"),
        ({"data": ["xray"]}, "data 'digits' is not allowed"),
        ({"epochs": 0}, "1 epochs per round"),
        ({"seeded_private": False}, "public seed"),
    ],
)
def test_a_request_outside_the_policy_is_refused_and_noted(tmp_path: Path, policy: dict[str, object], said: str) -> None:
    place = folders(tmp_path, policy=policy)
    with pytest.raises(RunError, match="0 of 3 silos"):
        Conductor(place / "server", Here(place)).conduct()
    noted = json.loads((place / "silo-0" / "state" / "refused.jsonl").read_text().splitlines()[0])
    assert said in noted["why"]
    assert not list((place / "silo-0" / "state").glob("*/version-*"))


def test_the_passes_that_a_method_adds_count_too(tmp_path: Path) -> None:
    place = folders(tmp_path, method={"name": "fedrep", "head_epochs": 5})
    with pytest.raises(RunError, match="more passes over the data than are allowed"):
        Conductor(place / "server", Here(place)).conduct()
    assert "6 epochs per round are more than the 3" in (place / "silo-0" / "state" / "refused.jsonl").read_text()


def test_a_site_trains_no_more_rounds_than_it_allows(tmp_path: Path) -> None:
    place = folders(tmp_path, rounds=3, policy={"rounds": 2})
    with pytest.raises(RunError, match="0 of 3 silos .* more rounds than are allowed"):
        Conductor(place / "server", Here(place)).conduct()


def test_metrics_stay_at_a_site_that_says_so(tmp_path: Path) -> None:
    place = folders(tmp_path, policy={"scores": False, "labels": False})
    carrier = Here(place, tamper=lambda ask, answer: answers.append(answer) or [answer])  # type: ignore[func-returns-value]
    answers: list[SiloAnswer] = []
    run = Conductor(place / "server", carrier).conduct()
    assert all(not a.scores and "labels" not in a.facts and "majority" not in a.facts for a in answers)
    assert lines(run / "seed-0")[-1]["test"]["count"] == [0, 0, 0]


def test_a_message_for_another_client_is_refused(tmp_path: Path) -> None:
    place = folders(tmp_path)
    ask = _asks(place)[0]
    answer = silo(place, 1).answer(ask)
    assert answer.refused == "client"
    assert answer.body == b""
    assert "client 0" in (place / "silo-1" / "state" / "refused.jsonl").read_text()


def test_a_server_with_another_perfed_is_refused(tmp_path: Path) -> None:
    place = folders(tmp_path)
    ask = replace(_asks(place)[0], version="0.0.1")
    assert silo(place, 0).answer(ask).refused == "version"


def test_an_experiment_cannot_name_a_path(tmp_path: Path) -> None:
    place = folders(tmp_path)
    ask = replace(_asks(place)[0], experiment="../../elsewhere")
    assert silo(place, 0).answer(ask).refused == "state"
    assert not (place / "elsewhere").exists()


def test_a_split_file_named_by_the_server_is_not_opened(tmp_path: Path) -> None:
    place = folders(tmp_path)
    ask = _asks(place)[0]
    ask = replace(ask, settings=ask.settings | {"split": "/etc/hostname"})
    assert silo(place, 0).answer(ask).refused == ""


# --- What a silo keeps ---------------------------------------------------------------------------------------------


def test_the_same_request_gives_the_same_answer_without_training_again(tmp_path: Path) -> None:
    place = folders(tmp_path, method="fedrep")
    last = [ask for ask in _asks(place) if ask.client == 0 and ask.train == 2][0]
    own = silo(place, 0)
    trained = (place / "silo-0" / "state" / last.experiment / "trained").read_text()
    first, second = own.answer(last), own.answer(last)
    assert first.body == second.body != b""
    assert (place / "silo-0" / "state" / last.experiment / "trained").read_text() == trained


def test_a_training_that_was_cut_short_and_done_again_counts_once(tmp_path: Path) -> None:
    place = folders(tmp_path, method="fedrep")
    last = [ask for ask in _asks(place) if ask.client == 0 and ask.train == 2][0]
    state = place / "silo-0" / "state" / last.experiment
    counts = [(state / "trained").read_text(), (state.parent / "trainings.json").read_text()]
    (state / "version-2.json").unlink()  # killed after the training was counted, before its note was written
    assert silo(place, 0).answer(last).refused == ""
    assert [(state / "trained").read_text(), (state.parent / "trainings.json").read_text()] == counts
    assert counts[0].split()[0] == "2" and (state / "version-2.json").exists()


def test_a_missing_version_is_an_error_and_never_a_fresh_start(tmp_path: Path) -> None:
    place = folders(tmp_path, method="fedrep")
    last = [ask for ask in _asks(place) if ask.client == 0 and ask.train == 2][0]
    state = place / "silo-0" / "state" / last.experiment
    for path in state.glob("version-*"):
        path.unlink()
    assert silo(place, 0).answer(last).refused == "state"
    assert "version 1 of the private state is missing" in (place / "silo-0" / "state" / "refused.jsonl").read_text()


def test_a_damaged_version_is_an_error(tmp_path: Path) -> None:
    place = folders(tmp_path, method="fedrep")
    last = [ask for ask in _asks(place) if ask.client == 0 and ask.train == 2][0]
    state = place / "silo-0" / "state" / last.experiment / "version-1.state"
    state.write_bytes(state.read_bytes()[:-1] + b"?")
    changed = replace(last, score=None, train=3)
    assert silo(place, 0).answer(changed).refused == "state"
    assert "SHA-256" in (place / "silo-0" / "state" / "refused.jsonl").read_text()


def test_private_files_are_the_owners_alone(tmp_path: Path) -> None:
    place = folders(tmp_path, method="fedrep")
    experiment_folder = place / "silo-0" / "state" / _asks(place)[0].experiment
    assert experiment_folder.stat().st_mode & 0o077 == 0
    modes = {p.name: p.stat().st_mode & 0o777 for p in experiment_folder.glob("version-*")}
    assert modes and set(modes.values()) == {0o600}


def test_a_silos_own_files_are_found_by_its_own_configuration(tmp_path: Path) -> None:
    import numpy as np

    place = folders(tmp_path, data="measured", partition="iid", policy={"data": ["measured"]})
    rng = np.random.default_rng(0)
    for i in range(3):
        x = rng.normal(size=(40 + i, 5)).astype(np.float32)
        labels = np.array(["b", "a", "c"])[np.arange(40 + i) % (2 if i == 1 else 3)]  # silo 1 has no c
        np.savez(place / f"silo-{i}" / "own.npz", x=x, y=labels)
        entry = {"name": "npz:own.npz", "classes": ["a", "b", "c"]}
        (place / f"silo-{i}" / "silo.yaml").write_text(yaml.safe_dump({"client": i, "data": {"measured": entry}}))
    run = Conductor(place / "server", Here(place)).conduct()
    clients = json.loads((run / "seed-0" / "clients.json").read_text())
    assert [sum(row) for row in clients["labels"]] == [40, 41, 42]
    assert clients["labels"][1][2] == 0
    assert clients["classes"] == ["a", "b", "c"]
