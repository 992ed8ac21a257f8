"""A client's model as a file: it scores as the model does, without perfed, and holds nothing of anybody else."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_runs import perfed as call

import perfed
from perfed.cli.models import of_folder
from perfed.data import load
from perfed.errors import InputError, RunError
from perfed.runs import parse as setting
from perfed.runs import run as experiment
from perfed.serving import export as exported
from perfed.serving.predict import load as load_model
from perfed.serving.predict import read

ALONE = """
import json, sys
import numpy as np, torch
card = {"perfed.json": ""}
net = torch.export.load(sys.argv[1], extra_files=card).module()
print(json.dumps({"scores": net(torch.from_numpy(np.load(sys.argv[2]))).tolist(), "card": json.loads(card["perfed.json"]),
                  "perfed": any(name.split(".")[0] == "perfed" for name in sys.modules)}))
"""


def trained(method: str, model: str = "mlp", **more: Any) -> perfed.Run:
    clients = perfed.federate(load("digits", fraction=0.2), clients=4, partition="iid")
    options = {"warmup": 0} if method == "lgfedavg" else {}
    return perfed.train(clients, method, model=model, rounds=1, transport="serial", **options, **more)


def scores(path: Path, x: torch.Tensor) -> torch.Tensor:
    return torch.export.load(path).module()(x)


@pytest.mark.parametrize("method", ["fedavg", "fedbn", "fedcp", "spherefed"])
def test_a_pt2_scores_as_the_model_does(method: str, tmp_path: Path) -> None:
    done = trained(method, "cnn_bn" if method == "fedbn" else "mlp")
    fed, model = done.trained().site.federation, done.model(1)
    said = perfed.export(model, tmp_path / "own.pt2", samples=fed.some(1))
    for rows in (fed.test[1], fed.test[1][:1]):  # any number of samples at once
        assert torch.equal(scores(tmp_path / "own.pt2", fed.x[rows]), model.raw(fed.x[rows]))
    assert said["right"] == round(done.accuracies()["client 1"] * len(fed.test[1]))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["own.pt2", "own.pt2.md"]


@pytest.mark.parametrize(("method", "model"), [("fedcp", "mlp"), ("dualfed", "cnn"), ("fedpick", "cnn_bn"), ("gpfl", "mlp")])
def test_onnx_scores_as_the_model_does(method: str, model: str, tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    done = trained(method, model)
    said = perfed.export(done.model(2), tmp_path / "own.onnx", [str(i) for i in range(10)])
    session = runtime.InferenceSession(tmp_path / "own.onnx")
    card = json.loads(session.get_modelmeta().custom_metadata_map["perfed"])
    assert card["classes"] == [str(i) for i in range(10)] and said["apart"] < 1e-5
    x, _ = done.trained().site.federation.some(2)
    found = session.run(None, {"samples": x.numpy()})[0]
    expected = done.model(2).raw(x).detach()
    assert np.allclose(found, expected.numpy(), atol=1e-5)
    used = load_model(tmp_path / "own.onnx")
    assert torch.allclose(used.scores(x), expected, atol=1e-5)
    assert [one["class"] for one in used.answers(used.scores(x))] == [str(int(place)) for place in expected.argmax(1)]


def test_a_file_holds_no_sample_and_nobody_elses_model(tmp_path: Path) -> None:
    """FedFomo's clients receive the models of others; PyTorch keeps the inputs that a program was traced with."""
    rng = np.random.default_rng(0)
    x = rng.random((400, 32), dtype=np.float32)
    samples = perfed.Samples.of(x, rng.integers(0, 3, 400), kind="features")
    clients = perfed.federate(samples, clients=8, partition="iid")
    done = perfed.train(clients, "fedfomo", rounds=2, transport="serial")
    model = done.model(0)
    task = done.trained().site.task
    assert len(model.state_dict()) > 4 * len(task.params())
    said = perfed.export(model, tmp_path / "own.pt2")
    with zipfile.ZipFile(tmp_path / "own.pt2") as packed:
        content = [packed.read(name) for name in packed.namelist()]
    assert not any(row.tobytes() in part for row in x for part in content)
    weights = sum(leaf.numel() * 4 for leaf in task.params().values())
    assert sum(len(part) for part in content) < 2 * weights + 60_000  # one model and its graph
    assert said["bytes"] > weights


