"""Silos that predict numbers, labels and times, and agree on a table's columns by sums; without Flower."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from faraway import Here, final, folders, lines, serial, silo

from perfed.data import csvs
from perfed.data.cells import Words
from perfed.data.columns import Columns
from perfed.data.sheet import Sheet, typed
from perfed.data.tabular import stacked
from perfed.errors import RunError, WireError
from perfed.runs import parse
from perfed.runs.folder import SeedFolder
from perfed.silos import sums
from perfed.silos.conductor import Conductor
from perfed.silos.flower.layout import limits
from perfed.silos.rehearsal import question, rehearse

TASKS = {
    "regression": {"task": "regression", "label": "dose", "drop": "days,died,cough"},
    "multilabel": {"task": "multilabel", "label": "cough,died", "drop": "days,dose"},
    "survival": {"task": "survival", "label": "days,died", "drop": "dose,cough"},
}


def patients(path: Path, seed: int, count: int = 60, gaps: bool = False) -> Path:
    """Write a hospital's table."""
    rng = np.random.default_rng(seed)
    age, risk = rng.normal(0, 1, count), rng.normal(0, 1, count)
    rows = [
        {
            "age": "" if gaps and i % 7 == 3 else f"{a + seed:.2f}",
            "sex": ("f", "m", "x")[i % (2 + seed % 2)] if gaps else i % 2,
            "pressure": f"{p:.2f}",
            "dose": f"{2 * a + p:.2f}",
            "cough": int(a > 0),
            "days": f"{float(np.exp(-a)):.3f}",
            "died": i % 3 and 1,
        }
        for i, (a, p) in enumerate(zip(age, risk, strict=True))
    ]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return path


def deployed(place: Path, data: dict[str, Any], rows: str, policy: dict[str, Any] | None = None, **more: Any) -> Path:
    """Write a deployment on tables: each silo's own, or its rows of a common one."""
    name = "csv:patients.csv" if rows == "all" else str(data["name"])
    made = folders(place, policy={"data": [name]} | (policy or {}), data=data | {"name": name}, **({"partition": "iid"} | more))
    for i in range(3):
        entry = data | {"name": name} | ({"rows": "split"} if rows == "split" else {})
        (made / f"silo-{i}" / "silo.yaml").write_text(yaml.safe_dump({"client": i, "data": {name: entry}}))
    return made


@pytest.mark.parametrize("task", TASKS)
def test_other_tasks_give_the_bits_of_serial(tmp_path: Path, task: str) -> None:
    table = patients(tmp_path / "table.csv", 0, 120)
    place = deployed(tmp_path / "deployment", {"name": f"csv:{table}"} | TASKS[task], "split", method="fedrep")
    run = Conductor(place / "server", Here(place)).conduct()
    reference = serial(place, tmp_path / "runs")
    assert final(run / "seed-0")["digest"] == final(reference)["digest"]
    assert lines(run / "seed-0") == lines(reference)
    assert SeedFolder(run / "seed-0").clients["majority"] == SeedFolder(reference).clients["majority"]


def hospitals(place: Path, policy: dict[str, Any], scale: str = "federated", **more: Any) -> Path:
    """Write a deployment of three hospitals that each have a table with gaps and words of their own."""
    data = {"label": "cough", "drop": "days,died,dose", "scale": scale, "name": "csv:patients.csv"}
    made = deployed(place, data, "all", policy, method="fedrep", **more)
    for i in range(3):
        patients(made / f"silo-{i}" / "patients.csv", i, gaps=True)
    return made


@pytest.mark.parametrize("scale", ["federated", "client"])
def test_sums_decide_as_all_rows_together_would(tmp_path: Path, scale: str) -> None:
    place = hospitals(tmp_path / "by sums", {"sums": True}, scale)
    carrier = Here(place)
    run = Conductor(place / "server", carrier).conduct()
    assert [ask.verb for ask in carrier.asked[:6]] == ["columns"] * 3 + ["hello"] * 3
    found = [silo(place, i).model()[1].site.federation for i in range(3)]
    sheets = [fed.source[0].sheet for fed in found if fed.source]  # a silo's own rows, and which of them it trains on
    train = [fed.source[1].train[0] for fed in found if fed.source]
    ends = np.cumsum([0, *map(len, sheets)])
    whole = joined([f"csv:{place / f'silo-{i}' / 'patients.csv'}" for i in range(3)])
    rows = [own + start for own, start in zip(train, ends, strict=False)]
    decided = Columns.fit(whole, rows, "none" if scale == "client" else "federated")
    assert SeedFolder(run / "seed-0").columns() == (decided,) * 3
    ours = [fed.columns[0] for fed in found if fed.columns]
    assert [own == decided for own in ours] == [scale == "federated"] * 3
    file = tmp_path / "columns.json"
    file.write_text(json.dumps(decided.as_json()))
    again = hospitals(tmp_path / "by file", {}, scale)
    for i in range(3):
        path = again / f"silo-{i}" / "silo.yaml"
        plain = yaml.safe_load(path.read_text())
        plain["data"]["csv:patients.csv"]["columns"] = str(file)
        path.write_text(yaml.safe_dump(plain))
    other = Conductor(again / "server", Here(again)).conduct()
    assert final(run / "seed-0")["digest"] == final(other / "seed-0")["digest"]
    assert lines(run / "seed-0") == lines(other / "seed-0")


