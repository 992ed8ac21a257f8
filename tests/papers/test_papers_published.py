"""The published numbers agree with a second copy of the tables, with the papers' own arithmetic and with each other.

The files in ``figures`` were extracted from the papers' texts by pattern (the leaderboard's was read off its page), the
recipes were typed by hand; neither was made from the other. An empty field is a dash in the paper.
"""

import csv
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from perfed import papers

FIGURES = Path(__file__).parent / "figures"
PRINTED = [name for name in papers.listing() if papers.load(name).numbers == "printed"]


def value(recipe: str, row: str, column: str) -> float:
    """Return a published mean, by its ids."""
    found = [c.published for c in papers.load(recipe).cells() if (c.row.id, c.column.id) == (row, column)]
    assert len(found) == 1 and found[0] is not None and found[0].mean is not None
    return found[0].mean


def written(published: Any, digits: int) -> str:
    """Write a published value as the copies do."""
    if published is None:
        return ""
    if published.mean is None:
        return str(published.note)
    return f"{published.mean:.{digits}f}" + ("" if published.std is None else f"±{published.std:.2f}")


def test_every_table_with_numbers_has_a_copy_and_every_copy_a_table() -> None:
    copies = sorted(path.stem for path in FIGURES.glob("*.csv"))
    assert len(copies) == 31
    assert copies == sorted(name.replace("/", "-") for name in PRINTED)


@pytest.mark.parametrize("name", PRINTED)
def test_a_recipe_has_the_numbers_of_the_paper(name: str) -> None:
    recipe = papers.load(name)
    with (FIGURES / f"{name.replace('/', '-')}.csv").open(encoding="utf-8", newline="") as file:
        header, *lines = csv.reader(file)
    assert header[1:] == [column.label for column in recipe.columns]
    assert [line[0] for line in lines] == [row.label for row in recipe.rows]
    copied = [field for line in lines for field in line[1:]]
    doubtful = {(gap.row, gap.column): gap.reason for gap in recipe.unreadable}
    for cell, copy in zip(recipe.cells(), copied, strict=True):
        place = (cell.row.id, cell.column.id)
        if place in doubtful:
            assert copy.replace("±", " ± ") in doubtful[place]
        else:
            assert written(cell.published, recipe.reading(cell.row, cell.column).digits) == copy, place


def test_four_numbers_cannot_be_trusted() -> None:
    doubtful = [(name, gap.row, gap.column) for name in papers.listing() for gap in papers.load(name).unreadable]
    assert doubtful == [
        ("dualfed/table1", "fedbn", "photo"),
        ("dualfed/table2", "dualfed", "painting"),
        ("dualfed/table2", "dualfed", "quickdraw"),
        ("dualfed/table2", "dualfed", "real"),
    ]


@pytest.mark.parametrize("name", ["dualfed/table1", "dualfed/table2", "dualfed/table3"])
def test_a_printed_average_is_the_mean_of_its_row(name: str) -> None:
    for values in papers.load(name).published.values():
        means = [each.mean for each in values if each is not None and each.mean is not None]
        if len(means) == len(values):
            assert sum(means[:-1]) / len(means[:-1]) == pytest.approx(means[-1], abs=0.0101)


def test_time_per_round_is_total_time_over_rounds() -> None:
    for values in papers.load("fedcp/table3").published.values():
        total, rounds, each = (one.mean for one in values if one is not None and one.mean is not None)
        assert (total - 0.5) / rounds - 0.011 < each < (total + 0.5) / rounds + 0.011


ENCODER, PROJECTOR, NORM = 11_176_512, 264_448, 9_600 + 1_536  # trainable parameters; BatchNorm's share of both
CLASSES = {"pacs": 7, "domainnet": 10, "office-home": 65}


@pytest.mark.parametrize("row", [row.id for row in papers.load("dualfed/table8").rows])
@pytest.mark.parametrize("column", sorted(CLASSES))
def test_communication_is_a_whole_number_of_rounds(row: str, column: str) -> None:
    sent = ENCODER + PROJECTOR
    if row not in ("fedper", "fedrep", "spherefed", "fedetf"):
        sent += 513 * CLASSES[column]
    if row == "fedbn":
        sent -= NORM
    rounds = value("dualfed/table8", row, column) / (8 * sent / 2**20)
    assert rounds == pytest.approx(round(rounds), abs=0.002)


