"""Reading run folders back."""

import numpy as np
import pytest

from perfed.errors import RunError
from perfed.report.read import differing, gather, labels, read
from perfed.runs.parse import flat


def test_a_run_is_read_with_every_seed(make_run):
    run = read(make_run("r", "fedcp", seeds=(3, 10), rounds=2, options={"align": 5}))
    assert run.method == "fedcp"
    assert list(run.rounds) == [3, 10]
    assert [line["round"] for line in run.rounds[10]] == [0, 1, 2]
    assert run.done == 2
    assert run.manifest["command"][1] == "run"
    assert run.total("bytes_up") == [2 * 1024 * 4] * 2


def test_a_line_cut_off_by_a_kill_is_left_out(make_run):
    folder = make_run(rounds=2)
    lines = folder / "seed-0" / "rounds.jsonl"
    lines.write_text(lines.read_text() + '{"round": 3, "par')
    assert read(folder).done == 2


def test_a_damaged_line_is_named(make_run):
    folder = make_run(rounds=2)
    lines = folder / "seed-0" / "rounds.jsonl"
    lines.write_text(lines.read_text().replace('{"round": 1', '{"round 1', 1))
    with pytest.raises(RunError, match="line 2 of .*rounds.jsonl.* is damaged"):
        read(folder)


def test_what_is_no_run_says_so(tmp_path, make_run):
    with pytest.raises(RunError, match="no folder"):
        gather([tmp_path / "nowhere"])
    with pytest.raises(RunError, match="neither a run"):
        gather([tmp_path])
    with pytest.raises(RunError, match="nothing to report"):
        gather([])
    folder = make_run()
    (folder / "seed-0" / "rounds.jsonl").unlink()
    with pytest.raises(RunError, match="perfed resume"):
        read(folder)
    (folder / "settings.yaml").write_text("method: [")
    with pytest.raises(RunError, match="the settings of '.*run' are damaged"):
        read(folder)


def test_a_comparison_is_read_in_the_order_of_tables(tmp_path, make_run):
    for method in ("gpfl", "ownmethod", "fedavg", "local"):
        make_run(f"compare/{method}", method)
    runs = gather([tmp_path / "compare", tmp_path / "compare" / "gpfl"])
    assert [run.method for run in runs] == ["local", "fedavg", "gpfl", "ownmethod"]
    assert labels(runs) == ["Local", "FedAvg", "GPFL", "ownmethod"]


def test_runs_of_one_method_are_told_apart_by_their_settings(make_run):
    runs = [
        read(make_run("a", "fedcp", options={"align": 5})),
        read(make_run("b", "fedcp", options={"align": 0})),
        read(make_run("c", "fedavg")),
    ]
    assert labels(runs) == ["FedCP (align=5)", "FedCP (align=0)", "FedAvg"]
    assert differing(runs) == ["method", "method.align"]
    assert labels([read(make_run("d", "fedcp")), *runs[:2]]) == ["FedCP", "FedCP (align=5)", "FedCP (align=0)"]


def test_runs_that_differ_in_nothing_are_told_apart_by_their_folders(make_run):
    runs = [read(make_run("a")), read(make_run("b"))]
    assert labels(runs) == ["FedAvg (a)", "FedAvg (b)"]


def test_settings_become_dotted_names():
    assert flat({"method": {"name": "fedcp", "budget": {"lr": 1}}, "clients": 4}) == {
        "method": "fedcp",
        "method.budget.lr": 1,
        "clients": 4,
    }


def test_accuracies_of_every_client_at_a_moment(make_run):
    run = read(make_run(clients=2, rounds=2, correct={0: [[0, 0], [90, 60], [50, 70]]}))
    assert np.allclose(run.accuracies("best")[0], [0.9, 0.6])
    assert np.allclose(run.accuracies("last")[0], [0.5, 0.7])
