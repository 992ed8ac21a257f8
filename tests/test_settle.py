"""What nobody chose fits the data: its own groups are the clients, and the network is one for its kind."""

from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import perfed
from perfed.cli.commands import app
from perfed.data import Samples
from perfed.errors import InputError
from perfed.runs import parse
from perfed.runs.assemble import SharedData
from perfed.runs.settle import introduced, settled


def grouped(tmp_path: Path, *, test: bool = False, groups: int = 4) -> str:
    rng = np.random.default_rng(0)
    arrays = {"x": rng.normal(size=(120, 6)).astype(np.float32), "y": np.arange(120) % 3, "group": np.arange(120) % groups}
    np.savez(tmp_path / "own.npz", **arrays, **({"test": (np.arange(120) // groups) % 5 == 0} if test else {}))
    return f"npz:{tmp_path / 'own.npz'}"


def asked(*words: str) -> tuple[perfed.Experiment, SharedData]:
    experiment = parse.load(None, words)
    shared = SharedData.of(experiment)
    return settled(experiment, shared.samples), shared


def test_groups_of_the_data_are_the_clients(tmp_path: Path) -> None:
    """They became 20 synthetic clients without a word."""
    experiment, shared = asked(f"data={grouped(tmp_path)}")
    assert experiment.partition.name == "natural" and shared.splits[0].names == ("0", "1", "2", "3")
    assert introduced(experiment, shared) == "4 clients, groups of the data: 0, 1, 2, 3; 30 samples each; network: mlp"


def test_groups_with_an_official_test_part_keep_it(tmp_path: Path) -> None:
    experiment, shared = asked(f"data={grouped(tmp_path, test=True)}")
    assert experiment.partition.name == "domains" and [len(rows) for rows in shared.splits[0].test] == [6, 6, 6, 6]


def test_subjects_that_are_only_tested_are_no_reason_for_domains() -> None:
    x, group = torch.zeros(40, 3), torch.arange(40) % 4
    samples = Samples(x, torch.arange(40) % 2, ("a", "b"), group, tuple("wxyz"), group == 3, "features")
    assert settled(parse.load(None), samples).partition.name == "natural"


def test_another_partition_is_said(tmp_path: Path) -> None:
    data = grouped(tmp_path)
    for words in (["partition=dirichlet", "clients=5"], ["clients=5"], ["partition.alpha=0.1", "clients=5"]):
        experiment, shared = asked(f"data={data}", *words)
        said = introduced(experiment, shared)
        assert said.startswith("5 clients made by Dirichlet 0.1") and "; the 4 groups in the data are not used" in said


def test_how_time_is_cut_is_said(tmp_path: Path) -> None:
    said = introduced(*asked(f"data={grouped(tmp_path)}", "partition=timeline"))
    assert "groups of the data: 0, 1, 2, 3; 30 samples each; cut in the order of the data: the last" in said


@pytest.mark.parametrize(("partition", "warned"), [("natural", True), ("iid", True), ("timeline", False)])
def test_windows_that_overlap_are_warned_of_where_they_are_cut_at_random(
    partition: str, warned: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = np.arange(600)
    columns = {"y": here % 6, "subject": here % 30 + 1, "is_train_subject": here % 3 > 0, "label_names": np.array([*"abcdef"])}
    (tmp_path / "har").mkdir()
    np.savez(tmp_path / "har" / "har.npz", x=np.zeros((600, 128, 9), np.float16), **columns)
    monkeypatch.setenv("PERFED_DATA", str(tmp_path))
    experiment, shared = asked("data=har", f"partition={partition}", "clients=30")
    lines = introduced(experiment, shared).splitlines()
    assert [line.endswith("partition=timeline tests on what comes later") for line in lines] == (
        [False, True] if warned else [False]
    )


def test_data_without_groups_keeps_its_clients() -> None:
    experiment, shared = asked("data=digits")
    assert (experiment.partition.name, experiment.model.name, len(shared.splits[0].names)) == ("dirichlet", "mlp", 20)
    assert introduced(experiment, shared).startswith("20 clients made by Dirichlet 0.1, ")


def test_what_is_settled_is_what_would_have_been_written(tmp_path: Path) -> None:
    experiment, _ = asked(f"data={grouped(tmp_path)}")
    written = parse.load(None, [f"data=npz:{tmp_path / 'own.npz'}", "partition=natural", "model=mlp"])
    assert experiment.digest() == written.digest() and experiment.plain() == written.plain()
    assert parse.load(None).digest() == parse.load(None, ["partition=dirichlet", "model=mlp"]).digest()


def test_in_python_too(tmp_path: Path) -> None:
    samples = Samples.of(
        np.zeros((40, 3), dtype=np.float32), np.arange(40) % 2, group=np.array(["leeds", "york"])[np.arange(40) // 20]
    )
    assert perfed.federate(samples).names == ("leeds", "york")
    assert len(perfed.federate(samples, alpha=100.0, clients=3).names) == 3


def test_texts_get_a_network_for_texts(tmp_path: Path) -> None:
    """The default network met texts with a traceback."""
    rows = "\n".join(f"{'good fine' if i % 2 else 'bad poor'} word{i % 7},{i % 2},{i % 3}" for i in range(60))
    (tmp_path / "texts.csv").write_text(f"text,label,client\n{rows}\n")
    words = [f"data=csv:{tmp_path / 'texts.csv'}", "data.text=text", "data.client=client", "rounds=1", f"out={tmp_path / 'runs'}"]
    done = CliRunner().invoke(app, ["run", *words], catch_exceptions=False)
    assert done.exit_code == 0 and "network: fasttext" in done.stderr and "3 clients, groups of the data" in done.stderr
    with pytest.raises(
        InputError, match="model mlp is for features and image and signal, and this data is tokens; for tokens there are fasttext"
    ):
        perfed.run(parse.load(None, [*words, "model=mlp"]), progress=False)


def test_larger_pictures_get_convolutions_and_signals_theirs() -> None:
    pictures = Samples(torch.zeros(8, 1, 28, 28, dtype=torch.uint8), torch.arange(8) % 2, ("a", "b"))
    signals = Samples(torch.zeros(8, 3, 64), torch.arange(8) % 2, ("a", "b"), kind="signal")
    assert [settled(parse.load(None), found).model.name for found in (pictures, signals)] == ["cnn", "harcnn"]
    assert settled(parse.load(None, ["model=mlp"]), pictures).model.name == "mlp"


def test_a_device_that_is_not_there_leaves_no_folder_behind(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such device here; torch finds cpu"):
        CliRunner().invoke(
            app, ["run", "device=cuda:99", f"out={tmp_path / 'runs'}"], catch_exceptions=False, standalone_mode=False
        )
    assert not (tmp_path / "runs").exists()
