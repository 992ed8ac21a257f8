"""The page on data has a command for every door, and each of them trains when it is typed."""

import json
import shlex
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from reading import ROOT, commands
from typer.testing import CliRunner

from perfed.cli.commands import app

NEEDS = {"parquet": "pyarrow", "hf": "datasets"}
DOORS = [words for words in commands(ROOT / "docs" / "data.md") if words[0] == "run"]
RANDOM = np.random.default_rng(0)


def writers(folder: Path, inputs: list[object], labels: list[object]) -> None:
    """Write a folder as LEAF does, with two writers."""
    for part in ("train", "test"):
        (folder / part).mkdir(parents=True)
        users = {who: {"x": inputs, "y": labels} for who in ("f01", "f02")}
        held = {"users": list(users), "num_samples": [len(labels)] * 2, "user_data": users}
        (folder / part / f"all_data_{part}.json").write_text(json.dumps(held))


def write(place: Path) -> None:
    """Write what the commands read."""
    for clinic in ("leeds", "york"):
        for state in ("ill", "well"):
            (place / "clinics" / clinic / state).mkdir(parents=True)
            for i in range(12):
                pixels = RANDOM.integers(0, 256, (20, 20, 3), np.uint8)
                Image.fromarray(pixels).save(place / "clinics" / clinic / state / f"{i}.png")
    x, y = RANDOM.normal(size=(60, 4)).astype(np.float32), np.arange(60) % 3
    np.savez(place / "clinics.npz", x=x, y=y, group=np.arange(60) // 20)
    (place / "scans").mkdir()
    for name, held in {"x": x, "y": y, "group": np.arange(60) // 20}.items():
        np.save(place / "scans" / f"{name}.npy", held)
    words = {"stage": ["I", "II", None] * 20, "smoker": ["yes", "no"] * 30, "ward": ["a", "b", "c"] * 20}
    frame = pd.DataFrame(words | {"age": [*x[:59, 0], None], "dose": x[:, 1], "ill": ["ill", "well"] * 30})
    frame.to_csv(place / "patients.csv", index=False)
    for part in ("train", "test"):
        (place / "MNIST" / part).mkdir(parents=True)
        for client in range(3):
            own = ((RANDOM.integers(0, 256, (24, 1, 28, 28)) / 255 - 0.5) / 0.5).astype(np.float32)
            np.savez_compressed(place / "MNIST" / part / f"{client}.npz", data={"x": own, "y": np.arange(24) % 10})
    (place / "MNIST" / "config.json").write_text(json.dumps({"num_clients": 3, "num_classes": 10}))
    writers(place / "femnist", (RANDOM.integers(0, 256, (20, 784)) / 255).tolist(), [i % 62 for i in range(20)])
    text = "to be or not to be that is the question whether tis nobler in the mind to suffer"
    writers(place / "shakespeare", [text[i : i + 40] for i in range(20)], [text[i + 40] for i in range(20)])
    if find_spec("pyarrow"):
        frame.to_parquet(place / "patients.parquet")
    if find_spec("datasets"):
        import datasets

        held = {"text": [f"{'good' if i % 2 else 'bad'} day {i}" for i in range(40)], "label": [i % 2 for i in range(40)]}
        datasets.Dataset.from_dict(held | {"author": [f"w{i // 20}" for i in range(40)]}).save_to_disk(place / "reviews")


@pytest.mark.parametrize("words", DOORS, ids=lambda words: shlex.join(words[1:3]))
def test_a_door_trains_when_its_command_is_typed(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scheme = words[1].removeprefix("data=").partition(":")[0]
    if scheme in NEEDS:
        pytest.importorskip(NEEDS[scheme])
    write(tmp_path)
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, [*words, "rounds=1", "transport=serial"])
    assert done.exit_code == 0, done.output
    assert next(tmp_path.glob("runs/*/summary.json")).exists()


def test_every_door_has_its_command() -> None:
    from perfed.data.own import SCHEMES

    assert {words[1].removeprefix("data=").partition(":")[0] for words in DOORS} == set(SCHEMES)