def joined(names: list[str]) -> Sheet:
    """Return tables one below the other, as one process would read them."""
    parts = [csvs.read(Path(name.removeprefix("csv:"))) for name in names]
    raw, _ = stacked(parts)
    return Sheet(typed(raw, ["age", "sex", "pressure"], Words()))


def test_sums_stay_at_home_unless_the_policy_lets_them_leave(tmp_path: Path) -> None:
    place = hospitals(tmp_path, {})
    with pytest.raises(RunError, match="sums over the columns of its table may not leave there"):
        Conductor(place / "server", Here(place)).conduct()
    assert "sums over this table's columns may not leave here; `sums: true`" in (
        place / "silo-0" / "state" / "refused.jsonl"
    ).read_text(encoding="utf-8")
    assert not limits(parse.build({"data": "digits"}))["sums"]
    for i in range(3):
        policy = place / f"silo-{i}" / "policy.yaml"
        policy.write_text(yaml.safe_dump(yaml.safe_load(policy.read_text()) | {"sums": True}))
    checked = rehearse(
        silo(place, 1).config, question(parse.load(place / "server" / "experiment.yaml"), silo(place, 1).config, 3)
    )
    assert checked["leaves"]["sums"] and checked["facts"]["columns"][0] == ["age", "feature"]


def test_a_silo_whose_columns_differ_takes_no_part(tmp_path: Path) -> None:
    place = hospitals(tmp_path, {"sums": True})
    table = place / "silo-2" / "patients.csv"
    table.write_text(table.read_text().replace("pressure", "druck", 1))
    run = Conductor(place / "server", Here(place)).conduct()
    assert "the silo's columns differ from the others': ['druck', 'number']" in (run / "seed-0" / "refused.jsonl").read_text(
        "utf-8"
    )
    assert SeedFolder(run / "seed-0").clients["train"][2] == 0


@pytest.mark.parametrize(
    "body",
    [
        b"\xff",
        b"[]",
        b'[{"name": "age"}]',
        b'[{"name": "age", "kind": "number", "count": 3, "gaps": 0, "mean": 1e999, "squares": 1}]',
        b'[{"name": "age", "kind": "number", "count": 3, "gaps": 0, "mean": 1, "squares": -1}]',
        b'[{"name": "sex", "kind": "category", "count": 3, "gaps": 0, "levels": {"f": 9}}]',
    ],
)
def test_sums_of_another_form_are_refused(body: bytes) -> None:
    with pytest.raises(WireError):
        sums.unpack(body)


@pytest.mark.parametrize(
    "wrong", [[{"name": 3}], [{"name": "age", "kind": "number", "scale": 0}], [{"name": "a", "kind": "code"}]]
)
def test_decisions_of_another_form_are_refused(wrong: list[Any]) -> None:
    with pytest.raises(WireError, match="no such"):
        sums.coded(Sheet(()), wrong, "federated")


def test_who_comes_later_is_coded_as_the_others_agreed(tmp_path: Path) -> None:
    place = hospitals(tmp_path, {"sums": True, "epochs": 10})
    Conductor(place / "server", Here(place)).conduct()
    own = place / "silo-3"
    own.mkdir()
    patients(own / "patients.csv", 9, gaps=True)
    for name in ("silo.yaml", "policy.yaml"):
        known = yaml.safe_load((place / "silo-0" / name).read_text())
        (own / name).write_text(yaml.safe_dump(known | ({"client": 3} if name == "silo.yaml" else {"sums": False})))
    terms = place / "server" / "server.yaml"
    terms.write_text(yaml.safe_dump(yaml.safe_load(terms.read_text()) | {"added": 1, "names": {"Bern": 3}}))
    carrier = Here(place, silos=4)
    run = Conductor(place / "server", carrier).conduct()
    assert [(ask.verb, ask.client) for ask in carrier.asked] == [("join", 3)]
    ours, decided = silo(place, 3).model()[0].columns, SeedFolder(run / "seed-0").columns()
    assert decided is not None and ours == decided[0]
