"""A method and a network of one's own: trained, recorded, compared, killed, resumed to the same bits, reported, exported."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
import warm
from torch import nn

import perfed
from perfed.errors import InputError, RunError

METHOD = '''
"""FedPer whose clients also keep half of their former head."""
from dataclasses import dataclass
from torch import Tensor
from perfed import Method, Shard, Task, average, broadcast, descend, trees
from perfed.trees import Params

@dataclass(frozen=True, kw_only=True)
class Half(Method[Params, Params, Params, Params]):
    """Average the body; keep half of the former head."""
    share: float = 0.5  # ρ, share of the former head
    send = broadcast
    merge = average

    def init(self, task, clients):
        return task.split(task.params())

    def local(self, task, down, mine, data):
        body, head = task.split(descend(task.loss, down | mine, data.epochs(self.budget.epochs), self.budget))
        return body, trees.lerp(head, mine, self.share)

    def predict(self, task, down, mine, x):
        return task.logits(down | mine, x)
'''
NETWORK = """
import math
from torch import nn

def make(shape, classes, hidden=12):
    return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), hidden), nn.ReLU(), nn.Linear(hidden, classes))
"""
SMALL = ["clients=3", "partition=iid", "data.fraction=0.2", "transport=serial", "budget.lr=0.05"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "half.py").write_text(METHOD)
    (tmp_path / "net.py").write_text(NETWORK)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(*words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = warm.run(words)
    assert done.returncode == code, done.stderr
    return done


def half(**fields: Any) -> Any:
    from perfed.runs import code

    return code.find("half.py:Half", "method")(**fields)


def test_from_the_command_line_to_a_file_that_runs_elsewhere(here: Path) -> None:
    own = ["method=half.py:Half", "method.share=0.25", "model=net.py:make", "model.hidden=9", *SMALL, "rounds=3", "out=runs"]
    found = json.loads(call("run", *own, "name=own", "--json").stdout)
    folder = here / "runs" / "own"
    assert (folder / "code" / "method.py").read_text() == METHOD and (folder / "code" / "model.py").read_text() == NETWORK
    assert set(json.loads((folder / "manifest.json").read_text())["code"]["method"]) == {"from", "file", "sha256"}
    assert json.loads(call("resume", str(folder), "--rounds", "4", "--json").stdout)["rounds"] == 4
    longer = json.loads(call("run", *own[:-2], "rounds=4", "out=runs", "--json").stdout)
    assert json.loads((folder / "summary.json").read_text())["digest"] == longer["digest"] != found["digest"]
    call("report", str(folder))
    said = json.loads(call("export", str(folder), "--client", "1", "--json").stdout)
    assert said[0]["method"] == "Half" and said[0]["round"] == 4
    assert "Half" in (folder / "report.html").read_text()


def test_beside_built_in_methods_and_resumed_after_a_kill(here: Path) -> None:
    words = ["compare", "methods=fedavg,half.py:Half,half.py:Half:share=0.9", *SMALL, "rounds=40", "checkpoint=0", "workers=1"]
    straight = json.loads(call(*words, "out=straight", "name=all", "--json").stdout)
    process = warm.Warm([*words, "out=runs", "name=all"])
    started = here / "runs" / "all" / "Half" / "seed-0" / "rounds.jsonl"
    warm.reached(process, started.exists)
    process.kill()
    again = json.loads(call("resume", "runs/all", "--json").stdout)
    assert list(again["runs"]) == ["fedavg", "Half", "Half-2", "local"]
    assert {k: v["digest"] for k, v in again["runs"].items()} == {k: v["digest"] for k, v in straight["runs"].items()}


def test_changed_code_is_refused_with_the_difference_and_lost_code_is_taken_from_the_copy(here: Path) -> None:
    call("run", "method=half.py:Half", *SMALL, "rounds=1", "out=runs", "name=own")
    (here / "half.py").write_text(METHOD.replace("self.share)", "0.1)"))
    said = call("resume", "runs/own", "--rounds", "2", code=2).stderr
    assert "is not what the run was begun with" in said and "lerp(head, mine, self.share)" in said and "Traceback" not in said
    (here / "half.py").unlink()
    assert "Half" in call("resume", "runs/own", "--rounds", "2").stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("method=half.py:Halv", "did you mean 'Half'"),
        ("method=nowhere.py:Half", "no file 'nowhere.py'"),
        ("method=no.such.module:Half", "no module"),
        ("method=net.py:make", "is no perfed.Method"),
        ("model=net.py:make model.hiden=3", "did you mean 'hidden'"),
        ("model=half.py:Half", "got Half"),
        ("method=half.py:Half method.shore=1", "did you mean 'method.share'"),
    ],
)
def test_mistakes_with_own_code_are_one_sentence(here: Path, words: str, said: str) -> None:
    from perfed.runs import parse
    from perfed.runs.assemble import assemble

    with pytest.raises(InputError, match=said):
        assemble(parse.load(None, [*words.split(), *SMALL]), 0)


def test_objects_in_python_are_recorded_compared_and_given_again(here: Path) -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 10))
    given: dict[str, Any] = {"clients": 3, "partition": "iid", "model": net, "transport": "serial", "progress": False}
    run = perfed.run(method=half(share=0.3), rounds=2, out=here / "runs", **given)
    free = perfed.run(method=half(share=0.3), rounds=2, **given)
    assert run.digest == free.digest
    with pytest.raises(RunError, match=r"perfed.resume\(folder, method="):
        perfed.resume(run.path, rounds=3, progress=False)
    with pytest.raises(RunError, match="fields was"):
        perfed.resume(run.path, rounds=3, method=half(share=0.4), model=net, progress=False)
    longer = perfed.resume(run.path, rounds=3, method=half(share=0.3), model=net, progress=False)
    assert longer.digest == perfed.run(method=half(share=0.3), rounds=3, **given).digest
    found = perfed.compare(["fedper", half(), {"name": "ditto", "spring": 0.5}], rounds=1, **given)
    assert list(found.runs) == ["fedper", "Half", "ditto", "local"]
    assert found.table()["method"].tolist()[0] == "Majority class" and len(found.accuracies()) == 3
    assert isinstance(found.model("client 1", "Half"), nn.Module)


def test_a_function_or_a_class_makes_the_network_anew_for_every_seed() -> None:
    class Two(nn.Module):
        def __init__(self, classes: int) -> None:
            super().__init__()
            self.body, self.head = nn.Sequential(nn.Flatten(), nn.Linear(64, 5)), nn.Linear(5, classes)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.body(x))  # type: ignore[no-any-return]

    run = perfed.run(model=Two, seeds=(0, 1), clients=2, rounds=1, progress=False)
    first, second = (run.model(0, seed=seed).state_dict() for seed in (0, 1))
    assert not torch.equal(next(iter(first.values())), next(iter(second.values())))
    with pytest.raises(InputError, match="needs width"):
        perfed.run(model=lambda width: nn.Linear(width, 2), clients=2, rounds=1)


@pytest.mark.parametrize("name", ["os:system", "half.py:Half"])
def test_a_silo_imports_nothing_that_it_is_sent(here: Path, name: str) -> None:
    from perfed.silos.assignment import built
    from perfed.silos.refusals import Refused

    for settings in ({"model": name}, {"method": name}, {"metrics": [name]}):
        with pytest.raises(Refused, match="a silo takes only what the installed perfed has"):
            built(settings)
