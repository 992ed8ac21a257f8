"""Who is helped and who is hurt, with figures worked out by hand."""

import json

import numpy as np
import pytest

from perfed.report.helped import converged, verdict
from perfed.report.read import gather, options
from perfed.report.tables import comparison, latex, markdown, short


def cell(table, name, key):
    row = next(row for row in table.rows if row.name == name)
    return row.cells[[column.key for column in table.columns].index(key)]


def benched(make_run, tmp_path, **methods):
    """Runs of one round, with right answers of 100 by client, under protocol=pflbench."""
    for method, right in methods.items():
        folder = make_run(f"all/{method}", method, clients=len(right), rounds=1, correct={0: [[0] * len(right), right]})
        text = (folder / "settings.yaml").read_text()
        (folder / "settings.yaml").write_text(text + "protocol: pflbench\n")
    return gather([tmp_path / "all"])


def test_a_difference_counts_beyond_the_margin_that_the_samples_allow():
    # 100 samples: 50 against 50 + d; p = 51/102; at d = 13 the gap 13/102 = 0.1275 is below 1.96·√((0.25 + 0.2337)/102) = 0.1350,
    # at d = 14 the gap 0.1373 is above 1.96·√((0.25 + 0.2312)/102) = 0.1346
    ours, theirs, count = np.array([0.5, 0.5, 0.64, 0.5]), np.array([0.63, 0.64, 0.5, 0.5]), np.full(4, 100.0)
    assert verdict(ours, theirs, count).tolist() == [0, -1, 1, 0]
    # with ten times the samples four points are still chance, five are not: the margin is 0.0437
    assert verdict(np.array([0.5, 0.5]), np.array([0.54, 0.55]), np.full(2, 1000.0)).tolist() == [0, -1]
    # nothing right against everything right is beyond chance from three samples on
    assert [verdict(np.zeros(1), np.ones(1), np.array([n])).item() for n in (1.0, 2.0, 3.0, 4.0)] == [0, 0, -1, -1]


def test_the_columns_by_hand(make_run, tmp_path):
    runs = benched(make_run, tmp_path, local=[50, 50, 90, 70], fedavg=[60, 60, 60, 45], fedcp=[90, 55, 50, 71])
    table = comparison(runs, **options(runs))
    assert cell(table, "FedCP", "clients.worst").text == "50.00"
    assert cell(table, "FedCP", "clients.decile").text == "50.00"
    assert cell(table, "FedCP", "clients.helped_local").text == "25.0"  # 90 against 50
    assert cell(table, "FedCP", "clients.hurt_local").text == "25.0"  # 50 against 90; 55 and 71 are within chance
    assert cell(table, "FedCP", "clients.helped_fedavg").text == "50.0"  # 90 against 60, 71 against 45
    assert cell(table, "FedCP", "clients.hurt_fedavg").text == "0.0"
    assert cell(table, "Local", "clients.hurt_local").text == "–"  # nobody is hurt by oneself
    assert cell(table, "FedCP", "clients.worst").mark == "best" and cell(table, "FedCP", "clients.hurt_local").mark == "best"
    assert any("95 % interval" in note for note in table.notes)
    head, rows = short(table)  # what a terminal shows
    assert [name for name in head if name.startswith(("worst", "hurt"))] == [
        "worst",
        "worst tenth",
        "hurt, Local",
        "hurt, FedAvg",
    ]
    assert rows[-1][head.index("worst")] == "50.00"
    assert any("unseen=0.2 shows how newcomers do" in note for note in table.notes)


def test_what_is_not_there_is_said(make_run, tmp_path):
    runs = benched(make_run, tmp_path, local=[50, 50], fedcp=[90, 55])
    assert any("FedAvg was not run; add it" in note for note in comparison(runs, **options(runs)).notes)
    for run in runs:  # numbers instead of classes
        for line in run.rounds[0]:
            for part in ("test", "validation"):
                line[part]["r2"] = line[part].pop("accuracy")
    table = comparison(runs, **options(runs))
    assert not any("hurt" in column.key for column in table.columns)
    assert any("Helped and hurt are not counted" in note for note in table.notes)


def test_without_the_protocol_the_table_is_as_it_was(make_run, tmp_path):
    make_run("all/local", "local")
    table = comparison(gather([tmp_path / "all"]))
    assert {column.group for column in table.columns} == {"best", "last", "validation", "cost"}


def test_convergence_is_the_first_round_within_a_point_of_the_best():
    lines = [{"round": n, "test": {"count": [1000], "accuracy": [a]}} for n, a in enumerate([0.95, 0.5, 0.789, 0.795, 0.8])]
    assert converged(lines) == 3 and converged(lines[:1]) is None  # the model before training has not converged


def measured(make_run, tmp_path, auc):
    for method in ("local", "fedcp"):
        folder = make_run(f"all/{method}", method, clients=2, rounds=2)
        place = folder / "seed-0" / "rounds.jsonl"
        lines = [json.loads(line) for line in place.read_text().splitlines()]
        for line in lines:
            for part in ("test", "validation"):
                line[part] |= {"auc": auc, "brier": [0.5, 0.25], "confusion": [[[1]], [[2]]]}
        place.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return gather([tmp_path / "all"])


def test_metrics_have_columns_and_lists_have_none(make_run, tmp_path):
    table = comparison(measured(make_run, tmp_path, [None, 0.75]), choose="auc")
    assert cell(table, "FedCP", "auc.best").text == cell(table, "FedCP", "auc.last").text == "75.00"
    assert cell(table, "FedCP", "brier.validation").text == "0.3750"
    assert not [column for column in table.columns if column.group == "confusion"]
    assert cell(table, "Majority class", "auc.best").text == "–"
    assert "AUC is undefined for up to 1 client, who leave its means." in table.notes
    assert "Best and validated rounds are chosen by AUC." in table.notes


def test_where_no_client_has_a_value_tables_say_undefined(make_run, tmp_path):
    table = comparison(measured(make_run, tmp_path, [None, None]))
    assert cell(table, "FedCP", "auc.last").text == "undefined" and cell(table, "FedCP", "auc.last").value is None
    assert "undefined" in markdown(table) and "undefined" in latex(table)


@pytest.mark.parametrize("key", ["auc.best", "auc.validation"])
def test_a_metric_of_which_less_is_better_is_ranked_so(make_run, tmp_path, key):
    runs = measured(make_run, tmp_path, [0.5, 0.75])
    for run, better in zip(runs, (0.0, 0.25), strict=True):
        for line in run.rounds[0]:
            line["test"] |= {"brier": [better, better], "auc": [better, better]}
    table = comparison(runs)
    first, second = runs[0].method, runs[1].method
    names = {row.method: row.name for row in table.rows}
    assert cell(table, names[first], "brier.last").mark == "best" and cell(table, names[second], key).mark == "best"
