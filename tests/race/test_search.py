"""What is worth searching stands in a method's class, and every setting that is drawn from it can be run."""

from dataclasses import fields
from math import log10
from pathlib import Path

import pytest
from racing import wanted

from perfed.errors import InputError, MethodError
from perfed.method.search import Among, Between, log, of, whole, written
from perfed.methods import CATALOGUE, find
from perfed.runs.assemble import method_of
from perfed.runs.experiment import Experiment
from perfed.runs.race import draw
from perfed.runs.race.folder import RaceFolder
from perfed.runs.race.plan import LR, Racer, searched
from perfed.runs.race.prepare import ready
from perfed.runs.race.run import Contest, run


def racer(name: str, **asked: object) -> Racer:
    one = Experiment(method=name, rounds=100)
    return Racer(name, one, searched(find(name), (), one.budget, asked))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_range_is_of_a_field_and_every_draw_makes_a_method(name: str) -> None:
    known = {f.name for f in fields(find(name))}
    assert set(find(name).search) <= known - {"budget", "norm", "rule"} | {LR}
    drawn = draw.spread(racer(name), 20, seed=0)
    assert drawn[0] == {} and len(drawn) == 20 and all(LR in values for values in drawn[1:])
    for values in drawn:
        assert method_of(racer(name).setting(values, 100)).budget.lr == values.get(LR, 0.005)


def test_draws_follow_from_the_key_and_differ_between_methods_and_seeds() -> None:
    first = draw.spread(racer("fedcp"), 8, seed=0)
    assert first == draw.spread(racer("fedcp"), 8, seed=0)
    assert first[:5] == draw.spread(racer("fedcp"), 5, seed=0)  # more candidates are further ones
    assert first[1:] != draw.spread(racer("fedcp"), 8, seed=1)[1:]
    assert first[1:] != draw.spread(racer("ditto"), 8, seed=0)[1:]


def test_every_other_draw_moves_the_step_size_alone() -> None:
    drawn = draw.spread(racer("fedcp"), 9, seed=0)
    assert [set(values) for values in drawn[1:]] == [{LR}, {LR, "align"}] * 4


def test_step_sizes_are_spread_over_the_whole_range() -> None:
    steps = sorted(values[LR] for values in draw.spread(racer("fedavg"), 13, seed=0)[1:])
    assert steps[0] < 0.006 and steps[-1] > 0.2
    ratios = [high / low for low, high in zip(steps, steps[1:], strict=False)]
    assert max(ratios) < 3  # twelve even steps would be 1.65 each


def test_where_fewer_settings_exist_there_are_fewer_candidates() -> None:
    one = Experiment(method="fedrep")
    few = Racer("fedrep", one, {"head_epochs": Among((1, 2))})
    drawn = draw.spread(few, 20, seed=0)
    assert drawn[0] == {} and sorted(values["head_epochs"] for values in drawn[1:]) == [1, 2]


def test_a_schedule_has_the_length_of_a_full_run_stated() -> None:
    asked = racer("apple").setting({LR: 0.1}, 77)
    assert asked.method.options["rounds"] == 77 and method_of(asked.but(rounds=9)).rounds == 77  # type: ignore[attr-defined]


def test_ranges_as_people_write_them() -> None:
    assert written("budget.lr", "0.01..0.5") == log(0.01, 0.5)
    assert written("fedcac.narrowing", "10..200") == whole(10, 200)
    assert written("fedapfl.share", "0..1") == Between(0, 1, log=False, whole=True)
    assert written("fedrep.head_epochs", "1|5|10") == Among((1, 5, 10))
    assert written("budget.lr", (0.01, 0.5)) == log(0.01, 0.5)
    assert written("budget.lr", "0.1") is None
    for space in (log(0.1, 10), Among((1, "b", True))):
        assert of(space.plain()) == space
    with pytest.raises(InputError, match="smaller to a larger"):
        written("budget.lr", "0.5..0.1")


def test_tpe_learns_from_scores() -> None:
    pytest.importorskip("optuna")
    steps = [0.002 * 250 ** (place / 60) for place in range(61)]
    tried = [({}, None), *(({LR: step}, -abs(log10(step) + 1)) for step in steps)]  # best at 0.1
    drawn = draw.learned(racer("fedavg"), tried, 8, seed=0)
    assert drawn == draw.learned(racer("fedavg"), tried, 8, seed=0)
    assert len(drawn) == 8 and sum(0.03 < values[LR] < 0.3 for values in drawn) >= 5  # a fifth of the range has most of them


def test_what_a_method_refuses_on_these_clients_is_not_drawn(tmp_path: Path) -> None:
    """DualFed's projector takes few settings at batches of ten; those that it refuses would have been lost candidates."""
    made = ready(wanted(tmp_path, "dualfed"))
    own = next(one for one in made.plan.racers if one.name == "dualfed")
    check = Contest(RaceFolder(tmp_path), made).check(own)
    blind, seen = draw.spread(own, 9, seed=0), draw.spread(own, 9, seed=0, check=check)

    def refused(values: draw.Values) -> bool:
        try:
            check(method_of(own.setting(values, 6)))
        except MethodError:
            return True
        return False

    assert sum(map(refused, blind)) >= 3
    assert len(seen) == 9 and not any(map(refused, seen))


def test_settings_that_fall_out_are_told_with_the_reason(tmp_path: Path) -> None:
    said: list[str] = []
    run(wanted(tmp_path, "fedper", candidates=2, search={"budget.lr": (1e6, 2e6)}), note=said.append)
    assert any(line.startswith("FedPer: 1 of 2 settings fell out without a score, such as: ") for line in said), said
