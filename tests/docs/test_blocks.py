"""Python on a page runs as it stands there, with few rounds; a block with a title is a file of the examples, which runs whole."""

import re
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from reading import PAGES, ROOT, blocks, name
from torch import nn

import perfed
from perfed.data import load
from perfed.evaluate.metrics import Metric

TUTORIAL = ROOT / "examples" / "tutorial"
SCRIPTS = sorted(TUTORIAL.glob("*.py"))


def clinics() -> dict[str, object]:
    for number in range(16):
        path = Path("clinics") / ("leeds", "york")[number % 2] / ("ill", "well")[number // 2 % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (number,) * 3).save(path)
    rng = np.random.default_rng(0)
    for part in ("train", "test"):
        Path("MNIST", part).mkdir(parents=True, exist_ok=True)
        np.savez(f"MNIST/{part}/0.npz", data={"x": rng.normal(size=(4, 3)).astype("float32"), "y": np.arange(4) % 2})
    return {"x": rng.normal(size=(40, 3)).astype("float32"), "y": rng.integers(0, 2, 40), "hospital": rng.integers(0, 4, 40)}


def networks() -> dict[str, object]:
    parts = [nn.Linear(8, 8) if place % 2 == 0 else nn.ReLU() for place in range(7)]
    module = nn.Sequential()
    module.add_module("classifier", nn.Sequential(*parts))
    return {"my_module": module, "x": torch.zeros(2, 8)}


def taken_home() -> dict[str, object]:
    clients = perfed.federate("digits", clients=4, partition="iid")
    perfed.export(perfed.train(clients, "fedavg", rounds=1).model(3), "three.onnx")
    return {"samples": clients.x[:5]}


def recorded() -> dict[str, object]:
    perfed.run(method="fedcp", align=1, clients=3, rounds=2, snapshots=1, name="fedcp-mnist-1a2b3c4d", out="runs", progress=False)
    return {}


WORLDS = {  # what a page's reader has before the first block
    "CONTRIBUTING.md": lambda: (
        {n: getattr(perfed, n) for n in ("Method", "average", "broadcast", "descend")}
        | {"dataclass": __import__("dataclasses").dataclass, "Params": dict}
    ),
    "docs/analyses.md": recorded,
    "docs/data.md": clinics,
    "docs/export.md": taken_home,
    "docs/metrics.md": lambda: {"Metric": Metric},
    "docs/models.md": networks,
    "docs/partitions.md": lambda: {"samples": load("digits")},
}


def python(page: Path) -> list[str]:
    return [block.text for block in blocks(page) if block.language == "python" and not block.title]


@pytest.mark.parametrize("page", [page for page in PAGES if python(page)], ids=name)
def test_python_on_the_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    here: dict[str, object] = {"__name__": "page"}
    here |= WORLDS.get(name(page), dict)()
    for text in python(page):
        exec(compile(re.sub(r"\brounds=\d+", "rounds=2", text), name(page), "exec"), here)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_titled_block_is_the_file_it_names(script: Path) -> None:
    titled = [block.text for page in PAGES for block in blocks(page) if block.title == str(script.relative_to(ROOT))]
    assert titled == [script.read_text(encoding="utf-8")]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_the_tutorials_scripts_run(script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(TUTORIAL))
    try:
        made = runpy.run_path(str(script), run_name="__main__")
    finally:
        sys.modules.pop("my_method", None)
    if script.stem == "my_net":
        assert perfed.models.wrap(made["make"]((1, 8, 8), 10))(torch.zeros(2, 1, 8, 8)).shape == (2, 10)
