"""A client with data of its own joins a run that is over, and no bit of the run changes."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import perfed
from perfed import keys
from perfed.cli.commands import app
from perfed.errors import DataError, InputError, PerfedError
from perfed.results.joined import join


def table(
    path: Path, seed: int, rows: int, *, columns: int = 4, classes: tuple[str, ...] = ("sick", "well"), **more: Any
) -> Path:
    """Write a hospital's table: numbers, and a diagnosis that follows from them."""
    x = keys.normal(keys.key(seed, "x"), (rows, columns)).numpy()
    names = [classes[int(value > 0)] for value in x[:, 0]]
    head = ",".join([*(f"m{i}" for i in range(columns)), "diagnosis", *more])
    lines = [",".join([*map(str, row), name, *map(str, more.values())]) for row, name in zip(x, names, strict=True)]
    path.write_text("\n".join([head, *lines]) + "\n")
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of three hospitals."""
    place = tmp_path_factory.mktemp("join")
    (place / "hospitals").mkdir()
    for number, name in enumerate(("Bern", "Rome", "Lima")):
        table(place / "hospitals" / f"{name}.csv", number, 60)
    done = perfed.run(
        data={"name": f"csv:{place / 'hospitals'}", "label": "diagnosis"},
        method="fedper",
        rounds=3,
        budget={"lr": 0.1},
        out=place / "runs",
        progress=False,
        transport="serial",
    )
    assert done.path is not None
    return done.path


def files(folder: Path) -> dict[str, str]:
    return {str(p.relative_to(folder)): sha256(p.read_bytes()).hexdigest() for p in folder.rglob("*") if p.is_file()}


def test_a_hospital_joins_and_has_its_model_and_the_run_is_as_it_was(run: Path, tmp_path: Path) -> None:
    oslo, before = table(tmp_path / "oslo.csv", 9, 40), files(run)
    words = ["join", str(run), f"data=csv:{oslo}", "name=Oslo", "epochs=20", "--json"]
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert (told["name"], told["train"], told["test"], told["epochs"], told["round"]) == ("Oslo", 30, 10, 20, 3)
    assert told["after"]["loss"] < told["before"]["loss"]
    after = files(run)
    assert {name: after.pop(name) for name in before} == before
    assert set(after) >= {"newcomers/Oslo/joined.json"} and all(name.startswith("newcomers/Oslo/") for name in after)
    assert Path(told["file"]).stat().st_size > 0
    again = join(run, f"csv:{oslo}", name="Oslo", epochs=20)
    assert again.before == told["before"] and again.after == told["after"]


def test_its_model_is_an_ordinary_one_and_scores_as_it_was_tested(run: Path, tmp_path: Path) -> None:
    new = join(run, f"csv:{table(tmp_path / 'oslo.csv', 9, 40)}", name="Oslo", epochs=20)
    model, data = new.model(), new._new.site.federation
    right = (model.raw(data.x[data.test[0]]).argmax(1) == data.y[data.test[0]]).float().mean()
    assert float(right) == pytest.approx(new.after["accuracy"])
    assert sorted(model.state_dict()) == sorted(perfed.open(run).model("Rome").state_dict())  # type: ignore[union-attr]


def test_a_client_that_joins_a_run_it_is_like_does_as_well_in_python(run: Path) -> None:
    x = keys.normal(keys.key(11, "x"), (80, 4))
    samples = perfed.Samples.of(x.numpy(), np.where(x[:, 0] > 0, "well", "sick"))
    new = perfed.join(run, samples, epochs=30)
    assert new.after["accuracy"] >= 0.8 and new.after["count"] == 20
    assert torch.equal(new.model()(x), perfed.join(run, samples, epochs=30).model()(x))


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ({"columns": 3}, "a sample of the run is 4, one of the newcomer's 'oslo' is 3"),
        ({"classes": ("sick", "dead")}, "has the class 'dead', which the run does not know: sick, well"),
        ({"rows": 1}, "has 1 sample: it needs one to learn from and one to test on"),
    ],
)
def test_data_that_do_not_fit_are_refused_in_a_sentence(run: Path, tmp_path: Path, made: dict[str, Any], said: str) -> None:
    oslo = table(tmp_path / "oslo.csv", 9, **({"rows": 20} | made))
    with pytest.raises((InputError, DataError)) as refused:
        join(run, f"csv:{oslo}")
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["name=Oslo"], "say where the newcomer's data are, such as data=csv:oslo.csv"),
        (["dta=csv:x"], "data"),
        (["data=csv:nowhere.csv"], "there is nothing at 'nowhere.csv'"),
        (["data=digits"], "the run's data are of kind features, the newcomer's 'digits' of kind image"),
        (["data=digits", "epochs=many"], "epochs must be a whole number, got 'many'"),
        (["data=digits", "epochs=0"], "join.epochs must be at least 1"),
        (["data=digits", "seed=7"], "this run has seeds 0, not 7"),
    ],
)
def test_what_join_does_not_understand_is_refused_in_a_sentence(run: Path, words: list[str], said: str) -> None:
    done = CliRunner().invoke(app, ["join", str(run), *words])
    assert done.exit_code != 0 and isinstance(done.exception, PerfedError) and said in str(done.exception)


def ward(
    path: Path, seed: int, rows: int, *, shift: float = 0.0, unit: float = 1.0, words: bool = False, dose: bool = False
) -> Path:
    """Write a table with a gap, and numbers in a hospital's own unit; the label follows from the first of them."""
    x = keys.normal(keys.key(seed, "ward"), (rows, 2)).numpy()
    lines = [f"{'high' if words else ''},0.0,{'1.5' if dose else 'well'}"] if words else [f",0.5,{'1.5' if dose else 'well'}"]
    for a, b in x.tolist():
        label = f"{2 * a + b}" if dose else ("well" if a > 0 else "sick")
        lines.append(f"{'low' if words else a * unit + shift},{b},{label}")
    path.write_text("\n".join(["pressure,age,diagnosis", *lines]) + "\n")
    return path


