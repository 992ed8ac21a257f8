"""What operators and sites see: the state of a deployment, who was missing and why, and what would leave a silo."""

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("flwr")

from faraway import Here, folders

import perfed
from perfed.cli.deploy import _told
from perfed.errors import InputError
from perfed.silos.conductor import Conductor
from perfed.silos.flower import layout
from perfed.silos.flower.operate import planned
from perfed.silos.flower.status import status


def command(*words: str) -> Any:
    call = [sys.executable, "-c", "from perfed.cli import main; main()", *words]
    return subprocess.run(call, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A deployment that ran in one process; silo 2 left after its hello."""
    whole = tmp_path_factory.mktemp("view") / "d"
    settings = ["method=fedrep", "model=mlp", "model.hidden=8", "data.fraction=0.3", "rounds=2"]
    layout.init(whole, 3, layout.Address(port=18999), settings, terms={"gone": 0.1, "least": 1}, allowed={"scores": True})
    seen = 0

    def away(client: int) -> bool:
        nonlocal seen
        seen += client == 2
        return client == 2 and seen > 1

    Conductor(whole / "server", Here(whole, away=away)).conduct()
    return whole


def test_the_status_tells_silos_rounds_and_who_was_missing_why(place: Path) -> None:
    found = status(place)
    assert (found["link"], found["state"], found["round"], found["rounds"]) == ("not reached", "finished", 2, 2)
    assert 300 < found["certificate_days"] < 366 and found["version"] == perfed.__version__
    assert [s["torch"] for s in found["silos"]] == [version("torch")] * 3
    assert [s["last_answer"] for s in found["silos"]] == [2, 2, None]
    assert [s["missed"] for s in found["silos"]] == [0, 0, 3]
    assert "missing in round 2: not at the link for" in found["silos"][2]["note"]
    assert found == status(place / "server") | {"certificate_days": found["certificate_days"]}


def test_the_status_is_shown_as_a_table_and_as_json(place: Path) -> None:
    said = command("deploy", "status", str(place))
    assert (
        said.returncode == 0 and "run finished, round 2 of 2; certificate" in said.stdout and "not at the link" in said.stdout
    ), said
    assert json.loads(command("deploy", "status", str(place), "--json").stdout)["rounds"] == 2


def test_before_its_first_start_a_deployment_is_not_called_stopped(tmp_path: Path) -> None:
    layout.init(tmp_path / "d", 1, layout.Address(port=18998), ["data.fraction=0.3"])
    found = status(tmp_path / "d")
    assert (found["state"], found["round"], found["silos"][0]["state"]) == ("not started", None, "unknown")


def test_a_silos_part_has_no_status(place: Path) -> None:
    with pytest.raises(InputError, match="for its operator"):
        status(place / "silo-0")


def test_the_log_says_who_was_missing_in_which_round(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    place = folders(tmp_path, rounds=1)
    wrong = Here(place, garble=lambda ask, head, body: ("", b"") if ask.client == 1 and ask.train else (head, body))
    Conductor(place / "server", wrong).conduct()
    assert any("round 1 goes on without client 1" in record.getMessage() for record in caplog.records)


def test_a_silo_checks_itself_and_says_what_would_leave(place: Path) -> None:
    said = command("silo", "check", str(place / "silo-1"), "--json")
    found = json.loads(said.stdout)
    assert found["client"] == 1 and found["steps"] > 0 and found["leaves"]["scores"] and not found["leaves"]["labels"]
    assert found["leaves"]["bytes"] > 0 and "labels" not in found["facts"]
    assert all("head" not in name for name in found["leaves"]["update"])  # FedRep's head stays
    assert len(list((place / "silo-1" / "state").glob("*-0"))) == 1  # the rehearsal left nothing


def test_a_silo_that_would_refuse_says_so_before_it_takes_part(place: Path, tmp_path: Path) -> None:
    plain = yaml.safe_load((place / "server" / "experiment.yaml").read_text()) | {"rounds": 500}
    (tmp_path / "longer.yaml").write_text(yaml.safe_dump(plain))
    said = command("silo", "check", str(place / "silo-1"), "--experiment", str(tmp_path / "longer.yaml"))
    assert said.returncode != 0 and "500 rounds are more than the 2 allowed here" in said.stderr


def test_progress_knows_the_number_of_rounds(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert planned(place / "server") == (2, 1)
    _told(None, 2)(0, {"round": 1, "seconds": 0.5, "absent": [2]})
    assert capsys.readouterr().err == "seed 0 round 1 of 2: 0.5 s, absent [2]\n"
    with pytest.raises(InputError, match="is no server's part"):
        planned(place / "silo-0")


def test_a_reason_stands_once_where_a_silo_was_refused_and_so_was_missing(tmp_path: Path) -> None:
    whole, settings = tmp_path / "d", ["method=fedrep", "model=mlp", "model.hidden=8", "data.fraction=0.3", "rounds=1"]
    layout.init(whole, 2, layout.Address(port=18997), settings, terms={"least": 1})
    policy = whole / "silo-1" / "policy.yaml"
    policy.write_text(yaml.safe_dump(yaml.safe_load(policy.read_text()) | {"methods": ["fedavg"]}))
    Conductor(whole / "server", Here(whole, silos=2)).conduct()
    (_, refused) = status(whole)["silos"]
    assert refused["note"].count("the method is not allowed there") == 1 and refused["last_answer"] is None
