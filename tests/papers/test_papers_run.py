"""Every experiment of the papers runs: one round of it, tiny, on data that needs no download."""

from pathlib import Path

import pytest

from perfed import papers
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
    grouped = partition.name in ("domains", "natural")
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


def test_the_split_of_a_stand_in_has_one_client_per_domain(tmp_path: Path) -> None:
    plan = next(p for p in plans(papers.load("gpfl/figure3"), Asked(rounds=1, seeds=(0,), stand_in=True)) if p.settings)
    assert plan.settings is not None
    assert plan.settings.data.name == "digits_domains"
    split: Split = split_of(plan.settings, samples_of(plan.settings), 0)
    assert len(split.names) == plan.settings.clients == 5
