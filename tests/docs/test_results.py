"""The front page of the results leads to every study, and quotes no agreement that the study's page does not have."""

import re
from pathlib import Path

import pytest

from perfed.papers import load, show

RESULTS = Path(__file__).parents[2] / "docs" / "results"
RECORDS = Path(__file__).parents[2] / "benchmarks" / "results"
FRONT = (RESULTS / "index.md").read_text(encoding="utf-8")


def kept_digits(kept: str, recipe: str) -> list[tuple[str, str]]:
    """The rows and values that kept records show for a recipe."""
    folder = RECORDS / kept / recipe.replace("/", "-")
    shown = show.answers(load(recipe), folder)
    return [(one.row.label, f"{one.ours.mean:.2f}") for one in shown if one.ours.mean is not None]


def test_every_study_is_on_the_front_page() -> None:
    linked = set(re.findall(r"\]\(([\w-]+\.md)", FRONT))
    assert linked == {path.name for path in RESULTS.glob("*.md")} - {"index.md"}


def test_every_agreement_stands_on_its_page() -> None:
    rows = re.findall(r"^\| \w+ \| \[[^\]]*\]\(([\w-]+\.md)[^)]*\) \|.*\| ([^|]*) \|$", FRONT, re.M)
    assert len(rows) == 22
    for page, said in rows:
        text = (RESULTS / page).read_text(encoding="utf-8")
        quoted = re.findall(r"[-−]?\b\d\.\d\d\b", said)
        assert all(number in text for number in quoted), (page, said)


@pytest.mark.parametrize(
    ("kept", "recipe", "page", "heading", "cells"),
    [
        ("papers", "gpfl/table2", "paper-gpfl", "gpfl/table2, HAR", 4),
        ("har-shuffled", "gpfl/table2", "paper-gpfl", "gpfl/table2, HAR cut at random", 11),
        ("mixed", "gpfl/table2", "paper-gpfl", "gpfl/table2, HAR mixed", 3),
        ("papers", "gpfl/figure3", "paper-gpfl", "gpfl/figure3, Amazon Review", 11),
        ("papers", "gpfl/table3", "paper-gpfl", "gpfl/table3, Amazon Review and HAR", 26),
        ("ordered", "gpfl/table2", "paper-gpfl", "gpfl/table2, HAR mixed, in the order of time", 2),
        ("papers", "fedpick/table2", "paper-fedpick", "fedpick/table2", 24),
        ("papers", "fedpick/table4", "paper-fedpick", "fedpick/table4", 27),
        ("papers", "fedcac/table2", "paper-fedcac", "fedcac/table2", 5),
        ("papers", "pfllib/fmnist", "paper-fedcp", "pfllib/fmnist", 9),
    ],
)
def test_kept_records_show_the_digits_of_the_page(kept: str, recipe: str, page: str, heading: str, cells: int) -> None:
    text = (RESULTS / f"{page}.md").read_text(encoding="utf-8").split(f"## {heading}\n")[1].split("\n## ")[0]
    found: dict[str, list[str]] = {}
    for row, digits in kept_digits(kept, recipe):
        found.setdefault(row, []).append(digits)
    rows = re.findall(r"^\| ([\w/ -]+) \|(.*)$", text, re.M)
    printed = [(row, own) for row, rest in rows if (own := re.findall(r"(\d{1,2}\.\d\d)(?:\*\*)? \(", rest))]
    assert sum(map(len, found.values())) == cells
    assert len(printed) == len(found) and dict(printed) == found


@pytest.mark.parametrize(
    ("kept", "recipe", "page"),
    [
        ("gpfl-decay", "gpfl/table2", "paper-gpfl"),
        ("gpfl-decay", "pfllib/fmnist", "paper-fedcp"),
        ("gpfl-magnitude", "gpfl/table2", "paper-gpfl"),
        ("gpfl-norms", "gpfl/table2", "paper-gpfl"),
        ("gpfl-norms-ordered", "gpfl/table2", "paper-gpfl"),
        ("har-longer", "gpfl/table2", "paper-gpfl"),
        ("har-shuffled", "gpfl/table3", "paper-gpfl"),
        ("timeline-shuffled", "gpfl/table2", "paper-gpfl"),
        ("gpfl-norms", "gpfl/figure3", "paper-gpfl"),
        ("gpfl-norms", "pfllib/fmnist", "paper-fedcp"),
        ("gpfl-start", "gpfl/table2", "paper-gpfl"),
        ("fedpick-moving", "fedpick/table2", "paper-fedpick"),
        ("fedpick-moving", "fedpick/table4", "paper-fedpick"),
    ],
)
def test_records_of_a_variant_show_digits_that_the_page_quotes(kept: str, recipe: str, page: str) -> None:
    text, found = (RESULTS / f"{page}.md").read_text(encoding="utf-8"), kept_digits(kept, recipe)
    assert found and kept in text
    assert all(digits in text for _, digits in found), found


def test_no_kept_record_says_where_on_a_machine_it_was_made() -> None:
    notes = [*RECORDS.glob("*/cells/*/*.yaml"), *RECORDS.glob("*/cells/*/**/*.json"), *RECORDS.glob("*/*/cells.json")]
    assert len(notes) > 100
    assert not [path for path in notes if re.search(r"""(^|[\s"'=])/\w""", path.read_text(encoding="utf-8"), re.M)]


def test_every_table_names_the_code_that_made_it() -> None:
    for path in sorted(RESULTS.glob("*.md")):
        page = path.read_text(encoding="utf-8")
        parts = re.split(r"^(?=## )", page, flags=re.M) if path.name.startswith("paper-") else [page]
        for part in parts:
            if "---:|" in part or "---: |" in part:
                assert path.name == "index.md" or re.search(r"commits? [0-9a-f]{7}", part, re.I), (path.name, part.split("\n")[0])


def test_the_page_of_hearts_names_every_cell_beyond_two_published_deviations() -> None:
    page = (RESULTS.parent / "heart.md").read_text(encoding="utf-8")
    recipe = load("flamby/heart")
    far, cells = [], 0
    for row in re.findall(r"^\| (.*\(\..*) \|$", page, re.M):
        label, *ours = (cell.strip() for cell in row.split("|"))
        printed = [c for c in recipe.cells() if c.row.label.casefold() == label.casefold()]
        for cell, own in zip(printed, ours, strict=True):
            assert cell.published is not None and cell.published.mean is not None and cell.published.std is not None
            assert own.endswith(f"({cell.published.mean / 100:.3f})".replace("0.", ".")), (label, own)
            far += [(label, cell.column.label)] * (
                abs(100 * float(own.split()[0]) - cell.published.mean) > 2 * cell.published.std
            )
            cells += 1
    assert cells == 40 and far == [("Pooled training", "hungarian"), ("Pooled training", "va")]
    assert "38 of 40 cells are within two" in page and "cells of pooled training, hungarian and va" in page
