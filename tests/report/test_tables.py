"""Tables whose every figure is known."""

import csv as csvs
import io

import pytest

from perfed.errors import InputError, RunError
from perfed.methods import CATALOGUE
from perfed.report.names import MAJORITY
from perfed.report.read import gather
from perfed.report.significance import holm, paired, probabilities
from perfed.report.style import DOTS, LOOKS, looks
from perfed.report.tables import comparison, csv, latex, markdown, plain, records, short


@pytest.fixture
def runs(tmp_path, make_run):
    local = {0: [[0, 0], [80, 60], [70, 60]], 1: [[0, 0], [90, 70], [70, 70]]}
    better = {0: [[0, 0], [90, 80], [90, 70]], 1: [[0, 0], [90, 80], [80, 80]]}
    make_run("all/local", "local", seeds=(0, 1), clients=2, rounds=2, correct=local)
    make_run("all/fedcp", "fedcp", seeds=(0, 1), clients=2, rounds=2, correct=better)
    return gather([tmp_path / "all"])


def cell(table, name, key):
    row = next(row for row in table.rows if row.name == name)
    return row.cells[[column.key for column in table.columns].index(key)]


def test_the_cells_by_hand(runs):
    table = comparison(runs)
    assert [row.name for row in table.rows] == ["Majority class", "Local", "FedCP"]
    # Local: best 70 and 80 of 100 over two seeds, last 65 and 70
    assert cell(table, "Local", "best.weighted").both == "75.00 ± 5.00"
    assert cell(table, "Local", "last.mean").both == "67.50 ± 2.50"
    # FedCP: best 85 in both seeds; clients at 90 and 80: deviation 5, cv 5/85
    assert cell(table, "FedCP", "best.weighted").both == "85.00 ± 0.00"
    assert cell(table, "FedCP", "best.std").text == "5.00"
    assert cell(table, "FedCP", "best.cv").text == "5.88"
    # 2 rounds, 2 clients, 1 KiB up and 2 KiB down each; three lines of half a second
    assert cell(table, "FedCP", "cost.bytes_up").both == "4.00"
    assert cell(table, "FedCP", "cost.bytes_down").both == "8.00"
    assert cell(table, "FedCP", "cost.seconds").both == "1.5 ± 0.0"


def test_best_and_second_are_marked_by_what_is_printed(runs, make_run, tmp_path):
    table = comparison(runs)
    assert cell(table, "FedCP", "best.weighted").mark == "best"
    assert cell(table, "FedCP", "best.std").mark == ""
    better = {0: [[0, 0], [90, 80], [90, 70]], 1: [[0, 0], [90, 80], [80, 80]]}
    make_run("all/fedcac", "fedcac", seeds=(0, 1), clients=2, rounds=2, correct=better)
    table = comparison(gather([tmp_path / "all"]))
    assert [cell(table, name, "best.weighted").mark for name in ("FedCP", "FedCAC")] == ["best", "best"]
    assert "second" in {row.cells[0].mark for row in table.rows}


def test_all_formats_agree_to_the_last_digit(runs):
    table = comparison(runs)
    text = [line.strip("|\n ").split(" | ") for line in markdown(table).splitlines()]
    head, *rows = csvs.reader(io.StringIO(csv(table)))
    tex = [line.removesuffix(" \\\\").split(" & ") for line in latex(table).splitlines() if " & " in line][2:]
    for number, row in enumerate(table.rows):
        record = dict(zip(head, rows[number], strict=True))
        for place, (column, found) in enumerate(zip(table.columns, row.cells, strict=True), start=1):
            clean = text[number + 2][place].replace("**", "").replace("<ins>", "").replace("</ins>", "")
            assert clean == found.both == plain(table)[number + 1][place]
            assert record[column.heading] == ("" if found.text == "–" else found.text)
            assert record.get(f"{column.heading} ± over seeds", "") == found.plus
            bare = tex[number][place].replace("\\textbf{", "").replace("\\underline{", "").replace("}", "")
            assert bare.replace("$\\pm$", "±").replace("--", "–") == found.both


def test_latex_sets_the_best_bold_and_the_second_underlined(runs):
    text = latex(comparison(runs).pick("best"))
    assert "FedCP & \\textbf{85.00} $\\pm$ 0.00 & \\textbf{85.00} $\\pm$ 0.00 & 5.00 $\\pm$ 0.00" in text
    assert text.count("\\underline{") == 2
    assert "\\multicolumn{4}{c}{best round}" in text
    assert "weighted \\%" in text
    assert text.startswith("\\begin{tabular}{lrrrr}\n\\toprule")


