"""Our numbers beside the published ones: run once, gone on with, read by each paper's rule, written in every format."""

import csv
import json
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from perfed import papers
from perfed.cli.commands import app
from perfed.errors import InputError
from perfed.papers import page, show
from perfed.papers import run as papers_run
from perfed.papers.origin import origin
from perfed.papers.plan import Asked, plans
from perfed.papers.recipe import Reading
from perfed.papers.run import Work, remember, run
from perfed.papers.values import value
from perfed.units import signed

TINY = ["clients=3", "partition.alpha=5.0", "model=mlp", "data.fraction=0.2", "transport=serial"]


@pytest.fixture(autouse=True)
def nothing_downloaded(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setenv("PERFED_DATA", str(tmp_path_factory.mktemp("none")))
    monkeypatch.setenv("PERFED_CACHE", str(tmp_path_factory.mktemp("cache")))


def work(out: Path, *only: str, seeds: tuple[int, ...] = (0,), recipe: str = "fedcp/table2") -> Work:
    loaded = papers.load(recipe)
    asked = Asked(only or ("mnist-dirichlet", "fedavg", "fedper"), 2, None, seeds, tuple(TINY), stand_in=True)
    return Work(loaded, plans(loaded, asked), out, "perfed paper …", workers=1)


def times(out: Path) -> dict[str, float]:
    return {str(p.relative_to(out)): p.stat().st_mtime_ns for p in sorted(out.glob("cells/*/seed-*/final.json"))}


def test_a_cell_is_run_once_and_gains_seeds_without_running_the_first_again(tmp_path: Path) -> None:
    run(work(tmp_path))
    before = times(tmp_path)
    assert len(before) == 2
    run(work(tmp_path))
    assert times(tmp_path) == before
    run(work(tmp_path, seeds=(0, 1)))
    after = times(tmp_path)
    assert len(after) == 4
    assert {name: after[name] for name in before} == before
    answers = show.answers(papers.load("fedcp/table2"), tmp_path / "fedcp-table2")
    assert [a.ours.seeds for a in answers] == [2, 2]
    # the value is the mean over seeds of the best weighted accuracy that the run's own summary has
    own = [json.loads((a.run / "summary.json").read_text()) for a in answers if a.run]
    assert [a.ours.mean for a in answers] == pytest.approx([100 * s["accuracy"]["best"]["weighted"]["mean"] for s in own])


def test_an_interrupted_cell_goes_on(tmp_path: Path) -> None:
    asked = work(tmp_path, "mnist-dirichlet", "fedavg")

    def stop(seed: int, done: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(asked, stop)
    assert not times(tmp_path)
    run(work(tmp_path, "mnist-dirichlet", "fedavg"))
    assert len(times(tmp_path)) == 1


def test_a_cell_that_cannot_be_run_does_not_stop_the_others(tmp_path: Path) -> None:
    loaded = papers.load("fedcp/table2")
    asked = Asked(("mnist-dirichlet", "fedavg", "fedprox"), 2, None, (0,), (*TINY, "method.spring=0.5"), stand_in=True)
    task = Work(loaded, plans(loaded, asked), tmp_path, workers=1)
    run(task)
    found = {a.row.id: a for a in show.answers(loaded, task.folder)}
    assert found["fedavg"].ours.mean is None
    assert "no setting 'method.spring'" in found["fedavg"].ours.note
    assert found["fedprox"].ours.mean is not None


def record(folder: Path, settings: str, lines: list[dict[str, Any]], names: list[str]) -> Path:
    """Write a run by hand."""
    seed = folder / "seed-0"
    seed.mkdir(parents=True)
    (folder / "settings.yaml").write_text(settings)
    seed.joinpath("rounds.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    clients = {"names": names, "labels": [[1, 1]] * len(names), "majority": {"correct": [1], "count": [2]}, "test": [4, 8]}
    seed.joinpath("clients.json").write_text(json.dumps(clients))
    return folder


def line(number: int, correct: list[int], seconds: float = 60.0) -> dict[str, Any]:
    test = {"count": [4, 8], "accuracy": [right / n for right, n in zip(correct, (4, 8), strict=True)], "loss": [0.5, 0.5]}
    return {
        "round": number, "participants": [0, 1], "seconds": seconds, "seconds_train": seconds, "seconds_test": 0.0,
        "bytes_up": 2 * 4 * 2**20, "bytes_down": 2 * 4 * 2**20, "up": {}, "down": {}, "test": test,
    }  # fmt: skip


LINES = [line(0, [0, 0]), line(1, [4, 2]), line(2, [1, 8]), line(3, [2, 6])]


@pytest.mark.parametrize(
    ("settings", "reading", "expected"),
    [
        ("{report: weighted}", {}, 100 * 9 / 12),  # round 2: (1 + 8) / 12
        ("{report: mean}", {}, 62.5),  # rounds 1 to 3: (1 + ¼)/2 = 62.5, (¼ + 1)/2 = 62.5, (½ + ¾)/2 = 62.5; the first
        ("{report: mean, best: per_client}", {}, 100.0),  # 4 of 4 in round 1, 8 of 8 in round 2
        ("{report: mean, best: per_client}", {"client": "b"}, 100.0),
        ("{report: weighted}", {"client": "a"}, 25.0),  # in the round that is best for all
        ("{report: weighted}", {"measure": "std"}, 37.5),  # of ¼ and 1
        ("{report: weighted}", {"measure": "cv", "unit": "1e-2"}, 50.0),  # 37.5 / 75
        ("{report: weighted}", {"measure": "rounds", "unit": "rounds"}, 2.0),
        ("{report: weighted}", {"measure": "minutes", "unit": "min"}, 2.0),
        ("{report: weighted}", {"measure": "minutes_per_round", "unit": "min"}, 1.0),
    ],
)
def test_every_measure_is_read_by_its_papers_rule(
    tmp_path: Path, settings: str, reading: dict[str, str], expected: float
) -> None:
    folder = record(tmp_path / "run", settings.replace("}", ", method: fedavg, rounds: 3}"), LINES, ["a", "b"])
    assert value(folder, Reading.model_validate(reading)).mean == pytest.approx(expected)


@pytest.mark.parametrize(("settings", "client"), [("{series: after, after: true}", None), ("{best: per_client, every: 5}", "a")])
def test_a_run_that_has_just_begun_has_no_figure_and_hides_no_other(tmp_path: Path, settings: str, client: str | None) -> None:
    untested = {key: own for key, own in line(1, [1, 1]).items() if key != "test"}
    folder = record(
        tmp_path / "run", settings.replace("}", ", method: fedavg, rounds: 9}"), [line(0, [0, 0]), untested], ["a", "b"]
    )
    found = value(folder, Reading.model_validate({"client": client}))
    assert found.mean is None and found.note.startswith(("there is no round with scores", "no round is scored yet"))
    assert (found.rounds, found.planned) == (1, 9)


def test_differences_carry_their_sign() -> None:
    assert signed(0.311, 2) == "+0.31"
    assert signed(-0.311, 2) == "−0.31"
    assert signed(-0.001, 2) == "+0.00"


def test_the_command_runs_shows_and_writes(tmp_path: Path) -> None:
    words = ["paper", "fedcp/table2", "--only", "mnist-dirichlet,fedavg", "--rounds", "1", "--seeds", "0", "--stand-in"]
    said = CliRunner().invoke(app, [*words, *TINY, "--out", str(tmp_path), "--json"], catch_exceptions=False)
    found = json.loads(said.stdout)
    (cell,) = found["cells"]
    assert cell["published"]["mean"] == 98.81
    assert cell["difference"] is None  # digits are not MNIST
    assert "digits stands in for mnist" in cell["reduced"]
    folder = tmp_path / "fedcp-table2"
    printed = f"{cell['ours']['mean']:.2f}"
    with (folder / "table.csv").open() as file:
        assert list(csv.reader(file))[1][1] == printed
    assert f"| FedAvg | {printed} |" in (folder / "table.md").read_text()
    assert f"FedAvg & {printed} &" in (folder / "table.tex").read_text()
    page = (folder / "report.html").read_text()
    assert printed in page and "98.81" in page and "http" not in page.replace("http://www.w3.org", "")
    shown = CliRunner().invoke(app, ["paper", "fedcp/table2", "--show", "--out", str(tmp_path)], catch_exceptions=False)
    assert printed in shown.stdout


def test_every_number_says_where_it_comes_from(tmp_path: Path) -> None:
    run(work(tmp_path, seeds=(0, 1)))
    answers = show.answers(papers.load("fedcp/table2"), tmp_path / "fedcp-table2")
    measured, begun = origin(answers)
    assert ": seeds 0, 1, " in measured and measured.endswith(" of rounds in 2 runs.")
    assert begun.startswith("Begun with the code of ") and begun.endswith("(2 runs).")
    show.write(papers.load("fedcp/table2"), answers, tmp_path / "fedcp-table2")
    assert measured in (tmp_path / "fedcp-table2" / "table.md").read_text()


@pytest.mark.parametrize(
    ("cells", "called"),
    [
        ([("FedPick", "MM"), ("w/o PFSM", "MM")], ["FedPick", "w/o PFSM"]),
        ([("FedCP", "λ = 1"), ("FedCP", "λ = 5")], ["λ = 1", "λ = 5"]),
        ([("FedCP", "a"), ("FedCP", "b"), ("FedAvg", "a")], ["FedCP, a", "FedCP, b", "FedAvg, a"]),
    ],
)
def test_curves_are_called_as_the_table_calls_their_cells(cells: list[tuple[str, str]], called: list[str]) -> None:
    found: Any = [SimpleNamespace(row=SimpleNamespace(label=row), column=SimpleNamespace(label=at)) for row, at in cells]
    assert page.names(found) == called


def test_a_picture_that_cells_share_is_shown_once(tmp_path: Path) -> None:
    (tmp_path / "figures").mkdir()
    for name, data in (("distribution--a--fedper", b"1"), ("distribution--a--gpfl", b"1"), ("tsne--a--gpfl", b"2")):
        (tmp_path / "figures" / f"{name}.png").write_bytes(data)
    shown = page._analyses(papers.load("gpfl/figure2"), tmp_path).parts
    assert [str(html).count("<img") for _, html in shown] == [1, 1]
    assert "a, FedPer; a, GPFL: samples per client and class" in str(shown[0][1])


def test_a_cell_that_was_not_run_yet_says_so(tmp_path: Path) -> None:
    run(work(tmp_path, "mnist-dirichlet", "fedavg"))
    asked = work(tmp_path, "mnist-dirichlet", "fedavg", "fedper")
    remember(asked)  # as a call that was ended before it came to FedPer
    found = {a.row.id: a.ours for a in show.answers(asked.recipe, asked.folder)}
    assert found["fedavg"].mean is not None and found["fedper"].note == "not run yet"


def test_two_calls_at_the_same_time_lose_nothing_of_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (work(tmp_path, "mnist-dirichlet", method) for method in ("fedavg", "fedper"))
    other = Thread(target=remember, args=(second,))
    read = papers_run.recalled

    def slowly(place: Path) -> dict[str, dict[str, Any]]:
        found = read(place)
        if other.ident is None:  # the second call comes between the first one's reading and writing
            other.start()
            other.join(0.5)
        return found

    monkeypatch.setattr(papers_run, "recalled", slowly)
    remember(first)
    other.join()
    assert {name.split("/")[0] for name in read(first.folder / "cells.json")} == {"fedavg", "fedper"}


def test_an_unknown_table_suggests_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="did you mean 'fedcp/table2'"):
        CliRunner().invoke(app, ["paper", "fedcp/tabel2", "--out", str(tmp_path)], catch_exceptions=False)


def test_the_list_has_every_recipe_with_data_and_time() -> None:
    rows = json.loads(CliRunner().invoke(app, ["paper", "--json"], catch_exceptions=False).stdout)
    assert [row["name"] for row in rows] == list(papers.listing())
    table = next(row for row in rows if row["name"] == "fedcp/table6")
    assert table["data"] == {"cifar10": False}
    assert table["cells"] == 12 * 4
    assert table["seconds"] > 0
