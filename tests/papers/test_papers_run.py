"""Every experiment of the papers runs: one round of it, tiny, on data that needs no download."""

from pathlib import Path

import numpy as np
import pytest

from perfed import papers
from perfed.errors import InputError
from perfed.papers.plan import Asked, plans
from perfed.partition import Split
from perfed.runs import run as experiment
from perfed.runs.assemble import samples_of, split_of
from perfed.runs.experiment import Experiment

DOMAINS = ["plain", "inverted"]
CLIENTS = 3  # at most, where the data does not say how many there are


@pytest.fixture(autouse=True)
def nothing_downloaded(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setenv("PERFED_DATA", str(tmp_path_factory.mktemp("none")))
    monkeypatch.setenv("PERFED_CACHE", str(tmp_path_factory.mktemp("cache")))


def tiny(settings: Experiment) -> Experiment:
    """Return an experiment with few clients that have few samples, everything else as it is."""
    options = {"train_size": 8, "test_size": 4, "samples": 8, "alpha": 5.0}
    partition = settings.partition
    kept = {key: options.get(key, value) for key, value in partition.options.items() if key != "subset_of"}
    grouped = partition.name in ("domains", "natural", "timeline")
    smaller: dict[str, object] = {"fraction": 0.3, "domains": DOMAINS} if grouped else {"fraction": 0.1}
    if settings.model.name != "alexnet_bn":
        smaller["size"] = 8  # otherwise the first linear layer takes most of the time
    data = settings.data.model_copy(update={"options": settings.data.options | smaller})
    many = len(DOMAINS) if grouped else min(CLIENTS, settings.clients or CLIENTS)
    return settings.model_copy(
        update={
            "partition": partition.model_copy(update={"options": kept}),
            "data": data,
            "clients": many,
            "transport": "serial",
            "test": 0.25,
        }
    )


def different(names: tuple[str, ...]) -> dict[str, Experiment]:
    """Return the experiments of recipes that differ in method, network or evaluation."""
    found: dict[str, Experiment] = {}
    for name in names:
        for plan in plans(papers.load(name), Asked(rounds=1, seeds=(0,), stand_in=True)):
            if plan.settings is not None:
                s = plan.settings
                words = {key: v for key, v in s.method.options.items() if not isinstance(v, float)}  # weights swept over
                what = (s.method.name, words, s.model.plain(), s.norm, s.data.name, s.partition.name, s.series)
                found.setdefault(repr(what), s)
    return found


def one_round(settings: Experiment, out: Path) -> float:
    """Run an experiment and return its accuracy."""
    done = experiment.run(tiny(settings).model_copy(update={"out": out}))
    return float(done.summary["accuracy"]["best"]["weighted"]["mean"])


@pytest.mark.parametrize(
    ("name", "only"),
    [
        ("dualfed/table4", "dualfed"),
        ("fedcac/table3", "fedcac"),
        ("fedcp/table2", "fedcp"),
        ("fedpick/table2", "fedpick"),
        ("gpfl/table2", "gpfl"),
    ],
)
def test_one_round_of_every_papers_own_method(name: str, only: str, tmp_path: Path) -> None:
    recipe = papers.load(name)
    for plan in plans(recipe, Asked(rounds=1, seeds=(0,), stand_in=True)):
        if plan.settings is not None and plan.settings.method.name == only:
            assert 0 <= one_round(plan.settings, tmp_path) <= 1
            break
    else:
        pytest.fail(f"{name} has no cell of {only}")


@pytest.mark.slow
@pytest.mark.parametrize("paper", papers.PAPERS)
def test_one_round_of_every_experiment(paper: str, tmp_path: Path) -> None:
    names = tuple(name for name in papers.listing() if name.startswith(f"{paper}/"))
    refused = {}
    for what, settings in different(names).items():
        try:
            accuracy = one_round(settings, tmp_path)
        except Exception as wrong:  # the whole list of what fails says more than the first
            refused[what] = f"{type(wrong).__name__}: {wrong}"
        else:
            assert 0 <= accuracy <= 1
    assert not refused


def test_a_recipe_runs_on_ones_own_arrays_without_changing_pictures(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    np.savez(
        tmp_path / "own.npz", x=random.integers(0, 256, (80, 3, 8, 8), np.uint8), y=np.arange(80) % 4, group=np.arange(80) // 20
    )
    words = (f"data=npz:{tmp_path / 'own.npz'}", "model=mlp", "augment=false", "transport=serial")
    found = plans(papers.load("dualfed/table1"), Asked(("fedavg", "Avg."), rounds=1, seeds=(0,), overrides=words))
    (plan,) = [one for one in found if one.settings is not None]
    assert plan.settings is not None and not plan.settings.augment and not {"flip", "rotate"} & plan.settings.inputs.keys()
    assert any("pictures as they are instead of 227 pixels" in why for why in plan.reduced)
    done = experiment.run(plan.settings.but(out=tmp_path / "runs"))
    assert len(done.summary["accuracy"]["last"]["seeds"]) == 1 and len(done.seed(0).clients["names"]) == 4
    with pytest.raises(InputError, match="out= has no effect on a recipe.*--out says where"):
        plans(papers.load("dualfed/table1"), Asked(("fedavg",), overrides=("out=runs",)))


def test_a_table_that_is_read_client_by_client_takes_ones_own_hospitals(tmp_path: Path) -> None:
    rows = [f"{'rome' if i % 2 else 'oslo'},{i % 7},{i % 5},{'ill' if i % 3 else 'well'}" for i in range(80)]
    (tmp_path / "own.csv").write_text("\n".join(["ward,age,fat,state", *rows]))
    own = (
        f"data=csv:{tmp_path / 'own.csv'}",
        "data.label=state",
        "data.client=ward",
        "partition=natural",
    )
    found = plans(papers.load("flamby/heart"), Asked(("fedavg",), rounds=1, seeds=(0,), overrides=(*own, "budget.steps=2")))
    settings = next(one.settings for one in found if one.settings is not None)
    done = experiment.run(settings.but(out=tmp_path / "runs", transport="serial"))
    assert done.seed(0).clients["names"] == ["oslo", "rome"]


def test_the_split_of_a_stand_in_has_one_client_per_domain(tmp_path: Path) -> None:
    plan = next(p for p in plans(papers.load("gpfl/figure3"), Asked(rounds=1, seeds=(0,), stand_in=True)) if p.settings)
    assert plan.settings is not None
    assert plan.settings.data.name == "digits_domains"
    split: Split = split_of(plan.settings, samples_of(plan.settings), 0)
    assert len(split.names) == plan.settings.clients == 5