def test_one_seed_has_no_deviation(make_run):
    table = comparison(gather([make_run()]))
    assert {found.plus for row in table.rows for found in row.cells} == {""}
    assert "±" not in markdown(table)


def test_without_validation_data_the_columns_are_left_out(make_run):
    table = comparison(gather([make_run(validation=False)]))
    assert {column.group for column in table.columns} == {"best", "last", "cost"}


def test_records_keep_fractions_and_bytes(runs):
    record = records(comparison(runs))[2]
    assert record["method"] == "fedcp"
    assert record["best.weighted"] == {"mean": 0.85, "std": 0.0}
    assert record["cost.bytes_up"]["mean"] == 4096


def test_a_terminal_gets_the_columns_that_fit(runs):
    heads, rows = short(comparison(runs))
    assert heads[1] == "best, weighted" and "up KiB" in heads
    assert rows[2][:2] == ["FedCP", "85.00 ± 0.00"]


def test_columns_are_picked_by_group_or_key(runs):
    table = comparison(runs).pick("last", "cost.seconds")
    assert [column.key for column in table.columns] == [
        "last.weighted",
        "last.mean",
        "last.std",
        "last.cv",
        "cost.seconds",
    ]
    with pytest.raises(InputError, match="no column nothing"):
        table.pick("nothing")


def test_a_reader_is_told_what_spoils_the_comparison(runs, make_run):
    assert comparison(runs).notes == ()
    lone = make_run("other", "fedavg", clients=3, rounds=4)
    text = (lone / "settings.yaml").read_text().replace("rounds: 4", "rounds: 9")
    (lone / "settings.yaml").write_text(text)
    notes = " ".join(comparison([*gather([lone]), *runs], best="per_client").notes)
    assert "do not share their seeds" in notes
    assert "do not share their clients' data" in notes
    assert "FedAvg is unfinished: 4 of 9 rounds." in notes
    assert "optimistic" in notes
    assert "Local was not run" in comparison(gather([lone])).notes[-1]


def test_a_reader_is_told_where_curves_still_rise(make_run, tmp_path):
    climbing = {0: [[number, number] for number in range(0, 84, 4)]}  # 20 rounds of 4 points
    make_run("both/local", "local", clients=2, rounds=20, correct={0: [[50, 50]] * 21}, validation=False)
    make_run("both/fedcp", "fedcp", clients=2, rounds=20, correct=climbing, validation=False)
    (said,) = comparison(gather([tmp_path / "both"])).notes
    assert "Curves still rise" in said and "to the last): FedCP +12.0. More rounds" in said  # parts of three tests


def test_a_run_without_majority_scores_is_explained(make_run):
    folder = make_run()
    described = folder / "seed-0" / "clients.json"
    described.write_text(described.read_text().replace("majority", "other"))
    with pytest.raises(RunError, match="clients.json without 'majority'"):
        comparison(gather([folder]))


def test_significance_needs_five_shared_seeds(make_run, tmp_path, runs):
    assert paired(runs) == []
    scores = {"local": (70, 72, 74, 76, 78), "fedcp": (80, 84, 84, 84, 88)}  # differences 10, 12, 10, 8, 10
    for method, found in scores.items():
        correct = {seed: [[0, 0], [score, score]] for seed, score in enumerate(found)}
        make_run(f"five/{method}", method, seeds=tuple(range(5)), clients=2, rounds=1, correct=correct)
    (pair,) = paired(gather([tmp_path / "five"]))
    assert (pair.leader, pair.other, pair.seeds) == ("FedCP", "Local", 5)
    assert pair.difference == pytest.approx(0.1)
    # t = 10 / sqrt(2 / 5) = 15.81 at 4 degrees of freedom; all five signs agree: 2 / 2^5
    assert pair.student == pytest.approx(9.33e-5, rel=1e-2)
    assert pair.wilcoxon == pytest.approx(0.0625, abs=0.02)
    assert pair.holm == pair.student


def test_equal_runs_are_not_significant_and_equal_gains_are():
    assert probabilities([0.0] * 5) == (1.0, 1.0)
    assert probabilities([0.5] * 5)[0] == 0.0


def test_holms_correction_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([]) == []


def test_every_method_has_a_look_of_its_own():
    assert set(LOOKS) == {MAJORITY, *CATALOGUE}
    assert len({(look.dash, look.marker) for look in LOOKS.values()}) == len(LOOKS)
    assert len({look.colour for look in LOOKS.values()}) == len(LOOKS)
    assert looks(["fedcp", "fedcp", "mine"])[0] == LOOKS["fedcp"]
    assert len(set(looks(["fedcp", "fedcp", "mine"]))) == 3
    assert looks(["majority"])[0].dash == DOTS