@pytest.fixture(scope="module")
def scaled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of two hospitals that scale by their own rows."""
    place = tmp_path_factory.mktemp("scaled")
    (place / "wards").mkdir()
    for number, name in enumerate(("Bern", "Rome")):
        ward(place / "wards" / f"{name}.csv", number, 60, shift=100.0 * number, unit=1.0 + number)
    data = {"name": f"csv:{place / 'wards'}", "label": "diagnosis", "scale": "client"}
    done = perfed.run(
        data=data, method="fedavg", rounds=5, budget={"lr": 0.2}, out=place / "runs", progress=False, transport="serial"
    )
    assert done.path is not None
    return done.path


def test_a_newcomer_scales_by_its_own_training_rows_where_everyone_does(scaled: Path, tmp_path: Path) -> None:
    new = join(scaled, f"csv:{ward(tmp_path / 'oslo.csv', 7, 80, shift=5000.0, unit=40.0)}", name="Oslo", epochs=1)
    data = new._new.site.federation
    own = data.x[data.train[0]]
    there = own[:, 1] == 0  # rows without a gap in the first column
    assert float(own[there, 0].mean()) == pytest.approx(0, abs=1e-5) and float(own[there, 0].std()) == pytest.approx(1, abs=1e-4)
    assert data.columns is not None and data.columns[0].columns[0].mean == pytest.approx(5000, abs=20)
    assert new.after["accuracy"] >= 0.8  # in another unit than anybody's before
    assert new.model().columns == data.columns[0]


def test_a_newcomer_s_table_that_reads_otherwise_is_refused(scaled: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the column 'pressure' is category in the newcomer's 'oslo' and number in the run"):
        join(scaled, f"csv:{ward(tmp_path / 'oslo.csv', 7, 20, words=True)}")
    (tmp_path / "few.csv").write_text("age,weight,diagnosis\n1,,well\n2,3,sick\n3,4,sick\n")
    with pytest.raises(InputError, match="has no column 'pressure', which the run's clients have"):
        join(scaled, f"csv:{tmp_path / 'few.csv'}")
    with pytest.raises(InputError, match="the run is for classification, the newcomer's 'dose' for regression"):
        join(scaled, f"csv:{ward(tmp_path / 'dose.csv', 7, 20, dose=True)}", task="regression")


def test_a_newcomer_joins_a_run_that_learns_numbers(tmp_path: Path) -> None:
    (tmp_path / "wards").mkdir()
    for number, name in enumerate(("Bern", "Rome")):
        ward(tmp_path / "wards" / f"{name}.csv", number, 60, dose=True)
    data = {"name": f"csv:{tmp_path / 'wards'}", "label": "diagnosis", "task": "regression"}
    run = perfed.run(data=data, method="fedper", rounds=8, budget={"lr": 0.1}, progress=False, transport="serial")
    new = perfed.join(run, f"csv:{ward(tmp_path / 'oslo.csv', 7, 60, dose=True)}", epochs=5)
    assert new.after["r2"] > 0.5
