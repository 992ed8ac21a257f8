"""How far our rows are the paper's, computed by hand, in words and in a picture."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perfed import papers
from perfed.papers.agree import agreement, sentence
from perfed.papers.beside import beside
from perfed.papers.recipe import Reading
from perfed.papers.show import Shown, write
from perfed.papers.values import Value


def answers(rows: list[tuple[float, list[float]]]) -> list[Shown]:
    """Return cells of one column with a published value and ours, seed by seed."""
    recipe = papers.load("fedcp/table2")
    found = []
    for row, (theirs, ours) in zip(recipe.rows, rows, strict=False):
        mean = sum(ours) / len(ours)
        std = (sum((v - mean) ** 2 for v in ours) / len(ours)) ** 0.5
        value = Value(mean, std, len(ours), each=dict(enumerate(ours)))
        published = papers.Published(mean=theirs, std=0.5)
        found.append(Shown(row, recipe.columns[0], Reading(), published, value, None, (), comparable=True))
    return found


def test_the_order_of_rows_is_compared_by_rank() -> None:
    """Ours a < b < c, printed a < c < b: Spearman's ρ = 1 − 6 · 2 / (3 · 8) = 0.5; the mean difference is +1."""
    (entry,) = agreement(answers([(10.0, [11.0]), (30.0, [21.0]), (21.0, [32.0])]))
    assert entry["spearman"] == pytest.approx(0.5)
    assert entry["difference"] == pytest.approx(1.0)
    low, high = entry["interval"]
    assert -1 <= low <= 0.5 <= high <= 1


def test_with_one_seed_only_signs_are_counted() -> None:
    (entry,) = agreement(answers([(10.0, [11.0]), (30.0, [21.0]), (21.0, [32.0])]))
    assert (entry["pairs"], entry["same"], entry["deviation"]) == (3, 2, None)
    assert "2 of 3 differences have the paper's sign (with one seed, chance is not known)" in sentence(entry)


def test_published_differences_hold_are_reversed_or_stay_open() -> None:
    """Differences over the two seeds are (−20, −22), (−30, −30), (−10, −8): variances 2, 0, 2, so noise √(4/3) = 1.15."""
    rows = [(10.0, [10.0, 10.0]), (20.0, [30.0, 32.0]), (30.0, [40.0, 40.0])]
    (entry,) = agreement(answers(rows))
    assert entry["deviation"] == pytest.approx((4 / 3) ** 0.5)
    assert (entry["told"], entry["holds"], entry["reversed"], entry["open"]) == (3, 3, 0, 0)
    (entry,) = agreement(answers([*rows[:2], (20.5, [10.0, 10.0]), (40.0, [10.5, 10.5])]))
    # told: all but b–c, 0.5 apart; c–a, d–a and d–c are within noise here; d is above b by 20 there, below it by 20.5 here
    assert (entry["told"], entry["holds"], entry["reversed"], entry["open"]) == (5, 1, 1, 3)
    assert entry["against"][0]["above"] == "pFedMe" and entry["against"][0]["below"] == "FedProx"
    assert "most clearly reversed: FedProx above pFedMe by 20.50 (paper: below by 20.00)" in sentence(entry)


def test_the_interval_is_narrow_where_the_order_is_clear_and_repeats() -> None:
    clear = answers([(10.0 * n, [10.0 * n + 0.1, 10.0 * n - 0.1]) for n in range(1, 11)])
    muddled = answers([(10.0 * n, [50.0 + 7 * n % 10, 50.0 - 3 * n % 7]) for n in range(1, 11)])
    (first,), (second,) = agreement(clear), agreement(muddled)
    assert first["interval"] == pytest.approx([1.0, 1.0])
    assert second["interval"][1] - second["interval"][0] > 0.5
    assert agreement(muddled) == [second]


def test_a_run_under_way_has_no_place_in_the_order_yet() -> None:
    found = answers([(10.0, [11.0]), (20.0, [21.0]), (30.0, [31.0]), (40.0, [5.0])])
    (whole,) = agreement(found)
    *rest, last = found
    (entry,) = agreement([*rest, replace(last, ours=last.ours._replace(rounds=3, planned=2000))])
    assert (whole["rows"], entry["rows"], entry["spearman"]) == (4, 3, pytest.approx(1.0))
    (entry,) = agreement([*rest, replace(last, ours=last.ours._replace(rounds=60, planned=2000, stopped=(60,)))])
    assert entry["rows"] == 4


def test_too_few_rows_or_equal_values_have_no_order() -> None:
    assert agreement(answers([(10.0, [11.0]), (30.0, [21.0])])) == []
    assert agreement(answers([(10.0, [11.0]), (30.0, [11.0]), (20.0, [11.0])])) == []


def test_the_figure_shows_published_and_measured_with_their_deviations(tmp_path: Path) -> None:
    found = answers([(10.0, [11.0, 13.0]), (30.0, [21.0]), (21.0, [32.0])])
    recipe = papers.load("fedcp/table2")
    axis: Any = beside(recipe, found).axes[0]
    assert [label.get_text() for label in axis.get_yticklabels()] == ["FedAvg", "FedProx", "Per-FedAvg"]
    markers = [(bar.lines[0].get_xdata()[0], len(bar.lines[2])) for bar in axis.containers]  # where, and whether it has bars
    assert markers == [(10.0, 1), (12.0, 1), (30.0, 1), (21.0, 0), (21.0, 1), (32.0, 0)]
    written = write(recipe, found, tmp_path)
    assert "<svg" in Path(written["beside.svg"]).read_text()
