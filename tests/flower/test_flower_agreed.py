"""Three hospitals predict a number from tables with gaps and words, over Flower: columns by sums, answers in the label's unit."""

import csv
import json
import socket
from pathlib import Path

import pytest
from test_flower_tasks import patients
from typer.testing import CliRunner

from perfed.cli.commands import app
from perfed.runs.folder import SeedFolder

pytest.importorskip("flwr")
pytestmark = pytest.mark.flower


def typed(*words: str) -> str:
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    return done.output


def test_hospitals_agree_on_columns_and_predict_a_number(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    study = tmp_path / "study"
    data = (
        "data=csv:patients.csv",
        "data.task=regression",
        "data.label=dose",
        "data.drop=days,died,cough",
        "data.scale=federated",
    )
    budget = ("method=fedrep", "rounds=20", "budget.lr=0.05")
    typed("deploy", "init", str(study), *data, *budget, "--silos", "3", "--scores", "--sums", "--port", str(port))
    for i in range(3):
        patients(study / f"silo-{i}" / "patients.csv", i, 120, gaps=True)
    assert "would refuse" not in typed("deploy", "check", str(study))
    policy = study / "silo-1" / "policy.yaml"
    policy.write_text(policy.read_text().replace("sums: true", "sums: false"))
    assert "sums over this table's columns may not leave" in CliRunner().invoke(app, ["deploy", "check", str(study)]).output
    policy.write_text(policy.read_text().replace("sums: false", "sums: true"))
    typed("deploy", "local", str(study))
    seed = SeedFolder(next((study / "server" / "runs").glob("*/seed-0")))
    decided = seed.columns()
    assert decided is not None and [column.name for column in decided[0].columns] == ["age", "sex", "pressure"]
    last = json.loads((seed.path / "rounds.jsonl").read_text().splitlines()[-1])["test"]
    assert min(last["r2"]) > 0.3 and "accuracy" not in last
    new = tmp_path / "new.csv"
    new.write_text("age,sex,pressure\n1.5,f,0.5\n-1.5,m,-0.5\n,x,0\n")
    typed("predict", str(study / "silo-0"), str(new), "--out", str(tmp_path / "answers.csv"))
    high, low, _ = (float(row["value"]) for row in csv.DictReader((tmp_path / "answers.csv").open()))
    assert high > low + 2
