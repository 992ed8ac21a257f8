"""No verb of any method mixes devices, and no step moves tensors between them.

Tried on torch's device without numbers, where a tensor left on the processor is an error as it would be on a GPU, and on fake
tensors of a fake GPU.
"""

import json
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from every_verb import made
from torch import Tensor
from torch.overrides import TorchFunctionMode

from perfed import trees
from perfed.errors import MethodError, PerfedError
from perfed.local import Budget
from perfed.methods import CATALOGUE, find
from perfed.methods.fedavg import FedAvg
from perfed.shapes import ANSWERS, Shapes
from perfed.testing.play import federation, task
from perfed.transport import Private, Site

ELSEWHERE = "meta"  # has no numbers and is no processor: what torch has of a second device where there is no GPU
MADE = (torch.tensor, torch.as_tensor, torch.asarray, torch.from_numpy)


class Fetched(TorchFunctionMode):
    """Inside, what is fetched to the processor is there: noughts of the same shape."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is Tensor.cpu and args[0].is_meta:
            return torch.zeros(args[0].shape, dtype=args[0].dtype)
        if func is Tensor.__setitem__ and isinstance(args[2], Tensor) and args[2].is_meta and not args[0].is_meta:
            return None  # an assignment copies between devices
        return func(*args, **(kwargs or {}))


class Moves(TorchFunctionMode):
    """Counts what is sent to the other device and what is fetched from there."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found, name = func(*args, **(kwargs or {})), getattr(func, "__name__", "")
        there = any(isinstance(given, Tensor) and given.is_meta for given in args)
        index = args[1] if func is Tensor.__getitem__ and there else None
        if isinstance(index, Tensor) and index.dim() and not index.is_meta:
            self.seen.append("index")
        if there and name in (*ANSWERS, "numpy", "nonzero"):
            self.seen.append(name)
        elif isinstance(found, Tensor) and (func in MADE or func is Tensor.to or func is Tensor.copy_):
            here = any(isinstance(given, Tensor) and not given.is_meta for given in args) or not there
            if found.is_meta == here:
                self.seen.append(name)
        return found


def site_of(method: Any, size: int = 20) -> tuple[Site, Any, Private]:
    """A site whose every tensor is elsewhere."""
    here, fed = task(type(method).needs == "BatchNorm"), federation(3, sizes=[size] * 3)
    method.check(here, fed.sizes, 3)
    return Site.of(method, here.to(ELSEWHERE), fed.to(ELSEWHERE))


def verbs(method: Any) -> set[str]:
    """Run every verb for a round; return the devices of what comes out."""
    with Shapes(), Fetched():
        found = made(method, *site_of(method), federation(1, sizes=[20]).to(ELSEWHERE))
    return {leaf.device.type for leaf in found if leaf.dim()}


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_no_verb_leaves_a_tensor_on_the_processor(name: str) -> None:
    assert verbs(find(name)()) == {ELSEWHERE}


def test_fake_tensors_of_a_gpu_are_never_mixed_with_others() -> None:
    """In a process of its own, which has the fake GPU for good."""
    command = [sys.executable, str(Path(__file__).with_name("fake_gpu.py"))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    faked = json.loads(done.stdout.splitlines()[-1])
    assert {name: faked[name] for name in CATALOGUE} == dict.fromkeys(CATALOGUE, ["fakegpu:0"])
    assert "FakeTensorDeviceMismatchError" in faked["careless"]


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_a_noised_answer_stays_where_it_was_made(name: str) -> None:
    method = find(name)()
    with Shapes(), Fetched():
        site, server, first = site_of(method)
        down = method.send(server, 0)
        try:
            still = method.unmoved(site.task, down)
        except MethodError as why:
            pytest.skip(str(why))
        found = method.derived(site.task, down, still, site.shard(0, 1))
    assert {leaf.device.type for leaf in trees.leaves((still, found)) if leaf.dim()} <= {ELSEWHERE}


def moves(method: Any) -> list[str]:
    """What is moved between devices while a client trains."""
    with Shapes(), Fetched(), Moves() as moved:
        site, server, first = site_of(method, 60)
        down = method.send(server, 0)
        moved.seen.clear()
        site.train(0, down, first, 1)
    return sorted(moved.seen)


@pytest.mark.parametrize(
    "optimizer", [{}, {"optimizer": "adam", "weight_decay": 0.01}, {"momentum": 0.9}], ids=["sgd", "adam", "momentum"]
)
@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_more_steps_move_no_more_between_devices(name: str, optimizer: dict[str, Any]) -> None:
    try:
        few, many = (replace(find(name)(), budget=Budget(batch_size=size, **optimizer)) for size in (20, 10))
    except MethodError as why:
        pytest.skip(str(why))
    assert moves(many) == moves(few)


@dataclass(frozen=True, kw_only=True)
class Careless(FedAvg):
    """Makes a tensor without saying where."""

    def local(self, task: Any, down: Any, mine: Any, data: Any) -> Any:
        up, mine = super().local(task, down, mine, data)
        return {name: leaf + torch.ones(leaf.shape) for name, leaf in up.items()}, mine


@dataclass(frozen=True, kw_only=True)
class Restless(FedAvg):
    """Looks at a number in each step, and sends one."""

    def local(self, task: Any, down: Any, mine: Any, data: Any) -> Any:
        for batch in data.epochs(1):
            float(batch.x.sum()) + torch.ones(()).to(batch.x.device)
        return super().local(task, down, mine, data)


def test_those_that_do_are_noticed() -> None:
    with pytest.raises(PerfedError, match="device"):
        verbs(Careless())
    few, many = (moves(Restless(budget=Budget(batch_size=size))) for size in (20, 10))
    assert [many.count(what) - few.count(what) for what in ("__float__", "to")] == [3, 3]
