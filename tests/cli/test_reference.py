"""The reference of settings is the source's own, complete, and quick to print."""

import json
import os
import subprocess
import sys

from typer.testing import CliRunner

import perfed
from perfed import reference
from perfed.cli.commands import app
from perfed.cli.settings import complete
from perfed.local import Budget
from perfed.methods import CATALOGUE
from perfed.runs import parse
from perfed.runs.experiment import Experiment
from perfed.sampling import Sampling


def printed(*words: str) -> str:
    done = CliRunner().invoke(app, list(words), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_every_setting_is_listed_with_a_meaning() -> None:
    rows = json.loads(printed("settings", "--json"))
    paths = {row["path"] for row in rows}
    assert set(Experiment.model_fields) - set(reference.GROUPS) <= paths
    assert {f"budget.{name}" for name in Budget.__dataclass_fields__} | {
        f"sampling.{name}" for name in Sampling.__dataclass_fields__
    } <= paths
    assert {
        "inputs.mean",
        "text.length",
        "partition.alpha",
        "model.hidden",
        "data.fraction",
        "method.align",
        "join.epochs",
    } <= paths
    assert not [row["path"] for row in rows if not row["meaning"] or not row["type"]]


def test_options_are_those_of_the_code() -> None:
    from dataclasses import fields

    from perfed.data.entry import ReaderOptions
    from perfed.methods import find
    from perfed.models import MODELS, options_of
    from perfed.partition import PARTITIONS

    for name in CATALOGUE:
        assert set(reference.options("method", name)) == {f.name for f in fields(find(name))} - {"budget", "norm"}
    for name, kind in PARTITIONS.items():
        assert set(reference.options("partition", name)) == {f.name for f in fields(kind)}
    for name in MODELS:
        assert set(reference.options("model", name)) == set(options_of(name))
    assert {s.leaf for s in reference.everything() if s.path.startswith("data.")} == {f.name for f in fields(ReaderOptions)}


def test_every_example_can_be_typed_as_it_stands() -> None:
    for one in reference.everything():
        first = {"partition": "partition", "model": "model", "method": "method", "data": "data"}.get(one.path.partition(".")[0])
        home = (
            [f"{first}={one.applies[0]}x" if one.applies[0].endswith(":") else f"{first}={one.applies[0]}"] if one.applies else []
        )
        more = {"inputs.flip": ["augment=true"], "inputs.rotate": ["augment=true"], "inputs.crop": ["augment=true"]}.get(
            one.path, []
        )
        more = ["after=true"] if one.path == "series" else more
        more = {"engine": ["engine=ray"], "privacy": ["privacy=client"], "attack": ["attack=sign"]}.get(
            one.path.partition(".")[0], more
        )
        if one.default is not None or one.path in reference.EXAMPLES:
            parse.load(None, [*home, *more, one.example])


def test_one_setting_is_shown_with_an_example() -> None:
    said = printed("settings", "budget.lr")
    assert "step size" in said and "budget.lr=0.005" in said and "0.005" in said
    assert "fedprox" in printed("settings", "method.spring") and "μ" in printed("settings", "spring")
    assert printed("settings", "budget").count("budget.") >= 6


def test_help_and_reference_wait_for_nothing_heavy() -> None:
    for words in (["--help"], ["settings"], ["--version"]):
        code = (
            f"import sys; from perfed.cli.commands import app; app({words}, standalone_mode=False)\n"
            "print('torch' in sys.modules, 'numpy' in sys.modules)"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[-1] == "False False", words


def test_it_says_its_version() -> None:
    assert printed("--version").strip() == f"perfed {perfed.__version__}"
    module = subprocess.run([sys.executable, "-m", "perfed", "--version"], capture_output=True, text=True, check=True)
    assert module.stdout.strip() == f"perfed {perfed.__version__}"


def test_the_shell_completes_settings_and_names() -> None:
    assert complete("budget.l") == ["budget.lr="] and complete("method=fedc") == ["method=fedcp", "method=fedcac"]
    assert complete("transport=s") == ["transport=serial", "transport=stacked"]
    asked = {"_PERFED_COMPLETE": "complete_bash", "COMP_WORDS": "perfed me", "COMP_CWORD": "1"}
    code = "import sys; sys.argv = ['perfed']; from perfed.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **asked}, check=False)
    assert done.stdout.split() == ["methods"]
