"""Settings: a file, overrides laid over it, and one sentence for the first thing that is wrong."""

from pathlib import Path

import pytest

from perfed.errors import InputError
from perfed.runs import parse as setting
from perfed.runs.assemble import method_of


def test_overrides_are_laid_over_a_file(tmp_path: Path) -> None:
    file = tmp_path / "it.yaml"
    file.write_text("method: {name: fedcp, align: 3}\nrounds: 7\nbudget: {lr: 0.1}\n")
    asked = setting.load(file, ["method.align=5", "budget.epochs=2", "seeds=0,1,2", "partition.alpha=1e-1"])
    assert asked.method.plain() == {"name": "fedcp", "align": 5}
    assert (asked.rounds, asked.seeds, asked.budget.lr, asked.budget.epochs) == (7, (0, 1, 2), 0.1, 2)
    assert method_of(asked).align == 5.0  # type: ignore[attr-defined]


def test_another_method_does_not_inherit_options(tmp_path: Path) -> None:
    file = tmp_path / "it.yaml"
    file.write_text("method: {name: fedcp, align: 3}\n")
    assert setting.load(file, ["method=fedper"]).method.plain() == "fedper"


def test_settings_survive_their_own_yaml(tmp_path: Path) -> None:
    import yaml

    asked = setting.load(None, ["method=fedcac", "method.critical=0.3", "sampling.ratio=0.5", "model=cnn", "out=x", "clients=7"])
    again = setting.build(yaml.safe_load(yaml.safe_dump(asked.plain())))
    assert again.plain() == asked.plain() and again.digest() == asked.digest()


def test_where_a_run_goes_does_not_change_what_it_is() -> None:
    one = setting.load(None, ["transport=serial", "out=a", "workers=2"])
    two = setting.load(None, ["transport=pooled", "out=b"])
    assert one.digest() == two.digest() != setting.load(None, ["rounds=51"]).digest()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("budget.momentum=1.5", "budget.momentum must be in"),
        ("budget.optimizer=rmsprop", "budget.optimizer must be"),
        ("sampling.ratio=0", "sampling.ratio must be in"),
        ("seeds=0,0", "different"),
        ("seeds=-1", "from 0"),
        ("transport=warp", "transport must be"),
        ("series=after", "after=true"),
        ("nonsense", "not a setting"),
        ("rounds.x=1", "no option"),
    ],
)
def test_bad_values_are_named(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        setting.load(None, [text])


def test_a_methods_schedule_takes_the_experiments_rounds() -> None:
    made = method_of(setting.load(None, ["method=fedphp", "rounds=77"]))
    assert made.rounds == 77  # type: ignore[attr-defined]
    made = method_of(setting.load(None, ["method=fedphp", "rounds=77", "method.rounds=10"]))
    assert made.rounds == 10  # type: ignore[attr-defined]


def test_lists_are_written_the_natural_way() -> None:
    asked = setting.load(None, ["inputs.mean=60,120,0.5", "inputs.std=10,20,.1", "model.hidden=64,32", "seeds=3,4"])
    assert asked.inputs == {"mean": [60, 120, 0.5], "std": [10, 20, 0.1]} and asked.seeds == (3, 4)
    assert asked.model.options == {"hidden": [64, 32]}


def test_a_number_with_an_exponent_is_a_number() -> None:
    """YAML takes 1e-3 for a text."""
    asked = setting.load(None, ["budget.lr=1e-3", "partition.alpha=1e-1"])
    assert asked.budget.lr == 0.001 and asked.partition.options == {"alpha": 0.1}
