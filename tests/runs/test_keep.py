"""keep=: which state a finished run leaves on disk."""

from pathlib import Path
from typing import Any

import pytest

import perfed
from perfed import trees
from perfed.errors import InputError, RunError
from perfed.runs.folder import RunFolder
from perfed.runs.seed import Seed

SMALL: dict[str, Any] = {"method": "fedper", "clients": 3, "rounds": 6, "data": {"name": "digits", "fraction": 0.2}}
SMALL |= {"transport": "serial", "budget": {"lr": 0.6}, "checkpoint": 0}


def states(run: perfed.Run) -> list[str]:
    return sorted(str(path.relative_to(run.path / "seed-0")) for path in (run.path / "seed-0").rglob("*.safetensors*"))


def same(one: perfed.Run, other: perfed.Run) -> bool:
    """Whether two runs' clients have the same models."""
    pairs = [(one.model(client).state_dict(), other.model(client).state_dict()) for client in range(3)]
    return all(trees.equal(dict(here), dict(there)) for here, there in pairs)


def test_the_best_state_is_that_of_the_validated_round_and_the_only_one(tmp_path: Path) -> None:
    best = perfed.run(**SMALL, keep="best", out=tmp_path, name="best")
    validated = best.summary["accuracy"]["validation"]["seeds"]["0"]["round"]
    assert 0 < validated < 6, "a case in which best and last differ"
    assert states(best) == [f"checkpoint-{validated}.safetensors", "split.safetensors"]
    assert same(best, perfed.run(**SMALL | {"rounds": validated}, out=tmp_path, name="short"))
    last = perfed.run(**SMALL, out=tmp_path, name="last")
    assert last.digest == best.digest and not same(best, last)


def test_a_run_goes_on_from_its_best_state_to_the_bits_of_a_longer_run(tmp_path: Path) -> None:
    folder = perfed.run(**SMALL, keep="best", out=tmp_path, name="best").path
    longer = perfed.run(**SMALL | {"rounds": 8}, out=tmp_path, name="longer")
    assert perfed.resume(folder, rounds=8).digest == longer.digest


def test_stopped_after_a_better_round_but_before_its_checkpoint_the_same_state_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = perfed.run(**SMALL, keep="best", out=tmp_path, name="whole")

    def stop(seed: Seed, number: int) -> None:
        raise OSError(f"no checkpoint after round {number}")

    validated = whole.summary["accuracy"]["validation"]["seeds"]["0"]["round"]
    save = Seed._save
    monkeypatch.setattr(Seed, "_save", lambda seed, number: (stop if number >= validated else save)(seed, number))
    with pytest.raises(OSError, match="no checkpoint"):
        perfed.run(**SMALL, keep="best", out=tmp_path, name="cut")
    monkeypatch.setattr(Seed, "_save", save)
    assert RunFolder(tmp_path / "cut").seed(0).reached == validated - 1
    again = perfed.resume(tmp_path / "cut")
    assert same(whole, again) and states(whole) == states(again)


def test_without_states_there_are_results_but_no_models_and_no_more_rounds(tmp_path: Path) -> None:
    run = perfed.run(**SMALL, keep="none", out=tmp_path, name="none")
    assert states(run) == ["split.safetensors"] and "FedPer" in set(run.table()["method"])
    for act in (lambda: run.model(0), lambda: perfed.resume(run.path, rounds=9)):
        with pytest.raises(RunError, match="keep=none"):
            act()
    assert perfed.resume(run.path).digest == run.digest


def test_what_has_no_effect_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="validation=0.1 sets some aside"):
        perfed.run(**SMALL, keep="best", validation=0, out=tmp_path)
    with pytest.raises(InputError, match="for runs that are recorded"):
        perfed.run(**SMALL, keep="none")
    with pytest.raises(InputError, match="keep must be 'last', 'best' or 'none'"):
        perfed.run(**SMALL, keep="first", out=tmp_path)
