"""Every table and figure of the five papers loads, names its experiments and refuses what cannot be right."""

import re
from importlib.resources import files
from typing import Any

import pytest
from pydantic import ValidationError

from perfed import papers
from perfed.errors import InputError
from perfed.papers.paper import Paper, flat, lay, nested
from perfed.papers.recipe import Recipe, parse

TABLES = {"dualfed": range(1, 9), "fedcac": range(1, 4), "fedcp": range(1, 11), "fedpick": (2, 4), "gpfl": range(1, 7)}
FIGURES = {
    "dualfed": range(3, 10),
    "fedcac": (1, 3, 4, 5, 6),
    "fedcp": (3, *range(5, 12)),
    "fedpick": (1, 2, *range(6, 14)),
    "gpfl": (2, 3),
}
METHODS = {
    *("apfl", "apple", "ditto", "dualfed", "fedala", "fedamp", "fedavg", "fedavgft", "fedbabu", "fedbn", "fedcac"),
    *("fedcp", "fedetf", "fedfomo", "fedper", "fedphp", "fedpick", "fedprox", "fedproto", "fedrep", "fedrod", "gpfl"),
    *("feddbe", "lgfedavg", "local", "moon", "perfedavg", "pfedme", "scaffold", "spherefed"),
}
MODELS = {"alexnet_bn", "amazon_mlp", "cnn", "digits_cnn", "fasttext", "harcnn", "logistic", "resnet10", "resnet18", "resnet8"}
DATA = {
    *("ag_news", "amazon", "cifar10", "cifar100", "digits_five", "domainnet", "fashion_mnist", "har", "heart_disease", "mnist"),
    *("office_caltech", "office_home", "pacs", "tiny_imagenet"),
}
PARTITIONS = {
    *("client_dirichlet", "client_pathological", "dirichlet", "domains", "iid", "natural", "pathological"),
    *("timeline", "together"),
}


def cell(recipe: str, row: str, column: str) -> dict[str, Any]:
    """Return the settings of one cell, by its ids."""
    found = [c for c in papers.load(recipe).cells() if (c.row.id, c.column.id) == (row, column)]
    assert len(found) == 1
    return found[0].settings


def test_every_table_and_figure_of_results_is_there() -> None:
    expected = [f"{paper}/table{n}" for paper in TABLES for n in TABLES[paper]]
    expected += [f"{paper}/figure{n}" for paper in FIGURES for n in FIGURES[paper]]
    assert len(expected) == 61
    assert sorted(papers.listing()) == sorted([*expected, "flamby/heart", "pfllib/fmnist"])


def test_the_leaderboards_experiments_are_those_of_the_papers_they_were_taken_from() -> None:
    """So a cell that was run for one of them answers the other; only seeds may differ."""
    shared = {"fedavg", "fedprox", "perfedavg", "pfedme", "ditto", "fedper", "fedrep", "fedrod", "fedproto", "gpfl"}
    for row in shared:
        assert cell("pfllib/fmnist", row, "practical") == cell("gpfl/table1", row, "fmnist-dirichlet")
    board, paper = papers.load("pfllib/fmnist").published, papers.load("gpfl/table1").published
    assert all(board[row][0] == paper[row][3] for row in shared)
    for row in ("fedcp", "fedamp", "fedfomo"):
        own = {key: value for key, value in cell("pfllib/fmnist", row, "practical").items() if key not in ("seeds", "data")}
        assert own == {k: v for k, v in cell("fedcp/table2", row, "mnist-dirichlet").items() if k not in ("seeds", "data")}


def test_names_are_sorted_by_number_with_tables_first() -> None:
    fedcp = [name for name in papers.listing() if name.startswith("fedcp/")]
    assert fedcp[8:12] == ["fedcp/table9", "fedcp/table10", "fedcp/figure3", "fedcp/figure5"]


@pytest.mark.parametrize("name", papers.listing())
def test_a_recipe_is_complete(name: str) -> None:
    recipe = papers.load(name)
    assert recipe.name == name
    assert recipe.title and recipe.shows.endswith(".")
    cells = list(recipe.cells())
    assert len(cells) == len(recipe.rows) * len(recipe.columns)
    for row, column, settings, published in cells:
        assert settings["method"] in METHODS
        assert settings["model"] in MODELS
        assert settings["data"] in DATA
        assert settings["partition"] in PARTITIONS
        assert settings["budget.lr"] > 0
        assert settings["series"] in ("test", "after")
        assert settings["report"] in ("weighted", "mean")
        assert settings["best"] in ("round", "per_client")
        assert settings["clients"] >= 1 and settings["rounds"] >= 1
        first = 42 if name == "flamby/heart" else 0  # the benchmark's own
        assert settings["seeds"] == list(range(first, first + len(settings["seeds"])))
        assert recipe.reading(row, column).digits >= 0
        if recipe.numbers == "drawn":
            assert published is None


@pytest.mark.parametrize("name", papers.listing())
def test_only_the_papers_own_file_names_a_methods_fields(name: str) -> None:
    folder, _, figure = name.partition("/")
    text = (files("perfed.papers") / folder / f"{figure}.yaml").read_text(encoding="utf-8")
    assert not re.search(r"\bmethod\.\w", text)