@pytest.mark.parametrize("row", [row.id for row in papers.load("gpfl/table3").rows])
@pytest.mark.parametrize(
    ("data", "table", "column"), [("tiny", 1, "tiny-pathological"), ("cifar100", 2, "n-100"), ("har", 2, "har")]
)
def test_the_coefficient_of_variation_is_the_deviation_over_the_accuracy(row: str, data: str, table: int, column: str) -> None:
    accuracy = value(f"gpfl/table{table}", row, column)
    ratio = 100 * value("gpfl/table3", row, f"{data}-std") / accuracy
    assert value("gpfl/table3", row, f"{data}-cv") == pytest.approx(ratio, abs=0.5 / accuracy + 0.01)


DOMAINNET = {"clipart": 526, "infograph": 657, "painting": 619, "quickdraw": 1000, "real": 1217, "sketch": 554}
TESTED = {  # test images per domain
    "dualfed/table1": {"art_painting": 409, "cartoon": 468, "photo": 334, "sketch": 785},
    "dualfed/table2": DOMAINNET,
    "dualfed/table3": {"art": 485, "clipart": 873, "product": 887, "real_world": 871},
    "fedpick/table2": {"amazon": 192, "caltech": 225, "dslr": 32, "webcam": 59} | DOMAINNET,
}
TESTED["fedpick/table4"] = TESTED["fedpick/table2"]


@pytest.mark.parametrize("name", sorted(TESTED))
def test_an_accuracy_is_a_count_of_test_images_over_five_runs(name: str) -> None:
    recipe, checked = papers.load(name), 0
    for cell in recipe.cells():
        client = recipe.reading(cell.row, cell.column).client
        if client in TESTED[name] and cell.published is not None and cell.published.mean is not None:
            images, checked = 5 * TESTED[name][client], checked + 1
            nearest = 100 * round(cell.published.mean / 100 * images) / images
            assert cell.published.mean == pytest.approx(nearest, abs=0.00501), (cell.row.id, cell.column.id)
    assert checked > 40


DIFFERENCES = [  # that the papers' texts state
    ("fedcp/table2", ("fedcp", "cifar100-dirichlet"), ("ditto", "cifar100-dirichlet"), 6.69),
    ("fedcp/table1", ("tiny-resnet", "fedcp"), ("tiny-resnet", "fedcp-no-gfm"), 1.31),
    ("fedcp/table1", ("tiny-resnet", "fedcp"), ("tiny-resnet", "fedcp-no-cpn"), 3.01),
    ("fedcp/table1", ("tiny-resnet", "fedcp"), ("tiny-resnet", "fedcp-no-cpn-gh"), 8.74),
    ("fedcp/table6", ("fedrod", "epochs-5"), ("fedrod", "epochs-40"), 2.16),
    ("fedcp/table7", ("pfedme", "ratio-1"), ("pfedme", "ratio-0.1-1"), 6.65),
    ("fedcp/table10", ("tiny", "fedcp-bn"), ("tiny", "fedcp"), 0.64),
    ("fedcp/table10", ("tiny-resnet", "fedcp"), ("tiny-resnet", "fedcp-bn"), 0.48),
    ("gpfl/table1", ("gpfl", "cifar100-dirichlet"), ("ditto", "cifar100-dirichlet"), 8.99),
    ("gpfl/table1", ("gpfl", "cifar100-dirichlet"), ("fedper", "cifar100-dirichlet"), 12.23),
    ("gpfl/table1", ("gpfl", "cifar100-dirichlet"), ("fedrep", "cifar100-dirichlet"), 9.47),
    ("gpfl/table1", ("gpfl", "cifar100-dirichlet"), ("fedrod", "cifar100-dirichlet"), 10.92),
    ("gpfl/table1", ("gpfl", "tiny-dirichlet"), ("fedrep", "tiny-dirichlet"), 6.10),
    ("gpfl/table1", ("gpfl", "tiny-resnet-dirichlet"), ("fedproto", "tiny-resnet-dirichlet"), 17.32),
    ("gpfl/table1", ("gpfl", "agnews-dirichlet"), ("fedproto", "agnews-dirichlet"), 1.63),
    ("gpfl/table1", ("gpfl", "agnews-dirichlet"), ("fedrep", "agnews-dirichlet"), 5.72),
    ("gpfl/table2", ("fedprox", "har"), ("fedavg", "har"), 1.14),
    ("gpfl/table2", ("fedavg", "har"), ("perfedavg", "har"), 10.08),
    ("gpfl/table2", ("fedavg", "har"), ("fedper", "har"), 11.62),
    ("gpfl/table2", ("gpfl", "har"), ("pfedme", "har"), 2.19),
    ("gpfl/table4", ("pfedme", "ratio-1"), ("pfedme", "ratio-0.1-1"), 6.65),
    ("gpfl/table4", ("fedphp", "ratio-1"), ("fedphp", "ratio-0.1-1"), 5.80),
    ("gpfl/table6", ("tiny-resnet", "gpfl"), ("tiny-resnet", "gpfl-no-cov"), 3.47),
    ("gpfl/table6", ("tiny-resnet", "gpfl"), ("tiny-resnet", "gpfl-no-gce"), 4.22),
]


