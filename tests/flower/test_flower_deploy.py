"""What `perfed deploy init` writes and `perfed deploy check` finds."""

import stat
from pathlib import Path

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

pytest.importorskip("cryptography")

from perfed.cli.commands import app
from perfed.errors import InputError, PerfedError, RunError
from perfed.silos.flower import certificates, layout, operate
from perfed.silos.flower.inspect import check
from perfed.silos.terms import Terms


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("deploy") / "d"
    layout.init(folder, 2, layout.Address(port=18443), ["method=fedrep", "rounds=5"])
    return folder


def states(folder: Path) -> dict[str, str]:
    return {f["what"]: f["state"] for f in check(folder) if f["state"] != "ok"}


def test_a_fresh_deployment_is_fit_to_run(made: Path) -> None:
    assert states(made) == {}


def test_private_keys_are_the_owners_alone(made: Path) -> None:
    keys = sorted(p.relative_to(made).as_posix() for p in made.rglob("*.key"))
    own = ["node.key", "start.key"]
    silos = [f"silo-{i}/{name}" for i in range(2) for name in own]
    assert keys == ["ca/ca.key", "ca/start.key", "server/operator.key", "server/server.key", *silos]
    assert {stat.S_IMODE((made / key).stat().st_mode) for key in keys} == {0o600}


def test_a_silos_part_holds_no_key_but_its_own_and_the_silos_common_one(made: Path) -> None:
    assert sorted(p.name for p in (made / "silo-0").glob("*.key")) == ["node.key", "start.key"]
    common = {(made / part / "start.key").read_text() for part in ("ca", "silo-0", "silo-1")}
    assert len(common) == 1 and len(common.pop().strip()) == 64
    assert not list((made / "server").rglob("start.key"))
    assert not list((made / "server").glob("node.key"))


def test_the_policy_is_the_experiment_and_no_more(made: Path) -> None:
    found = yaml.safe_load((made / "silo-1" / "policy.yaml").read_text())
    assert found == {
        "methods": ["fedrep"],
        "data": ["digits"],
        "epochs": 2,  # one for the budget, one for FedRep's head
        "steps": 20_000,
        "parameters": 10_000_000,
        "rounds": 5,
        "daily": 10,
        "scores": False,
        "fewest": 10,
        "labels": False,
        "sums": False,
        "privacy": "allowed",
        "epsilon": 0.0,
        "delta": 1e-5,
        "seeded_private": False,
    }


def test_a_folder_with_something_in_it_is_left_alone(made: Path) -> None:
    with pytest.raises(RunError, match="never overwritten"):
        layout.init(made, 2, layout.Address())


def test_what_is_no_deployment_is_said_to_be_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no deployment"):
        check(tmp_path)


@pytest.fixture
def other(tmp_path: Path) -> Path:
    layout.init(tmp_path / "d", 2, layout.Address(port=18443))
    return tmp_path / "d"


@pytest.mark.parametrize(("days", "state"), [(32, None), (29, "warning"), (0, "wrong")])
def test_a_certificate_near_its_end_is_warned_of(other: Path, days: int, state: str | None) -> None:
    certificates.server(other / "ca", other / "server", ["127.0.0.1"], days=days)
    assert states(other).get("server/server.crt") == state


def test_a_readable_key_is_wrong(other: Path) -> None:
    (other / "silo-0" / "node.key").chmod(0o644)
    assert states(other) == {"silo-0/node.key": "wrong"}


def test_a_certificate_of_another_authority_is_wrong(other: Path, tmp_path: Path) -> None:
    (tmp_path / "rogue").mkdir()
    certificates.authority(tmp_path / "rogue")
    certificates.server(tmp_path / "rogue", other / "server", ["127.0.0.1"])
    assert states(other) == {"server.crt": "wrong"}


def test_a_certificate_for_another_host_is_wrong(other: Path) -> None:
    certificates.server(other / "ca", other / "server", ["elsewhere.example"])
    assert states(other) == {"server.crt": "wrong"}


def test_a_key_that_the_server_does_not_know_is_wrong(other: Path) -> None:
    certificates.node(other / "silo-1")
    assert states(other) == {"silo-1/node.key": "wrong"}


def test_the_silos_common_secret_is_the_same_at_every_silo_and_not_at_the_server(other: Path) -> None:
    (other / "silo-0" / "start.key").unlink()
    assert states(other) == {"silo-0/start.key": "warning"}
    (other / "silo-0" / "start.key").write_text("0" * 64)
    (other / "silo-0" / "start.key").chmod(0o600)
    assert states(other) == {"silo-0/start.key": "wrong", "silo-1/start.key": "wrong"}
    (other / "silo-0" / "start.key").write_text("secret")
    assert "wrong" in states(other).values()
    for part in ("silo-0", "server"):
        (other / part / "start.key").write_bytes((other / "silo-1" / "start.key").read_bytes())
    assert states(other) == {"start.key": "wrong"}


def test_two_silos_with_one_key_are_wrong(other: Path) -> None:
    (other / "server" / "keys" / "silo-1.pub").write_bytes((other / "server" / "keys" / "silo-0.pub").read_bytes())
    assert states(other)["server"] == "wrong"


def test_a_policy_that_would_refuse_the_experiment_is_found(other: Path) -> None:
    path = other / "silo-1" / "policy.yaml"
    path.write_text(path.read_text().replace("rounds: 50", "rounds: 49"))
    assert states(other) == {"silo-1/policy.yaml": "wrong"}


