"""What a table's columns become is decided by training rows alone, kept with the run and with every model."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from typer.testing import CliRunner

import perfed
from perfed.cli.commands import app
from perfed.data import Samples, load
from perfed.data.columns import Columns, ColumnSums, agreed, fitted
from perfed.data.sheet import Sheet, SheetColumn
from perfed.errors import DataError, InputError

TABLE = {
    "age": [40.0, 60.0, np.nan, 50.0, 1000.0],
    "ward": ["a", "b", "a", "b", "new"],
    "smokes": ["yes", "no", "no", "no", "yes"],
    "label": ["x", "y", "x", "y", "x"],
}


def sheet(scale: Any = "federated") -> Sheet:
    found = Samples.of(pd.DataFrame(TABLE), scale=scale).sheet
    assert found is not None
    return found


def test_test_rows_decide_nothing() -> None:
    decided = Columns.fit(sheet(), [[0, 1], [2, 3]])
    assert decided.names == ("age", "age missing", "ward=a", "ward=b", "smokes")
    age = decided.columns[0]
    assert (age.mean, age.fill, age.scale) == (50.0, 50.0, 10.0)  # of 40, 60, 50: the 1000 is a test row
    assert decided.columns[2].fill == 0.25


def test_rows_are_coded_as_decided() -> None:
    decided = Columns.fit(sheet(), [[0, 1], [2, 3]])
    wanted = [[-1, 0, 1, 0, 1], [1, 0, 0, 1, 0], [0, 1, 1, 0, 0], [0, 0, 0, 1, 0], [95, 0, 0, 0, 1]]
    assert decided.rows(sheet()).tolist() == wanted
    assert decided.rows(pd.DataFrame(TABLE)).tolist() == wanted  # a column that is no input is left aside
    rows = pd.DataFrame(TABLE).astype(object).where(lambda frame: frame.notna(), None).to_dict("records")
    assert decided.rows(rows).tolist() == wanted


def test_a_level_of_one_row_is_other() -> None:
    decided = Columns.fit({"ward": ["a", "a", "b", "c"]})
    assert decided.names == ("ward=a", "ward=other")
    assert decided.rows({"ward": ["A", "c", "never seen", None]}).tolist() == [[1, 0], [0, 1], [0, 1], [0, 1]]


def test_decisions_go_through_json() -> None:
    decided = Columns.fit(sheet())
    assert Columns.of_json(json.loads(json.dumps(decided.as_json()))) == decided
    with pytest.raises(DataError, match="no decisions"):
        Columns.of_json([{"nonsense": 1}])


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"age": ["old"], "ward": ["a"], "smokes": ["no"]}, "row 0, column 'age': 'old' is no number, which it was in training"),
        ({"age": [1], "ward": ["a"], "smokes": ["perhaps"]}, "row 0, column 'smokes': 'perhaps' is no yes or no"),
        ({"age": [1], "ward": ["a"]}, "has no column 'smokes'; it has age, ward"),
    ],
)
def test_rows_that_do_not_fit_are_refused(table: dict[str, list[Any]], said: str) -> None:
    with pytest.raises(DataError, match=said):
        Columns.fit(sheet()).rows(table)


def test_what_leaves_a_client_is_sums_and_they_give_what_all_rows_would() -> None:
    random = np.random.default_rng(0)
    values = random.normal(1e6, 3.0, 90)
    whole = Sheet((SheetColumn("a", "number", values), SheetColumn("s", "category", random.integers(0, 3, 90), ("u", "v", "w"))))
    parts = [ColumnSums.of(whole.take(rows)) for rows in np.array_split(np.arange(90), 4)]
    together = agreed(parts)
    assert together.columns[0].mean == pytest.approx(values.mean(), rel=1e-14)
    assert together.columns[0].scale == pytest.approx(values.std(ddof=1), rel=1e-9)
    assert together.columns[1].levels == ("u", "v", "w")
    assert all(
        set(own) <= {"name", "kind", "count", "gaps", "mean", "squares", "levels"} for part in parts for own in part.columns
    )


def test_a_client_scales_by_its_own_training_rows() -> None:
    one, two = fitted(sheet("client"), [[0, 1], [3, 4]])
    assert (one.columns[0].mean, two.columns[0].mean) == (50.0, 525.0)
    assert one.columns[1] == two.columns[1]  # levels are agreed on


def test_a_constant_column_is_zero_and_no_error() -> None:
    assert Columns.fit({"a": [5.0, 5.0, 5.0]}).rows({"a": [5.0, 6.0]}).tolist() == [[0.0], [1.0]]


def test_clients_may_share_test_rows_and_scale_them_each_its_own_way() -> None:
    frame = pd.DataFrame({"a": [1.0, 3.0, 10.0, 30.0, 5.0], "label": [0, 1, 0, 1, 0]})
    samples = Samples.of(frame, scale="client")
    split = perfed.Split([[0, 1], [2, 3]], [[], []], [[4], [4]], ("u", "v"), {}, samples.digest())
    made = perfed.federate(samples, split=split)
    seen = [next(made.batches(client, "test")).x.item() for client in (0, 1)]
    assert seen == pytest.approx([(5 - 2) / 2**0.5, (5 - 20) / 200**0.5])
    assert made.columns is not None and len(set(made.columns)) == 2


@pytest.mark.parametrize("way", ["pandas", "arrow", "polars"])
def test_any_data_frame_gives_the_same_samples(way: str) -> None:
    frame: Any = pd.DataFrame(TABLE | {"count": pd.array([1, None, 3, 4, 5], dtype="Int64")})
    like = Samples.of(frame).digest()
    if way == "arrow":
        frame = pytest.importorskip("pyarrow").Table.from_pandas(frame)
    if way == "polars":
        frame = pytest.importorskip("polars").from_pandas(frame)
    assert Samples.of(frame).digest() == like


def test_parquet_is_read_as_csv_is(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame(TABLE)
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_csv(tmp_path / "t.csv", index=False)
    one, two = load(f"parquet:{tmp_path / 't.parquet'}"), load(f"csv:{tmp_path / 't.csv'}")
    assert one.digest() == two.digest() and one.sheet is not None
    (tmp_path / "t.parquet").write_bytes(b"no parquet")
    with pytest.raises(DataError, match="t.parquet is no readable Parquet file"):
        load(f"parquet:{tmp_path / 't.parquet'}")


def test_tables_of_a_folder_match_by_name_and_share_levels(tmp_path: Path) -> None:
    (tmp_path / "oslo.csv").write_text("label,a,s\nx,1,u\ny,2,u\n")
    (tmp_path / "rome.csv").write_text("s,label,a\nv,y,\nv,x,4\n")
    made = load(f"csv:{tmp_path}")
    assert made.sheet is not None and made.groups == ("oslo", "rome") and made.classes == ("x", "y")
    assert made.sheet.columns[0].values.tolist()[:2] == [1, 2] and made.sheet.columns[1].levels == ("u", "v")
    (tmp_path / "rome.csv").write_text("label,a\nx,1\n")
    with pytest.raises(DataError, match="rome.csv has no column 's', which .*oslo.csv has"):
        load(f"csv:{tmp_path}")


def patients(folder: Path) -> Path:
    random = np.random.default_rng(1)
    ages = random.integers(20, 90, 90)
    rows = [f"{'' if i % 7 == 0 else age},{'FM'[i % 2]},{'lr'[i % 3 == 0]},{int(age > 55)},{i % 3}" for i, age in enumerate(ages)]
    (folder / "p.csv").write_text("age,sex,side,ill,site\n" + "\n".join(rows))
    return folder / "p.csv"


def test_decisions_are_kept_with_the_run_and_the_model(tmp_path: Path) -> None:
    data = {"name": f"csv:{patients(tmp_path)}", "label": "ill", "client": "site", "scale": "client"}
    done = perfed.run(method="fedper", data=data, rounds=2, out=tmp_path / "runs", progress=False)
    seed = next((tmp_path / "runs").glob("*/seed-0"))
    model = done.model("1")
    assert model.columns.names == ("age", "age missing", "sex=f", "sex=m", "side=l", "side=r")
    shown = json.loads(CliRunner().invoke(app, ["data", "show", str(seed), "--json"]).stdout)
    assert Columns.of_json(shown["columns"][1]) == model.columns and len(shown["columns"]) == 3
    x = model.columns.rows({"age": [44, None], "sex": ["f", "?"], "side": ["r", "l"]})
    assert torch.isfinite(model.raw(torch.from_numpy(x))).all()
    again = perfed.open(next((tmp_path / "runs").glob("*"))).model("1")
    assert again.columns == model.columns


def test_a_file_of_decisions_is_used_instead_of_new_ones(tmp_path: Path) -> None:
    source, out = f"csv:{patients(tmp_path)}", tmp_path / "agreed.json"
    done = CliRunner().invoke(app, ["data", "columns", source, "label=ill", "drop=site", f"out={out}"])
    assert done.exit_code == 0 and "divided by" in done.stdout, done.output
    (tmp_path / "later.csv").write_text("side,age,sex,ill\nr,30,X,1\nl,,F,0\n")
    made = load(f"csv:{tmp_path / 'later.csv'}", label="ill", columns=str(out))
    assert made.sheet is not None
    decided = fitted(made.sheet, [[0]])[0]
    assert decided.as_json() == json.loads(out.read_text())
    assert decided.rows(made.sheet)[0, 2:4].tolist() == [0.0, 0.0]  # a sex that nobody had
    with pytest.raises(InputError, match="cannot read decisions"):
        load(f"csv:{tmp_path / 'later.csv'}", label="ill", columns="nowhere.json")


def test_a_table_is_shown_before_a_run(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["data", "show", f"csv:{patients(tmp_path)}", "label=ill", "client=site"])
    assert done.exit_code == 0, done.output
    assert "2 levels: f, m" in done.stdout and "90 rows, 2 classes, 3 clients" in done.stdout
    np.savez(tmp_path / "own.npz", x=np.zeros((6, 4, 4), np.uint8), y=[0, 1, 0, 1, 0, 1], group=[0, 0, 0, 1, 1, 1])
    done = CliRunner().invoke(app, ["data", "show", f"npz:{tmp_path / 'own.npz'}"])
    assert done.stdout.split("\n")[0] == "6 samples, image 1×4×4, 2 classes, 2 clients"
    done = CliRunner().invoke(app, ["data", "columns", f"npz:{tmp_path / 'own.npz'}", f"out={tmp_path / 'c.json'}"])
    assert done.exit_code and not (tmp_path / "c.json").exists()
