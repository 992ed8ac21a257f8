"""A part of a table, made smaller, on the data that is here: what is run, what is reduced, what is missing."""

import math
from pathlib import Path

import pytest

from perfed import papers
from perfed.errors import DataError, InputError
from perfed.papers import estimate
from perfed.papers.choose import choose
from perfed.papers.plan import Asked, plans, runnable
from perfed.runs import parse as setting
from perfed.runs import run as experiment


@pytest.fixture(autouse=True)
def nothing_downloaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PERFED_DATA", str(tmp_path / "none"))
    monkeypatch.setenv("PERFED_CACHE", str(tmp_path / "cache"))


def chosen(name: str, *only: str) -> tuple[list[str], list[str]]:
    rows, columns = choose(papers.load(name), only)
    return [row.id for row in rows], [column.id for column in columns]


def test_a_data_set_names_all_its_columns_and_methods_their_rows() -> None:
    assert chosen("fedcp/table2", "mnist", "fedcp", "fedper") == (
        ["fedper", "fedcp"],
        ["mnist-pathological", "mnist-dirichlet"],
    )


def test_an_id_counts_before_anything_else() -> None:
    assert chosen("fedpick/table2", "mnist")[1] == ["mnist"]  # not mnist-m, which begins alike


def test_a_heading_names_its_columns() -> None:
    assert chosen("fedpick/table2", "Digits-Five", "fedpick") == (
        ["fedpick"],
        ["mnist-m", "mnist", "usps", "synthdigits", "svhn"],
    )


def test_what_the_whole_table_is_about_leaves_it_whole() -> None:
    recipe = papers.load("dualfed/table1")
    assert chosen("dualfed/table1", "pacs", "fedavg") == (["fedavg"], [column.id for column in recipe.columns])


def test_an_unknown_word_gets_the_nearest_one() -> None:
    with pytest.raises(InputError, match="did you mean 'fedcp'"):
        chosen("fedcp/table2", "fedcq")


def test_missing_data_says_where_to_get_it_and_what_stands_in() -> None:
    found = plans(papers.load("fedcp/table2"), Asked(only=("cifar100-dirichlet", "fedcp")))
    with pytest.raises(DataError, match=r"cifar100 is not here.*perfed data fetch cifar100.*--stand-in takes digits"):
        runnable(found)


def test_everything_smaller_is_said() -> None:
    asked = Asked(("fedcac", "cifar10-0.1"), rounds=50, fraction=0.1, seeds=(0,), overrides=("budget.lr=0.05",), stand_in=True)
    (plan,) = plans(papers.load("fedcac/table2"), asked)
    assert plan.settings is not None
    assert plan.settings.rounds == 50
    assert plan.settings.data.options["fraction"] == 0.1
    assert plan.settings.partition.options["train_size"] == 50  # a tenth of 500
    assert plan.settings.method.options["narrowing"] == 10  # 100 of 500 rounds are 10 of 50
    assert plan.reduced == (
        "digits stands in for cifar10",
        "rounds 50 instead of 500",
        "0.1 of the data",
        "budget.lr 0.05 instead of 0.1",
        "method.narrowing 10 instead of 100",
        "partition.test_size 10 instead of 100",
        "partition.train_size 50 instead of 500",
        "1 of 5 seeds",
    )


def test_what_the_user_changes_is_said_also_beside_a_stand_in() -> None:
    asked = Asked(("fedpick", "mnist-m"), overrides=("data.size=16", "model.head=linear", "every=3"), stand_in=True)
    (plan,) = plans(papers.load("fedpick/table2"), asked)
    assert {"16 instead of 32 pixels", "model.head linear instead of stack", "every 3"} <= set(plan.reduced)


def test_a_fraction_holds_for_other_data_too() -> None:
    for overrides, share in ((("data=digits",), 0.1), (("data=digits", "data.fraction=0.5"), 0.5)):
        (plan,) = plans(papers.load("fedcp/table1"), Asked(("fedcp",), fraction=0.1, overrides=(*overrides, "model=mlp")))
        assert plan.settings is not None and plan.settings.data.name == "digits"
        assert plan.settings.data.options["fraction"] == share
        assert f"{share:g} of the data" in plan.reduced


def test_a_papers_letter_may_be_overridden() -> None:
    asked = Asked(("fedcp", "mnist-dirichlet"), overrides=("lambda=2.5",), stand_in=True)
    (plan,) = plans(papers.load("fedcp/table2"), asked)
    assert plan.settings is not None and plan.settings.method.options["align"] == 2.5


def test_a_papers_letter_is_its_own_methods_alone() -> None:
    """FedProto has a λ too, which is another one."""
    recipe = papers.load("dualfed/table1")
    found = plans(recipe, Asked(("dualfed", "fedproto", "pacs"), overrides=("lambda=1",), stand_in=True))
    fields = {plan.row.id: plan.settings.method.options for plan in found if plan.settings}
    assert fields["dualfed"]["contrast"] == 1 and "contrast" not in fields["fedproto"]
    assert all(("contrast" in " ".join(plan.reduced)) == (plan.row.id == "dualfed") for plan in found)
    with pytest.raises(InputError, match="'lambda' is a letter of the paper's own method; what is chosen has it nowhere"):
        plans(recipe, Asked(("fedavg", "pacs"), overrides=("lambda=1",), stand_in=True))


