"""A model card: sizes, scores with intervals, how the round came about, and what nobody tried."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open

import perfed
from perfed.disk import hash_file
from perfed.serving.card import measured, wilson
from perfed.serving.files import KEY
from perfed.trees import fingerprint


def test_intervals_are_wilsons() -> None:
    assert wilson(8, 10) == pytest.approx([0.4902, 0.9433], abs=1e-4)  # his formula by hand, z = 1.96
    assert wilson(0, 20) == pytest.approx([0.0, 0.1611], abs=1e-4)
    assert wilson(0, 0) is None
    low, high = wilson(500, 500) or (0, 0)
    assert low == pytest.approx(0.9924, abs=1e-4) and high == 1.0


def test_a_share_is_counted_in_all_and_per_class() -> None:
    scores = torch.eye(3)[torch.tensor([0, 0, 1, 0])]
    found = measured(scores, torch.tensor([0, 1, 1, 1]), ["a", "b", "c"])
    assert (found["right"], found["count"], found["unseen"]) == (2, 4, ["c"])
    assert [(one["class"], one["right"], one["count"]) for one in found["classes"]] == [("a", 1, 1), ("b", 1, 3)]


def test_the_card_says_what_is_known(tables: Path, exported: Path) -> None:
    text = exported.with_name("rome.safetensors.md").read_text()
    run = perfed.open(tables / "run")
    accuracy = run.accuracies()["rome"]
    line = run.rounds[0][-1]
    place = run.names.index("rome")
    tested = line["test"]["count"][place]
    assert f"{round(accuracy * tested)} of {tested} right, an accuracy of **{accuracy:.3f}**" in text
    low, high = wilson(round(accuracy * tested), tested) or (0, 0)
    assert f"{low:.3f} to {high:.3f} with 95 % certainty" in text
    assert "FedRep's model of rome, after round 4 of 4, from the run `run`, seed 0" in text
    assert "| columns | age, pressure, sex, smoker |" in text and "Data of the other 2 clients" in text
    best = max((line["validation"]["accuracy"][place], -line["round"]) for line in run.rounds[0])
    assert f"accuracy {best[0]:.3f}" in text and ("also the best one" in text or f"round {-best[1]} was the best one" in text)
    assert f"`{hash_file(exported)}`" in text and "perfed predict rome.safetensors rows.csv" in text
    for name in ("ill", "well"):
        assert f"| {name} | " in text


def test_the_files_own_card_holds_what_use_needs_and_no_path(tables: Path, exported: Path) -> None:
    with safe_open(exported, framework="pt") as file:
        card: dict[str, Any] = json.loads(file.metadata()[KEY])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    assert (
        card["classes"] == ["ill", "well"]
        and card["client"] == "rome"
        and card["round"] == 4
        and card["task"] == "classification"
    )
    assert [column["name"] for column in card["columns"]] == ["age", "pressure", "sex", "smoker"]
    assert (
        card["columns"][2]["levels"] == ["f", "m"] and card["columns"][1]["gaps"] and card["preprocessing"]["kind"] == "features"
    )
    assert card["parameters"]["sha256"] == fingerprint(tensors).hex()
    assert card["parameters"]["count"] == sum(tensor.numel() for tensor in tensors.values())
    assert str(tables) not in json.dumps(card)
