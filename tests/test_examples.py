"""Every example runs as it stands and is short enough to read at once."""

from pathlib import Path

import pytest
import warm

from perfed.runs import compare as comparison
from perfed.runs.assemble import method_of
from perfed.runs.race import ask

EXAMPLES = Path(__file__).parents[1] / "examples"
PATHS = sorted(EXAMPLES.glob("*.py"))


@pytest.mark.parametrize("path", PATHS, ids=lambda p: p.stem)
def test_the_example_runs(path: Path, tmp_path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 60
    if path.stem == "silos":
        pytest.importorskip("flwr")
    done = warm.run([], script=path, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


@pytest.mark.parametrize("path", [path for path in PATHS if path.stem != "silos"], ids=lambda p: p.stem)
def test_the_example_is_a_notebook_too(path: Path) -> None:
    cells = path.read_text(encoding="utf-8").split("# %%")
    assert cells[0] == "" and cells[1].startswith(" [markdown]\n# # ") and len(cells) >= 4


RACED = sorted(EXAMPLES.glob("studies/raced/*.yaml"))


@pytest.mark.parametrize("path", RACED, ids=lambda p: p.stem)
def test_a_raced_study_searches_fields_that_there_are_and_tests_on_other_seeds(path: Path) -> None:
    asked = ask.load(path)
    names = [one.method.name for one in asked.experiments]
    assert len(names) == 11 and {"local", "fedavgft"} <= set(names)  # they always race
    assert asked.options["candidates"] >= 9 and asked.seed not in asked.tested
    assert f"perfed race {path.relative_to(EXAMPLES.parent)}`" in path.read_text(encoding="utf-8").splitlines()[0]


def test_the_main_job_is_tuned_on_seeds_that_it_does_not_show() -> None:
    for name in ("main", "main_domains"):
        shown, tuned = comparison.load(EXAMPLES / f"{name}.yaml"), ask.load(EXAMPLES / "studies" / "raced" / f"{name}.yaml")
        first, raced = shown.first, tuned.experiments[0]
        assert not {tuned.seed, *tuned.tested} & set(first.seeds)
        for part in ("data", "model", "partition", "clients", "test", "validation"):  # the same kind of federation
            assert getattr(first, part) == getattr(raced, part), part


@pytest.mark.parametrize("path", sorted(set(EXAMPLES.rglob("*.yaml")) - set(RACED)), ids=lambda p: p.stem)
def test_a_study_names_methods_with_valid_fields_and_three_seeds(path: Path, tmp_path: Path) -> None:
    asked = comparison.load(path)
    made = [method_of(one) for one in asked.named(tmp_path)]
    assert len({type(method) for method in made}) == len(asked.experiments) >= 7
    assert list(asked.first.seeds) == [0, 1, 2]
