"""A default that has changed since version 0.1.0 changes no run that was begun with the former one."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from perfed.disk import put_yaml
from perfed.methods import CATALOGUE, find
from perfed.runs import run
from perfed.runs.experiment import SINCE, Experiment
from perfed.runs.folder import RunFolder

SMALL: dict[str, Any] = {"clients": 3, "partition": "iid", "data": {"name": "digits", "fraction": 0.1}, "model": "mlp"}
DECIDED = SMALL | {"budget": {"lr": 0.1, "batch_size": 8}, "transport": "serial", "validation": 0.0}


def begun(folder: Path, method: Any, rounds: int) -> RunFolder:
    return run.run(Experiment(method=method, rounds=rounds, out=folder, **DECIDED))


def end(folder: RunFolder) -> Any:
    return folder.seed(0).final["digest"]


FIRST = [name for name in CATALOGUE if find(name).at_first]


@pytest.mark.parametrize("name", [name for name in CATALOGUE if find(name).former or find(name).at_first])
def test_a_former_default_is_that_of_a_field_and_not_todays(name: str) -> None:
    today, then = {f.name: f.default for f in fields(find(name))}, {**find(name).former, **find(name).at_first}
    assert all(key in today and today[key] != value for key, value in then.items())


@pytest.mark.parametrize("name", FIRST)
def test_a_record_of_the_first_version_goes_on_as_it_began(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What had other defaults then, and has not been named in records since, is told by what else such a record lacks."""
    twice = {**DECIDED, "budget": {**DECIDED["budget"], "epochs": 2}}
    then = {"name": name, **find(name).at_first}

    def as_given(folder: RunFolder, experiment: Experiment) -> None:
        plain = {k: v for k, v in experiment.plain().items() if k not in SINCE}
        put_yaml(folder.path / "settings.yaml", plain | {"method": name})

    silent = Experiment(method=name, rounds=1, **twice).digest()
    with monkeypatch.context() as before:
        before.setattr(RunFolder, "put_experiment", as_given)
        before.setattr(Experiment, "digest", lambda _: silent)
        path = run.run(Experiment(method=then, rounds=1, out=tmp_path / "before", **twice)).path
    found = RunFolder(path)
    assert found.experiment.method.options == find(name).at_first
    whole = run.run(Experiment(method=then, rounds=2, out=tmp_path / "then", **twice))
    today = run.run(Experiment(method=name, rounds=2, out=tmp_path / "today", **twice))
    assert today.experiment.method.options == {}
    longer = run.resume(found, rounds=2)
    assert end(longer) == end(whole) != end(today)
    assert RunFolder(path).experiment.method.options == find(name).at_first  # named from now on


def test_a_record_of_before_goes_on_as_it_began(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Version 0.1.0 wrote down what was given, and no default."""

    def as_given(folder: RunFolder, experiment: Experiment) -> None:
        put_yaml(folder.path / "settings.yaml", experiment.plain() | {"method": "fedpick"})

    with monkeypatch.context() as before:
        before.setattr(RunFolder, "put_experiment", as_given)
        path = begun(tmp_path / "before", {"name": "fedpick", "teachers": "moving"}, 1).path
    found = RunFolder(path)
    assert found.settings["method"] == "fedpick" and found.experiment.method.options == {"teachers": "moving"}
    moving = begun(tmp_path / "moving", {"name": "fedpick", "teachers": "moving"}, 2)
    today = begun(tmp_path / "today", "fedpick", 2)
    assert end(run.resume(found, rounds=2)) == end(moving) != end(today)


def test_what_was_the_default_keeps_its_name_and_what_is_one_now_has_another() -> None:
    asked: tuple[dict[str, str], ...] = ({"teachers": "moving"}, {}, {"teachers": "fixed"})
    former, today, given = (Experiment(method={"name": "fedpick", **more}) for more in asked)
    assert former.digest() != today.digest() == given.digest()
    assert former.digest().startswith("0069de1125267259")  # what 0.1.0 called FedPick at its defaults
    assert today.plain()["method"] == {"name": "fedpick", "teachers": "fixed"}
