"""Silos that predict numbers, labels and times, and agree on a table's columns by sums; without Flower."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from faraway import Here, final, folders, lines, serial, silo

from perfed.runs.folder import SeedFolder
from perfed.silos.conductor import Conductor

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
