"""auto takes what comes to the same bits, by a rule; what would be faster is said."""

from pathlib import Path
from typing import Any

import pytest
from torch import nn

from perfed.local import Budget
from perfed.methods import find
from perfed.runs.compare import Lineup
from perfed.runs.compare import run as compare
from perfed.runs.experiment import Experiment
from perfed.runs.run import rehearse, run
from perfed.runs.states import digest
from perfed.task import Task
from perfed.testing import federation, task
from perfed.testing.play import CLASSES, FEATURES
from perfed.transport import SAME, Site, Store, choose, faster

SMALL = Experiment(
    method="fedper", clients=9, rounds=2, partition="iid", data={"name": "digits", "fraction": 0.1}, budget={"lr": 0.1}
)
SAID = "transport=stacked would be faster here; its numbers differ by about 1e-5"


def test_auto_comes_to_the_same_bits_whatever_the_number_of_workers() -> None:
    ended = [rehearse(SMALL.but(workers=count))[0] for count in (1, 2, 3)]
    assert len({digest(seed.server, seed.store) for seed in ended}) == 1


@pytest.mark.parametrize(("clients", "workers", "name"), [(3, 1, "serial"), (3, 2, "pooled"), (3, 8, "pooled"), (1, 2, "serial")])
def test_auto_never_takes_what_rounds_differently(clients: int, workers: int, name: str) -> None:
    site, _, first = Site.of(find("fedavg")(), task(), federation(clients))
    taken, why = choose(site, Store(first, clients), "auto", workers)
    taken.close()
    assert taken.name == name in SAME and "same bits" in why["why"]


@pytest.mark.parametrize(("allowed", "name"), [({0}, "serial"), ({0, 1}, "pooled")])
def test_workers_are_the_cores_that_were_given_to_the_process(
    allowed: set[int], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: allowed, raising=False)
    site, _, first = Site.of(find("fedavg")(), task(), federation(3))
    taken, _ = choose(site, Store(first, 3), "auto", None)
    taken.close()
    assert taken.name == name


def test_a_run_says_once_where_stacking_would_be_faster(tmp_path: Path) -> None:
    told: list[str] = []
    run(SMALL.but(out=tmp_path, workers=1, rounds=1), begun=lambda _, who: told.append(who))
    compare(Lineup.of([SMALL.but(out=tmp_path, workers=1, rounds=1)]), begun=lambda _, who: told.append(who))
    run(SMALL.but(out=tmp_path, rounds=1, transport="stacked", name="asked"), begun=lambda _, who: told.append(who))
    assert [text.count(SAID) for text in told] == [1, 1, 0]


class Convolved(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Unflatten(1, (1, FEATURES)), nn.Conv1d(1, 1, 1), nn.Flatten())
        self.head = nn.Linear(FEATURES, CLASSES)


def said(clients: int, net: Task, sizes: list[int] | None = None, **budget: Any) -> str:
    site, server, first = Site.of(find("fedavg")(budget=Budget(**budget)), net, federation(clients, sizes=sizes))
    return faster(site, Store(first, clients), server)


def test_the_advice_follows_from_clients_and_network_alone() -> None:
    assert said(8, task()) == SAID
    assert said(7, task()) == ""  # too few to put side by side
    assert said(8, task(), balance="samples") == ""  # cannot be stacked
    assert said(8, task(), [800, *[2] * 7], batch_size=1) == ""  # seven wait for one
    assert said(8, Task.of(Convolved(), (FEATURES,), CLASSES, seed=0)) == ""