def test_the_check_opens_the_data(tmp_path: Path) -> None:
    layout.init(tmp_path / "d", 2, layout.Address(port=18443), ["data=csv:patients.csv", "data.label=diagnosis"])
    (tmp_path / "d" / "silo-0" / "patients.csv").write_text("age,diagnosis\n40,ill\n50,well\n")
    (tmp_path / "d" / "silo-1" / "patients.csv").write_text("age,sign\n40,ill\n")
    found = [f for f in check(tmp_path / "d") if f["state"] != "ok"]
    assert [f["what"] for f in found] == ["silo-1/silo.yaml"] and "has no column 'diagnosis'" in found[0]["note"]


def test_a_part_that_was_carried_away_is_checked_alone(other: Path) -> None:
    assert {f["state"] for f in check(other / "silo-1")} == {"ok"}


# --- Silos that come and go ---------------------------------------------------------------------------------------


@pytest.fixture
def deployed(tmp_path: Path) -> Path:
    layout.init(tmp_path / "d", 2, layout.Address(port=18443), ["method=fedrep", "rounds=5"])
    return tmp_path / "d"


def perfed(*words: str) -> str:
    done = CliRunner().invoke(app, ["deploy", *words])
    if isinstance(done.exception, PerfedError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


def test_a_silo_that_comes_later_has_a_part_of_its_own_and_the_server_knows_its_key(deployed: Path) -> None:
    pictures = deployed.parent / "own.npz"
    np.savez(pictures, x=np.zeros((20, 1, 8, 8), np.uint8), y=np.arange(20) % 10)
    before = {p: p.read_bytes() for p in deployed.rglob("*") if p.is_file() and p.name != "server.yaml"}
    assert "perfed deploy silo silo-2" in perfed("add", str(deployed), "Oslo", f"data=npz:{pictures}", "--scores")
    assert {p: p.read_bytes() for p in before} == before
    assert states(deployed) == {}
    terms = Terms.load(deployed / "server" / "server.yaml")
    assert (terms.silos, terms.added, terms.names, terms.numbers) == (2, 1, {"Oslo": 2}, [0, 1, 2])
    assert certificates.Roster(deployed / "server")()[certificates.pem_of(deployed / "silo-2" / "node.pub")] == 2
    policy = yaml.safe_load((deployed / "silo-2" / "policy.yaml").read_text())
    assert policy["epochs"] == 10 and policy["scores"] == ["accuracy", "loss"] and policy["labels"] is False
    assert yaml.safe_load((deployed / "silo-2" / "silo.yaml").read_text())["called"] == "Oslo"
    assert (deployed / "silo-2" / "start.key").read_text() == (deployed / "silo-1" / "start.key").read_text()


def test_a_newcomers_secret_is_any_silos_that_is_here_and_else_it_is_said(deployed: Path) -> None:
    (deployed / "ca" / "start.key").unlink()
    assert "was not to be found" not in perfed("add", str(deployed), "Oslo", "data=npz:own.npz")
    for part in ("silo-0", "silo-1", "silo-2"):
        (deployed / part / "start.key").unlink()
    assert "let one send it its copy, past the server" in perfed("add", str(deployed), "Rome", "data=npz:own.npz")
    assert not (deployed / "silo-3" / "start.key").exists()


def test_a_silo_that_leaves_has_its_key_taken_away_and_its_number_stays_its_own(deployed: Path) -> None:
    read = certificates.Roster(deployed / "server")
    gone = certificates.pem_of(deployed / "silo-0" / "node.pub")
    assert read()[gone] == 0
    assert "nothing of silo-0 is in a common model" in perfed("remove", str(deployed), "silo-0")
    assert gone not in read() and not (deployed / "server" / "keys" / "silo-0.pub").exists()
    assert [part.name for part in layout.silos_of(deployed)] == ["silo-1"]
    assert Terms.load(deployed / "server" / "server.yaml").least == 1
    perfed("add", str(deployed), "Oslo", "data=npz:own.npz")
    assert Terms.load(deployed / "server" / "server.yaml").numbers == [1, 2]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["add", "Oslo"], "say where Oslo's data are, such as data=csv:/srv/oslo.csv: digits is shared out"),
        (["add", "silo-1", "data=npz:x"], "'silo-1' cannot name a new silo"),
        (["add", "Oslo", "label=x"], "'label=x' is not understood; write data=csv:/srv/oslo.csv"),
        (["remove", "Rome"], "silo-0"),
        (["retrain", "silo-0"], "silo-0 takes part; `perfed deploy remove"),
    ],
)
def test_what_cannot_be_added_or_removed_is_refused_in_a_sentence(deployed: Path, words: list[str], said: str) -> None:
    with pytest.raises(PerfedError) as refused:
        perfed(words[0], str(deployed), *words[1:])
    assert said in str(refused.value)


def test_with_another_flower_a_silo_falls_back_and_the_link_stays_shut(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("flwr")
    started: list[str] = []
    monkeypatch.setattr("perfed.silos.flower.engine.version", lambda name: "1.99.0")
    monkeypatch.setattr("perfed.silos.flower.operate.stay", lambda children, mark: started.extend(c.command[0] for c in children))
    done = CliRunner().invoke(app, ["deploy", "silo", str(made / "silo-0")])
    assert done.exit_code == 0 and started[-1].endswith("flower-supernode"), done.output
    assert "on an ordinary SuperNode: perfed speaks the interfaces of flwr 1.41, installed is 1.99.0" in done.stderr
    with pytest.raises(RunError, match="control routes cannot be closed: perfed speaks"):
        operate.local(made)
