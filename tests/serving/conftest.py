"""Models to use: of a table with gaps and words, of pictures, of texts; trained once, exported once."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perfed.cli import main
from perfed.runs import parse as setting
from perfed.runs import run as experiment

Call = Callable[..., tuple[int, str, str]]
HEADER = "patient,age,pressure,sex,smoker,diagnosis"


def write_hospital(path: Path, seed: int, count: int = 80) -> None:
    """Write a hospital's table: the diagnosis follows age and pressure; one value is missing."""
    rng = np.random.default_rng(seed)
    age, pressure = rng.normal(60, 10, count), rng.normal(130, 15, count)
    ill = (age - 60) / 10 + (pressure - 130) / 15 + rng.normal(0, 0.5, count) > 0
    words = zip(rng.choice(["f", "m"], count), rng.choice(["yes", "no"], count), np.where(ill, "ill", "well"), strict=True)
    rows = [f"{i},{a:.1f},{p:.1f},{','.join(w)}" for i, (a, p, w) in enumerate(zip(age, pressure, words, strict=True))]
    rows[3] = rows[3].replace(f"{pressure[3]:.1f}", "", 1)
    path.write_text("\n".join([HEADER, *rows]) + "\n")


def trained(*words: str) -> Path:
    return experiment.run(setting.load(None, [*words, "transport=serial"])).path


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Call:
    """The command line in this process: its exit code, its output and what it says beside."""

    def run(*words: Any) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["perfed", *map(str, words)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    return run


@pytest.fixture(scope="session")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with three hospitals' tables and a run on them."""
    place = tmp_path_factory.mktemp("tables")
    (place / "hospitals").mkdir()
    for seed, name in enumerate(("london", "oslo", "rome")):
        write_hospital(place / "hospitals" / f"{name}.csv", seed)
    data = [f"data=csv:{place / 'hospitals'}", "data.label=diagnosis", "data.drop=patient"]
    trained("method=fedrep", *data, "rounds=4", "budget.lr=0.1", f"out={place}", "name=run")
    return place


@pytest.fixture(scope="session")
def exported(tables: Path) -> Path:
    """Rome's model as a file of tensors."""
    from perfed.cli.models import of_folder
    from perfed.serving.export import export

    (client,), find = of_folder(tables / "run", ["rome"], None, None, None)
    model, classes, about, samples = find(client)
    export(model, tables / "rome.safetensors", classes, about, samples)
    return tables / "rome.safetensors"
