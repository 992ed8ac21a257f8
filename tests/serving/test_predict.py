"""Predictions: those of the run bit for bit, prepared as in training, and inputs that do not fit refused in a sentence."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import perfed
from perfed.data import load as load_samples
from perfed.errors import DataError, InputError
from perfed.serving.export import export
from perfed.serving.fit import Fit
from perfed.serving.predict import Predictor, compared, load, read
from perfed.serving.tell import as_csv, rows_of

Call = Callable[..., tuple[int, str, str]]


def test_predictions_are_those_of_the_run_bit_for_bit(tables: Path, exported: Path, call: Call) -> None:
    run = perfed.open(tables / "run")
    federation = run.trained().site.federation
    place = run.names.index("rome")
    model = load(exported)
    given = read(tables / "hospitals" / "rome.csv", model, "diagnosis", ["patient"])
    samples = federation.source[0]  # the tables one below the other, in the order of their files
    own = torch.nonzero(samples.group == place).flatten()
    assert torch.equal(given.x, federation.x[own])  # coded by the columns that travel in the file
    assert torch.equal(model.scores(given.x), run.model("rome").raw(federation.x[own]))
    tested = [given.rows.index(str(int(row) - int(own[0]) + 2)) for row in federation.test[place]]
    right = model.scores(given.x[tested]).argmax(1) == samples.y[federation.test[place]]
    assert float(right.float().mean()) == pytest.approx(run.accuracies()["rome"])
    assert list(map(int, given.kept["patient"])) == list(range(80))
    assert given.said == ["rows without a value in 'pressure', filled as training rows were: 1"]


def test_the_command_answers_alike_from_a_file_and_from_the_run(tables: Path, exported: Path, call: Call) -> None:
    asked = [tables / "hospitals" / "rome.csv", "--label", "diagnosis", "--keep", "patient"]
    code, text, said = call("predict", exported, *asked)
    rows = list(csv.DictReader(io.StringIO(text)))
    assert code == 0 and list(rows[0]) == ["input", "row", "patient", "label", "class", "probability", "p(ill)", "p(well)"]
    assert rows[5]["row"] == "7" and rows[5]["patient"] == "5"
    shares = [[float(row["p(ill)"]), float(row["p(well)"])] for row in rows]
    assert all(sum(share) == pytest.approx(1, abs=1e-5) for share in shares)
    assert all(float(row["probability"]) == max(share) for row, share in zip(rows, shares, strict=True))
    assert call("predict", tables / "run", *asked, "--client", "rome")[1] == text
    right = sum(row["class"] == row["label"] for row in rows)
    assert f"here: {right} of 80 right" in said and "when it was trained: " in said and "the two agree" in said
    code, text, _ = call("predict", exported, *asked, "--json")
    found = json.loads(text)
    assert [one["class"] for one in found["predictions"]] == [row["class"] for row in rows]
    assert found["checked"]["now"]["right"] == right and found["model"]["client"] == "rome"


def test_answers_go_to_a_file_whose_ending_says_how(exported: Path, tables: Path, tmp_path: Path, call: Call) -> None:
    asked = [exported, tables / "hospitals" / "oslo.csv", "--keep", "patient", "--keep", "diagnosis"]
    assert call("predict", *asked, "--out", tmp_path / "found.json")[:2] == (0, "")
    assert len(json.loads((tmp_path / "found.json").read_text())["predictions"]) == 80
    code, text, _ = call("predict", *asked)
    assert call("predict", *asked, "--out", tmp_path / "found.csv")[0] == code == 0
    assert (tmp_path / "found.csv").read_text() == text


WRONG = {  # what a row becomes → what is said of it
    "a column is missing": (lambda lines: [lines[0].replace("pressure", "pulse"), *lines[1:]], "has no column 'pressure'"),
    "a column too many": (lambda lines: ["weight," + lines[0], *("1," + line for line in lines[1:])], "has a column 'weight'"),
    "a word for a number": (lambda lines: [*lines[:2], "1,old,120,f,yes,ill", *lines[2:]], "row 3, column 'age': 'old'"),
    "neither yes nor no": (lambda lines: [lines[0], "1,50,120,f,maybe,ill"], "row 2, column 'smoker': 'maybe' is no yes or no"),
    "no rows": (lambda lines: lines[:1], "has a header, but no rows"),
    "a short row": (lambda lines: [*lines, "1,2"], "row 82 has 2 values, but the header names 6 columns"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_table_that_does_not_fit_is_refused(what: str, tables: Path, exported: Path, tmp_path: Path, call: Call) -> None:
    change, wanted = WRONG[what]
    lines = (tables / "hospitals" / "rome.csv").read_text().splitlines()
    (tmp_path / "rows.csv").write_text("\n".join(change(lines)))
    code, text, said = call("predict", exported, tmp_path / "rows.csv", "--keep", "patient", "--label", "diagnosis")
    assert code == 2 and text == "" and f"{tmp_path / 'rows.csv'}" in said and wanted in said and said.count("\n") == 1


def test_a_label_that_is_no_class_and_a_word_that_training_did_not_have(exported: Path, tmp_path: Path, call: Call) -> None:
    (tmp_path / "rows.csv").write_text("age,pressure,sex,smoker,diagnosis\n50,120,x,yes,dead\n")
    code, _, said = call("predict", exported, tmp_path / "rows.csv", "--label", "diagnosis")
    assert code == 2 and "row 2 is labelled 'dead', which is none of the model's classes: ill, well" in said
    code, _, said = call("predict", exported, tmp_path / "rows.csv", "--keep", "diagnosis")
    assert code == 0 and "'x' in 'sex' was no level of its own in training" in said


def test_pictures_are_read_as_in_training(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for number in range(24):
        path = tmp_path / "all" / ("dark", "light")[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 128, (12, 12, 3), dtype=np.uint8) + np.uint8(127 * (number % 2))).save(path)
    samples = load_samples(f"folder:{tmp_path / 'all'}", size=8)
    done = perfed.train(perfed.federate(samples, clients=2, partition="iid"), "fedavg", rounds=1, transport="serial")
    pictures = {"pictures": {"size": 8, "converted": True}}
    export(done.model(0), tmp_path / "own.safetensors", about=pictures)
    model = load(tmp_path / "own.safetensors")
    given = read(tmp_path / "all", model, "folder")
    assert given.rows[0] == "dark/0.png" and len(given.x) == 24
    assert sorted(map(bytes, given.x.flatten(1).numpy())) == sorted(map(bytes, samples.x.flatten(1).numpy()))
    found = compared(model, [given], [model.scores(given.x)])
    assert found is not None and found["now"]["count"] == 24 and found["then"] is None
    (tmp_path / "all" / "dark" / "99.png").write_bytes(b"no picture")
    with pytest.raises(DataError, match=r"99\.png is no readable picture"):
        read(tmp_path / "all", model)
    fit = Fit(model.card | {"pictures": {}})
    with pytest.raises(DataError, match="has 12×12 pixels, but the model takes 8×8"):
        fit.picture(tmp_path / "all" / "dark" / "0.png", "0.png")
    Image.new("L", (8, 8)).save(tmp_path / "grey.png")
    with pytest.raises(DataError, match="is grey, but the model takes colour pictures"):
        fit.picture(tmp_path / "grey.png", "grey.png")


def test_arrays_and_their_labels(tmp_path: Path) -> None:
    digits = load_samples("digits", fraction=0.2)
    done = perfed.train(perfed.federate(digits, clients=2, partition="iid"), "fedper", rounds=1, transport="serial")
    export(done.model(1), tmp_path / "own.safetensors")
    model = load(tmp_path / "own.safetensors")
    x, y = digits.x[:50].numpy(), digits.y[:50].numpy()
    np.savez(tmp_path / "both.npz", x=x[:, 0], y=y)  # grey pictures without the axis of their channel
    given = read(tmp_path / "both.npz", model)
    assert torch.equal(given.x, digits.x[:50]) and given.labels == [str(label) for label in y]
    np.savez(tmp_path / "wide.npz", x=x.repeat(2, axis=3))
    with pytest.raises(DataError, match=r"wide\.npz: x has samples of 1×8×16, but the model takes 1×8×8"):
        read(tmp_path / "wide.npz", model)
    np.savez(tmp_path / "scaled.npz", x=x / 255)
    with pytest.raises(DataError, match="holds values up to 1, but the model takes pictures with values 0 to 255"):
        read(tmp_path / "scaled.npz", model)
    np.savez(tmp_path / "odd.npz", x=x, y=y[:7])
    with pytest.raises(DataError, match="x has 50 samples, but y has 7"):
        read(tmp_path / "odd.npz", model)
    with pytest.raises(InputError, match=r"there are \.csv, \.npz, pictures"):
        (tmp_path / "x.txt").write_text("1")
        read(tmp_path / "x.txt", model)


def test_which_model_is_said_exactly_once(tables: Path, exported: Path, call: Call) -> None:
    table = tables / "hospitals" / "rome.csv"
    assert "choose one by --client" in call("predict", tables / "run", table)[2]
    assert "--client, --seed, --at and --experiment choose in a folder" in call("predict", exported, table, "--client", "0")[2]
    assert "there is no file" in call("predict", tables / "none.onnx", table)[2]
    assert "ends in .safetensors, .onnx, .pt2" in call("predict", table, table)[2]


@pytest.mark.parametrize(
    ("task", "scores", "wanted", "cells"),
    [
        (
            "multilabel",
            [0.0, 3.0],
            {"labels": ["b"], "probabilities": {"a": 0.5, "b": pytest.approx(0.952574)}},
            "b,0.5,0.952574",
        ),
        ("regression", [2.5], {"value": 2.5}, "2.5"),
        ("survival", [-1.0], {"risk": -1.0}, "-1.0"),
    ],
)
def test_what_tells_no_classes_apart_gives_labels_or_a_number(
    task: str, scores: list[float], wanted: dict[str, object], cells: str, tmp_path: Path
) -> None:
    card = {
        "task": task,
        "classes": ["a", "b"][: len(scores)],
        "input": {"kind": "features", "shape": ["batch", 1], "type": "float32"},
    }
    model = Predictor(card, lambda x: torch.tensor(scores).expand(len(x), -1), "own")
    assert model.answers(model.scores(torch.zeros(1, 1))) == [wanted]
    (tmp_path / "x.csv").write_text("age,y\n3,1\n")
    given = read(tmp_path / "x.csv", model, None, ["y"])
    assert as_csv(rows_of(model, [given], [model.scores(given.x)])).splitlines()[1].endswith(f",1,{cells}")
    with pytest.raises(InputError, match=f"--label compares classes, and this model is for {task}"):
        read(tmp_path / "x.csv", model, "y")
