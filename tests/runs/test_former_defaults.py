"""A default that has changed since version 0.1.0 changes no run that was begun with the former one."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from perfed.disk import put_yaml
from perfed.methods import CATALOGUE, find
from perfed.runs import run
from perfed.runs.experiment import Experiment
from perfed.runs.folder import RunFolder

SMALL: dict[str, Any] = {"clients": 3, "partition": "iid", "data": {"name": "digits", "fraction": 0.1}, "model": "mlp"}
DECIDED = SMALL | {"budget": {"lr": 0.1, "batch_size": 8}, "transport": "serial", "validation": 0.0}


def begun(folder: Path, method: Any, rounds: int) -> RunFolder:
    return run.run(Experiment(method=method, rounds=rounds, out=folder, **DECIDED))


def end(folder: RunFolder) -> Any:
    return folder.seed(0).final["digest"]


@pytest.mark.parametrize("name", [name for name in CATALOGUE if find(name).former])
def test_a_former_default_is_that_of_a_field_and_not_todays(name: str) -> None:
    today = {f.name: f.default for f in fields(find(name))}
    assert all(key in today and today[key] != value for key, value in find(name).former.items())


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
