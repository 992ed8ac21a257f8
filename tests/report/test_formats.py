"""Results in other hands: the table as text, the figures as files, every number as a tidy frame."""

import csv
import io
import json

import pytest
from typer.testing import CliRunner

from perfed.cli.commands import app
from perfed.errors import InputError
from perfed.report.frame import COLUMNS, frame
from perfed.report.read import gather


@pytest.fixture
def folder(tmp_path, make_run):
    for method, last in {"local": [50, 60], "fedavg": [40, 60], "fedcp": [70, 50]}.items():
        make_run(f"three/{method}", method, clients=2, rounds=1, correct={0: [[10, 10], last]}, validation=method == "local")
    return tmp_path / "three"


def said(*words):
    done = CliRunner().invoke(app, ["report", *map(str, words)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_same_digits_in_every_format(folder):
    markdown, tex = said(folder, "--format", "md"), said(folder, "--format", "latex")
    (row,) = [line for line in csv.DictReader(io.StringIO(said(folder, "--format", "csv"))) if line["method"] == "FedCP"]
    record = next(r for r in json.loads(said(folder, "--format", "json"))["table"] if r["method"] == "fedcp")
    assert record["last.weighted"]["mean"] == 0.6 and row["last round: weighted %"] == "60.00"
    assert "| FedCP | <ins>60.00</ins> | <ins>60.00</ins> |" in markdown  # the majority class has more
    assert "FedCP & \\underline{60.00} & \\underline{60.00} &" in tex and tex.endswith("\\end{tabular}\n")


def test_notes_go_along_where_the_format_has_a_place_for_them(make_run):
    lone = make_run("lone", "fedcp")
    assert "\n- Local was not run" in said(lone, "--format", "md")
    assert said(lone, "--format", "latex").startswith("% Local was not run")
    assert "Local was not run" in json.loads(said(lone, "--format", "json"))["notes"][-1]


def test_columns_are_chosen_and_the_file_is_written(folder, tmp_path):
    said(folder, "--format", "md", "--columns", "last.weighted, cost.seconds", "--out", tmp_path / "table.md")
    text = (tmp_path / "table.md").read_text()
    assert text.startswith("| Method | last round: weighted % | whole run: seconds |\n")
    said(folder, "--format", "csv", "--out", tmp_path)
    assert (tmp_path / "table.csv").read_text().startswith("method,")


def test_a_format_that_is_none_and_columns_of_a_page_are_refused(folder):
    with pytest.raises(InputError, match="no format 'latx'; did you mean 'latex'"):
        said(folder, "--format", "latx")
    with pytest.raises(InputError, match="--columns is for tables"):
        said(folder, "--columns", "last")
    assert not (folder / "report.html").exists()


def test_figures_are_written_as_files(folder, tmp_path):
    found = json.loads(said(folder, "--figures", tmp_path / "drawn", "--json"))
    names = {"curves", "loss", "gains-over-local", "gains-over-fedavg", "clients", "labels", "costs"}
    assert {path.name for path in (tmp_path / "drawn").iterdir()} == {f"{n}.{k}" for n in names for k in ("pdf", "png", "svg")}
    assert sorted(found["figures"]) == sorted(str(path) for path in (tmp_path / "drawn").iterdir())
    assert found["report"] == str(folder / "report.html")


def test_every_number_has_a_row(folder):
    found = frame([folder])
    assert list(found.columns) == list(COLUMNS)
    last = found[(found["round"] == 1) & (found["part"] == "test") & (found["metric"] == "accuracy")]
    values = {(row.method, row.client): row.value for row in last.itertuples()}
    assert values["FedCP", "client 0"] == 0.7 and values["FedAvg", "client 1"] == 0.6
    assert set(found["metric"]) == {"accuracy", "loss"}
    assert set(found[found["part"] == "validation"]["method"]) == {"Local"}
    # 3 methods × 2 rounds × 2 clients × 2 metrics on test data, a third of that on validation data
    assert len(found) == 24 + 8
    assert len(frame(gather([folder]))) == len(found)


def test_clients_that_were_not_scored_have_no_row_and_variants_are_told_apart(make_run, tmp_path):
    for number, align in enumerate((0, 1)):
        made = make_run(f"two/run-{number}", "fedcp", clients=3, rounds=1, options={"align": align})
    path = made / "seed-0" / "rounds.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[1]["after"] = {"correct": [None, 50, None], "count": [None, 100, None], "loss": [None, 0.5, None]}
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = frame([tmp_path / "two"])
    after = found[found["part"] == "after"]
    assert [tuple(row) for row in after.itertuples(index=False)] == [
        ("FedCP (align=1)", 0, 1, "client 1", "after", "accuracy", 0.5),
        ("FedCP (align=1)", 0, 1, "client 1", "after", "loss", 0.5),
    ]
    assert set(found["method"]) == {"FedCP (align=0)", "FedCP (align=1)"}