@pytest.mark.parametrize(("name", "high", "low", "difference"), DIFFERENCES)
def test_differences_are_those_of_the_text(name: str, high: tuple[str, str], low: tuple[str, str], difference: float) -> None:
    assert value(name, *high) - value(name, *low) == pytest.approx(difference, abs=1e-9)


Places = dict[tuple[str, str, str], papers.Published]


def experiments(sources: tuple[str, ...], ignore: tuple[str, ...] = ()) -> list[Places]:
    """Return where every experiment of some papers is printed, and with which value."""
    found: dict[Any, Places] = defaultdict(dict)
    for name in (name for name in PRINTED if name.split("/")[0] in sources):
        recipe = papers.load(name)
        for cell in recipe.cells():
            kept = sorted((key, str(option)) for key, option in cell.settings.items() if key not in ignore)
            if cell.published is not None:
                place = (name, cell.row.id, cell.column.id)
                found[recipe.reading(cell.row, cell.column), tuple(kept)][place] = cell.published
    return list(found.values())


def differ(one: papers.Published, other: papers.Published) -> bool:
    """Say whether two values differ; a table without deviations says nothing about them."""
    return one.mean != other.mean or (None not in (one.std, other.std) and one.std != other.std)


CONTRADICTIONS = {  # where a paper prints another value for an experiment than it did before
    ("dualfed/table7", "dualfed", "domainnet"),
    ("dualfed/table7", "dualfed", "office-home"),
    ("fedcp/table7", "ditto", "ratio-1"),
    ("fedcp/table7", "fedcp", "ratio-1"),
    ("fedcp/table7", "fedphp", "ratio-1"),
    ("gpfl/table4", "ditto", "ratio-1"),
    ("gpfl/table4", "fedphp", "ratio-1"),
}


@pytest.mark.parametrize("paper", papers.PAPERS)
def test_an_experiment_has_the_same_value_wherever_it_is_printed(paper: str) -> None:
    found = experiments((paper,))
    assert any(len(places) > 1 for places in found)
    differing = {place for places in found for place, each in places.items() if differ(each, next(iter(places.values())))}
    assert differing == {place for place in CONTRADICTIONS if place[0].startswith(f"{paper}/")}


def test_fedpick_without_its_selector_is_fedbn() -> None:
    without, fedbn = papers.load("fedpick/table4"), papers.load("fedpick/table2")
    assert without.published["fedpick-no-pfsm"] == fedbn.published["fedbn"]


def test_fedcp_and_gpfl_print_the_same_values_of_their_baselines() -> None:
    shared = 0
    for places in experiments(("fedcp", "gpfl"), ignore=("seeds",)):
        trusted = {place: each for place, each in places.items() if place not in CONTRADICTIONS}
        if {place[0].split("/")[0] for place in trusted} == {"fedcp", "gpfl"}:
            shared += 1
            assert not any(differ(each, next(iter(trusted.values()))) for each in trusted.values()), trusted
    assert shared > 90