def test_every_problem_and_method_of_a_paper_is_used() -> None:
    for name in papers.PAPERS:
        paper, used = papers.about(name), set[str | None]()
        for figure in (figure for figure in papers.listing() if figure.startswith(f"{name}/")):
            recipe = papers.load(figure)
            used |= {recipe.method, recipe.problem}
            used |= {name for entry in (*recipe.rows, *recipe.columns) for name in (entry.method, entry.problem)}
        likes = {choice.like for choice in paper.methods.values()}
        assert {*paper.methods, *paper.problems} <= used | likes


@pytest.mark.parametrize(
    ("paper", "protocol"),
    [
        ("fedcp", (2000, 5, 10, 1, 0.0, "test", "weighted", "round")),
        ("gpfl", (2000, 3, 10, 1, 0.0, "test", "weighted", "round")),
        ("fedcac", (500, 5, 100, 5, 0.9, "after", "mean", "round")),
        ("dualfed", (300, 5, 256, 1, 0.5, "test", "mean", "per_client")),
        ("fedpick", (300, 5, 64, 1, 0.5, "test", "mean", "per_client")),
    ],
)
def test_a_paper_keeps_its_protocol(paper: str, protocol: tuple[Any, ...]) -> None:
    base = flat(papers.about(paper).base)
    budget = [base[f"budget.{key}"] for key in ("batch_size", "epochs", "momentum")]
    rule = [base[key] for key in ("series", "report", "best")]
    assert (base["rounds"], len(base["seeds"]), *budget, *rule) == protocol


def test_the_network_decides_fedcps_weight_and_learning_rate() -> None:
    small, large = (cell("fedcp/table2", "fedcp", column) for column in ("tiny-dirichlet", "tiny-resnet-dirichlet"))
    assert (small["model"], small["budget.lr"], small["method.align"]) == ("cnn", 0.005, 5.0)
    assert (large["model"], large["budget.lr"], large["method.align"]) == ("resnet18", 0.1, 1.0)


def test_a_tables_column_beats_the_methods_own_value() -> None:
    assert cell("fedcp/table8", "alpha-0.01", "lambda-50")["method.align"] == 50.0
    assert cell("fedcp/table8", "alpha-0.01", "lambda-50")["partition.alpha"] == 0.01


def test_a_variant_keeps_what_it_does_not_change() -> None:
    whole, part = (cell("fedcp/table1", "tiny-resnet", column) for column in ("fedcp", "fedcp-no-cs"))
    assert part == whole | {"method.context": "sample"}


def test_pathological_splits_have_the_papers_classes() -> None:
    names = ("mnist-pathological", "cifar10-pathological", "cifar100-pathological")
    assert [cell("fedcp/table2", "fedavg", name)["partition.classes_per_client"] for name in names] == [2, 2, 10]
    assert "partition.alpha" not in cell("fedcp/table2", "fedavg", "mnist-pathological")
    names = ("fmnist-pathological", "cifar100-pathological", "tiny-pathological")
    assert [cell("gpfl/table1", "fedavg", name)["partition.classes_per_client"] for name in names] == [2, 10, 20]


def test_fedcac_narrows_as_the_paper_prefers_and_serves_fedavg() -> None:
    columns = ("cifar10-0.1", "cifar100-0.1", "tiny-0.1")
    assert [cell("fedcac/table2", "fedcac", c)["method.narrowing"] for c in columns] == [100, 170, 170]
    assert cell("fedcac/table2", "fedavg", "tiny-0.1")["series"] == "test"
    assert cell("fedcac/table2", "fedcac", "tiny-0.1")["series"] == "after"


def test_gpfl_on_activities_has_the_released_weights() -> None:
    settings = cell("gpfl/table2", "gpfl", "har")
    assert (settings["budget.lr"], settings["method.magnitude"], settings["method.decay"]) == (0.01, 0.01, 1.0)
    assert (settings["partition"], settings["budget.order"], settings["clients"]) == ("timeline", "stored", 30)


def test_dualfed_alone_inserts_its_own_projector() -> None:
    assert cell("dualfed/table1", "fedavg", "photo")["model.projector"] == 256
    assert "model.projector" not in cell("dualfed/table1", "dualfed", "photo")
    assert list(papers.load("dualfed/table1").needs) == ["model.weights"]
    columns = ("pacs", "domainnet", "office-home")
    assert [cell("dualfed/table8", "spherefed", column)["budget.lr"] for column in columns] == [0.1, 0.1, 1.0]


def test_fedpicks_weights_are_those_of_its_table_three() -> None:
    fields = ("temperature", "personal_loss", "entropy", "distil")
    digits, office, domains = (
        [cell("fedpick/table2", "fedpick", column)[f"method.{field}"] for field in fields]
        for column in ("mnist", "office-dslr", "domainnet-real")
    )
    assert digits == [10.0, 10.0, 0.001, 10.0]
    assert office == domains == [1.0, 1.0, 0.001, 1.0]


