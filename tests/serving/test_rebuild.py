"""A file of tensors: every method's model comes back by name, and nothing in a file is executed."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn

import perfed
from perfed import methods
from perfed.data import load as load_samples
from perfed.errors import InputError, RunError
from perfed.serving.export import export
from perfed.serving.files import KEY, read_tensors
from perfed.serving.predict import load
from perfed.serving.rebuild import OwnCode


@dataclass(frozen=True, kw_only=True)
class Averaged(methods.find("fedavg")):  # type: ignore[misc]
    """A method of somebody's own."""


def trained(method: Any, model: Any = "mlp", **more: Any) -> perfed.Run:
    clients = perfed.federate(load_samples("digits", fraction=0.2), clients=4, partition="iid")
    options = {"warmup": 0} if method == "lgfedavg" else {}
    return perfed.train(clients, method, model=model, rounds=1, transport="serial", **options, **more)


def changed(path: Path, **entries: Any) -> Path:
    """Write the same tensors under a card with other entries."""
    with safe_open(path, framework="pt") as file:
        card = json.loads(file.metadata()[KEY])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    for place, value in entries.items():
        *above, last = place.split("__")
        inner = card
        for name in above:
            inner = inner[name]
        inner[last] = value
    save_file(tensors, path.with_name("changed.safetensors"), metadata={KEY: json.dumps(card)})
    return path.with_name("changed.safetensors")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("file") / "own.safetensors"
    export(trained("fedcp").model(0), path)
    return path


@pytest.mark.parametrize("method", methods.CATALOGUE)
def test_every_methods_model_comes_back_bit_for_bit(method: str, tmp_path: Path) -> None:
    done = trained(method, "cnn_bn" if method == "fedbn" else "mlp")
    federation, model = done.trained().site.federation, done.model(1)
    said = perfed.export(model, tmp_path / "own.safetensors", samples=federation.some(1))
    x = federation.x[federation.test[1]]
    again = load(tmp_path / "own.safetensors")
    assert said["apart"] == 0 and torch.equal(again.scores(x), model.raw(x))
    assert again.scores(x[:1]).argmax() == model.raw(x)[:1].argmax()
    assert said["right"] == round(done.accuracies()["client 1"] * len(x))


def test_options_of_method_and_network_come_back(tmp_path: Path) -> None:
    done = trained("fedcp", {"name": "cnn", "features": 20}, align=5.0)
    export(done.model(2), tmp_path / "own.safetensors")
    x, _ = done.trained().site.federation.some(2)
    assert torch.equal(load(tmp_path / "own.safetensors").scores(x), done.model(2).raw(x))


def test_others_models_stay_out_of_the_file(tmp_path: Path) -> None:
    """FedFomo's clients receive the models of others."""
    done = trained("fedfomo")
    weights = sum(leaf.numel() * 4 for leaf in done.trained().site.task.params().values())
    export(done.model(0), tmp_path / "own.safetensors")
    assert weights < (tmp_path / "own.safetensors").stat().st_size < weights + 10_000


def test_somebodys_own_code_is_never_taken_from_the_file(tmp_path: Path) -> None:
    done = trained(Averaged())
    export(done.model(0), tmp_path / "own.safetensors")
    with pytest.raises(InputError, match=r"a method of somebody's own; give its code: --method FILE\.py:Averaged"):
        load(tmp_path / "own.safetensors")
    x, _ = done.trained().site.federation.some(0)
    own = load(tmp_path / "own.safetensors", OwnCode(method=Averaged))
    assert torch.equal(own.scores(x), done.model(0).raw(x))


def test_a_network_without_a_name_is_exported_as_onnx_only(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 10))
    with pytest.raises(InputError, match=r"an object without a name.*export it as \.onnx"):
        export(trained("fedavg", net).model(0), tmp_path / "own.safetensors")
    assert list(tmp_path.iterdir()) == []


def test_own_code_is_found_by_the_command_not_by_the_file(tmp_path: Path, call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(
        "from torch import nn\n\n\ndef make(shape, classes, hidden=8):\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(64, hidden), nn.ReLU(), nn.Linear(hidden, classes))\n"
    )
    words = ["data.fraction=0.2", "clients=2", "partition=iid", "rounds=1", "model=net.py:make", "model.hidden=9", "out=runs"]
    assert call("run", *words, "name=own", "transport=serial")[0] == 0
    assert call("export", "runs/own", "--client", "0", "--out", "own.safetensors")[0] == 0
    federation = perfed.open("runs/own").trained().site.federation
    x, y = federation.some(0)
    torch.manual_seed(1)
    import numpy as np

    np.savez("x.npz", x=x.numpy(), y=y.numpy())
    assert "give it: --network net.py:make" in call("predict", "own.safetensors", "x.npz")[2]
    code, _, said = call("predict", "own.safetensors", "x.npz", "--network", "net.py:make")
    right = round(perfed.open("runs/own").accuracies()["client 0"] * len(y))
    assert code == 0 and f"here: {right} of {len(y)} right" in said


WRONG = {
    "another method": ({"rebuild__method": {"name": "nothing", "options": {}}}, "no method 'nothing'"),
    "a class of elsewhere": ({"rebuild__states": {"tuple": [None], "name": "Path"}}, "a state 'Path' that the method does not"),
    "an option of the wrong kind": ({"rebuild__method__options": {"budget": 3, "no": 1}}, "does not hold together"),
    "a tensor that is not there": ({"rebuild__states": {"dict": {"down": None, "mine": None}}}, "does not hold together"),
    "another network": ({"rebuild__network__name": "cnn"}, "does not hold together"),
    "no plan": ({"rebuild": 7}, "does not hold together"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_card_that_lies_is_one_sentence(what: str, file: Path) -> None:
    entries, wanted = WRONG[what]
    with pytest.raises((InputError, RunError), match=wanted):
        read_tensors(changed(file, **entries))


def test_what_is_no_model_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "x.safetensors").write_bytes(b"nothing")
    with pytest.raises(RunError, match="is damaged"):
        load(tmp_path / "x.safetensors")
    save_file({"a": torch.zeros(2)}, tmp_path / "y.safetensors")
    with pytest.raises(RunError, match="does not say what it is"):
        load(tmp_path / "y.safetensors")


def test_a_pt2_is_loaded_on_trust_alone(tmp_path: Path, call: Any) -> None:
    (tmp_path / "own.pt2").write_bytes(b"anything")
    with pytest.raises(InputError, match=r"torch may run code that is in .*; --trust does so, \.onnx and \.safetensors need no"):
        load(tmp_path / "own.pt2")
    code, _, said = call("predict", tmp_path / "own.pt2", tmp_path, "--trust")
    assert code == 2 and said.startswith("torch may run code that is in") and said.count("\n") == 2