def test_a_run_is_taken_home_by_command_and_runs_without_perfed(tmp_path: Path) -> None:
    call("run", "method=fedrep", "clients=3", "partition=iid", "rounds=2", "data.fraction=0.2", f"out={tmp_path}", "name=run")
    done = call("export", str(tmp_path / "run"), "--client", "client 2", "--out", str(tmp_path / "two.pt2"), "--json")
    said = json.loads(done.stdout)
    assert "torch may run code that is in a .pt2 file" in done.stderr
    opened = perfed.open(tmp_path / "run")
    fed = opened.trained().site.federation
    np.save(tmp_path / "x.npy", fed.x[fed.test[2]].numpy())
    done = subprocess.run(
        [sys.executable, "-I", "-c", ALONE, tmp_path / "two.pt2", tmp_path / "x.npy"], capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    assert not found["perfed"] and found["card"]["round"] == 2 and found["card"]["classes"] == [str(i) for i in range(10)]
    assert found["card"]["input"]["shape"] == ["batch", 1, 8, 8] and found["card"]["input"]["type"] == "uint8"
    assert torch.allclose(torch.tensor(found["scores"]), opened.model(2).raw(fed.x[fed.test[2]]))
    assert said[0]["right"] == round(opened.accuracies()["client 2"] * len(fed.test[2]))
    call("export", str(tmp_path / "run"))
    names = [f"client-{i}.safetensors{card}" for i in range(3) for card in ("", ".md")]
    assert sorted(path.name for path in (tmp_path / "run" / "models").iterdir()) == names
    assert "one file, but there are 3 clients" in call("export", str(tmp_path / "run"), "--out", "m.pt2", code=2).stderr
    assert "did you mean 'client 1'" in call("export", str(tmp_path / "run"), "--client", "client1", code=2).stderr
    assert (
        "ends in .safetensors, .onnx, .pt2"
        in call("export", str(tmp_path / "run"), "--client", "1", "--out", "m.pt", code=2).stderr
    )


def test_texts_carry_their_vocabulary(tmp_path: Path) -> None:
    words = ("good fine best", "bad poor worst")
    rows = [f"{i % 2},{words[i % 2]} number {i % 7}" for i in range(90)]
    (tmp_path / "texts.csv").write_text("\n".join(["label,text", *rows]))
    data = [f"data=csv:{tmp_path / 'texts.csv'}", "data.text=text", "model=fasttext", "partition=iid", "clients=3"]
    experiment.run(setting.load(None, [*data, "rounds=1", f"out={tmp_path}", "name=run"]))
    _, made = of_folder(tmp_path / "run", ["1"], None, None, None)
    model, classes, about, samples = made(1)
    perfed.export(model, tmp_path / "own.safetensors", classes, about, samples)
    again = load_model(tmp_path / "own.safetensors")
    assert "worst" in again.card["vocabulary"] and again.card["input"]["type"] == "int32" and again.fit.columns == ["text"]
    given = read(tmp_path / "texts.csv", again, "label")
    assert torch.equal(again.scores(given.x), model.raw(perfed.open(tmp_path / "run").trained().site.federation.x))


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"ends in \.safetensors, \.onnx, \.pt2, got 'own\.pth'"):
        perfed.export(trained("fedavg").model(0), tmp_path / "own.pth")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_scores_otherwise_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, read = exported.WAYS[".pt2"]
    monkeypatch.setitem(exported.WAYS, ".pt2", (write, lambda path, model: lambda x: read(path, model)(x) + 0.01))
    with pytest.raises(RunError, match="its scores differ from the model's"):
        perfed.export(trained("fedavg").model(0), tmp_path / "own.pt2")
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_diverged_is_not_taken_home(tmp_path: Path) -> None:
    broken = trained("fedavg").model(0)
    for _, tensor in broken.tensors():
        tensor.data.fill_(float("nan"))
    with pytest.raises(RunError, match="client 0's model has diverged"):
        perfed.export(broken, tmp_path / "own.pt2")