def test_a_letter_does_not_put_back_what_a_variant_takes_away() -> None:
    """FedCP without its feature alignment has λ = 0, whatever λ the others get."""
    recipe = papers.load("fedcp/table1")
    found = plans(recipe, Asked(overrides=("lambda=2", "data=digits", "model=mlp")))
    weights = {plan.column.id: plan.settings.method.options["align"] for plan in found if plan.settings}
    assert {key: value for key, value in weights.items() if "gfm" in key} == dict.fromkeys(
        ("fedcp-no-gfm", "fedcp-no-cpn-gfm", "fedcp-no-cpn-gfm-gh"), 0
    )
    assert all(value == 2 for key, value in weights.items() if "gfm" not in key)
    assert len({plan.key for plan in found}) == 9


def test_a_figure_over_rounds_keeps_twenty_states() -> None:
    (plan,) = plans(papers.load("dualfed/figure5"), Asked(("pacs",), rounds=60, stand_in=True))
    assert plan.settings is not None and plan.settings.snapshots == 3
    assert plan.key.endswith("-every-3")


def test_the_same_experiment_in_two_tables_is_one_cell() -> None:
    """FedCP's Table 5 and GPFL's Table 4 both have FedPer on CIFAR-100 with all of 50 clients."""
    (one,) = plans(papers.load("fedcp/table5"), Asked(("fedper", "n-50"), rounds=3, stand_in=True))
    (other,) = plans(papers.load("gpfl/table4"), Asked(("fedper", "ratio-1"), rounds=3, stand_in=True))
    assert one.key == other.key
    (third,) = plans(papers.load("gpfl/table4"), Asked(("fedper", "ratio-0.5-1"), rounds=3, stand_in=True))
    assert third.key != one.key


@pytest.mark.parametrize("fraction", [0.0, 1.5])
def test_a_fraction_is_a_part(fraction: float) -> None:
    with pytest.raises(InputError, match="at most 1"):
        Asked(fraction=fraction)


def test_schedules_shrink_to_less_than_the_rounds() -> None:
    """LG-FedAvg starts with 20 of 300 rounds of plain averaging: of one round that leaves none."""
    asked = Asked(("lgfedavg", "office-amazon"), rounds=1, stand_in=True)
    (plan,) = plans(papers.load("fedpick/table2"), asked)
    assert plan.settings is not None and plan.settings.method.options["warmup"] == 0


def test_data_that_is_named_needs_no_stand_in() -> None:
    asked = Asked(("fedavg", "cifar100-dirichlet"), overrides=("data=digits", "data.size=28"))
    (plan,) = plans(papers.load("fedcp/table2"), asked)
    assert plan.settings is not None and plan.settings.data.plain() == {"name": "digits", "size": 28}
    with pytest.raises(InputError, match="did you mean 'digits'"):
        plans(papers.load("fedcp/table2"), Asked(("fedavg", "cifar100-dirichlet"), overrides=("data=digit",)))


def test_another_network_keeps_the_projector_that_comes_with_the_compared_methods() -> None:
    asked = Asked(("fedavg", "dualfed"), overrides=("data=digits", "model=mlp", "augment=false"))
    made = {plan.row.id: plan.settings for plan in plans(papers.load("dualfed/table1"), asked)}
    assert made["fedavg"] is not None and made["fedavg"].model.plain() == {"name": "mlp", "projector": 256}
    assert made["dualfed"] is not None and made["dualfed"].model.plain() == "mlp"  # it inserts its own
    without = plans(papers.load("dualfed/table1"), Asked(("fedavg",), overrides=(*asked.overrides, "model.projector=null")))[-1]
    assert without.settings is not None and without.settings.model.options.get("projector") is None


def test_an_estimate_counts_the_samples_that_are_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    settings = setting.load(None, ["data=cifar10", "model=cnn", "partition=dirichlet", "test=0.25", "validation=0.0"])
    assert estimate.samples(settings) == (45_000, 15_000)
    (tmp_path / "cifar10").mkdir()
    (tmp_path / "cifar10" / "cifar10_subset.npz").touch()
    monkeypatch.setenv("PERFED_DATA", str(tmp_path))
    assert estimate.samples(settings) == (11_250, 3_750)


def test_of_data_that_nobody_knows_neither_time_nor_disk_is_foreseen() -> None:
    own = setting.load(None, ["data=npz:mine.npz", "model=mlp"])
    assert math.isnan(estimate.seconds(own)) and math.isnan(estimate.room(own))


@pytest.mark.parametrize("method", ["fedavg", "fedcp", "fedcac", "dualfed", "gpfl", "fedpick", "fedamp", "apple"])
def test_the_disk_foreseen_is_the_disk_filled(method: str, tmp_path: Path) -> None:
    """Methods that keep nothing, parts, whole models, and models of all clients at the server; statistics stay at home."""
    network = ["data=digits", "data.size=16", "model=cnn_bn", "norm=local_stats", "partition=iid", "clients=4"]
    asked = setting.load(None, [f"method={method}", *network, "rounds=2", "snapshots=1", f"out={tmp_path}", "name=run"])
    experiment.run(asked)
    states = list((tmp_path / "run" / "seed-0").rglob("*-[0-9]*.safetensors"))
    assert len(states) == 4  # the last one, and one of the start and of each round
    assert estimate.room(asked) == pytest.approx(sum(path.stat().st_size for path in states), rel=0.01)  # names and shapes