def test_a_domains_column_reads_one_client_of_the_same_run() -> None:
    recipe = papers.load("dualfed/table1")
    photo, mean = recipe.columns[0], recipe.columns[-1]
    assert recipe.reading(recipe.rows[0], photo).client == "photo"
    assert recipe.reading(recipe.rows[0], mean).client is None
    assert recipe.settings(recipe.rows[0], photo) == recipe.settings(recipe.rows[0], mean)


def test_data_names_what_a_table_needs() -> None:
    assert papers.load("fedcp/table4").data == ("ag_news", "cifar100", "tiny_imagenet")


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(InputError, match="no table or figure 'fedcp/tabel2'; did you mean 'fedcp/table2'"):
        papers.load("fedcp/tabel2")
    with pytest.raises(InputError, match="no paper 'fedpik'; did you mean 'fedpick'"):
        papers.about("fedpik")


def test_another_name_takes_the_former_options_away() -> None:
    under = {"partition": "dirichlet", "partition.alpha": 0.1, "rounds": 3}
    assert lay(under, {"partition": "iid"}) == {"partition": "iid", "rounds": 3}
    assert lay(under, {"partition.alpha": 0.5}) == under | {"partition.alpha": 0.5}
    assert lay(under, {"partition": "dirichlet"}) == under


def test_flat_settings_become_a_settings_file_again() -> None:
    tree = {"method": {"name": "fedcp", "align": 5.0}, "budget": {"lr": 0.1}, "rounds": 3, "model": {"name": "cnn"}}
    assert nested(flat(tree)) == tree


def test_printed_values_are_read_with_their_deviation() -> None:
    assert parse("97.93 ± 0.05") == {"mean": 97.93, "std": 0.05}
    assert parse(365) == {"mean": 365.0, "std": None}
    assert parse("diverged") == {"mean": None, "note": "diverged"}
    with pytest.raises(ValueError, match="not a published value"):
        parse("97.93+0.05")


PAPER = Paper.model_validate(
    {
        "title": "A paper", "authors": "Nobody", "venue": "Nowhere", "year": 2023,
        "base": {"clients": 2, "rounds": 3, "seeds": [0]},
        "symbols": {"mu": "method.spring"},
        "problems": {"mnist": {"label": "MNIST", "set": {"data": "mnist", "model": "cnn", "partition": "iid"}}},
        "methods": {name: {"label": name, "method": name} for name in ("fedavg", "fedprox")},
    }
)  # fmt: skip


def small(**changes: Any) -> Recipe:
    """Return a table with two methods on one data set, with something changed."""
    rows = [{"id": name, "label": name, "method": name} for name in ("fedavg", "fedprox")]
    columns = [{"id": "mnist", "label": "MNIST", "problem": "mnist"}]
    whole = {
        "name": "a/table1", "paper": PAPER, "kind": "table", "title": "T", "shows": "S.", "numbers": "printed",
        "rows": rows, "columns": columns, "published": {"fedavg": [1.0], "fedprox": [2.0]},
    }  # fmt: skip
    return Recipe.model_validate(whole | changes)


def test_a_small_table_is_valid_and_translates_symbols() -> None:
    settings = next(small(base={"mu": 0.1}).cells()).settings
    assert settings["method.spring"] == 0.1
    assert settings["method"] == "fedavg"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"published": {"fedavg": [1.0]}}, "not the table's rows"),
        ({"published": {"fedavg": [1.0, 2.0], "fedprox": [2.0]}}, "2 published values for 1 columns"),
        ({"published": {"fedavg": [None], "fedprox": [2.0]}}, "'fedavg', 'mnist' needs a value"),
        ({"absent": [{"row": "fedavg", "column": "mnist", "reason": "?"}]}, "'fedavg', 'mnist' needs a value"),
        ({"numbers": "drawn"}, "'printed' where there are published values"),
        ({"method": "fedavg"}, "needs exactly one method, has fedavg, fedavg"),
        ({"problem": "cifar"}, "needs exactly one problem"),
        ({"base": {"epochs": 1}}, "no setting 'epochs'"),
        ({"base": {"model": None}}, "does not say model"),
        ({"kind": "figure"}, "a figure needs an analysis"),
        ({"analysis": ["astrology"]}, "Input should be"),
        ({"read": {"measure": "luck"}}, "Input should be"),
        ({"colour": "red"}, "Extra inputs"),
        ({"columns": [{"id": "m", "label": "M", "problem": "mnits"}]}, "did you mean 'mnist'"),
    ],
)
def test_a_table_that_does_not_fit_together_is_refused(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(why)):
        small(**changes)


def test_a_key_written_twice_is_refused(tmp_path: Any) -> None:
    file = tmp_path / "table1.yaml"
    file.write_text("title: one\ntitle: two\n", encoding="utf-8")
    with pytest.raises(InputError, match="'title' occurs twice"):
        papers.read(file)
    file.write_text("- a list\n", encoding="utf-8")
    with pytest.raises(InputError, match="must hold a mapping"):
        papers.read(file)
