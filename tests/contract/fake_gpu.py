"""`python fake_gpu.py`: run every method's verbs over fake tensors of a fake GPU, and write what became of each.

Torch's FakeTensorMode raises where devices are mixed. A build without CUDA cannot take gradients of fake CUDA tensors, but it can
of a backend that is written in Python, which torch keeps for tests.
"""

import json
import os
import sys
from dataclasses import dataclass
from typing import Any

import torch
from every_verb import made
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from perfed.methods import CATALOGUE, find
from perfed.methods.fedavg import FedAvg
from perfed.shapes import ANSWERS
from perfed.testing.play import federation, task
from perfed.transport import Site

GPU = "fakegpu:0"
MADE = (torch.tensor, torch.as_tensor)


class Answers(TorchFunctionMode):
    """Inside, fake tensors answer questions for a value with nought, and what is made elsewhere is made here and sent."""

    def __init__(self, mode: FakeTensorMode) -> None:
        super().__init__()
        self.mode = mode

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, first, name = dict(kwargs or {}), args[0] if args else None, getattr(func, "__name__", "")
        if isinstance(first, FakeTensor) and first.constant is None and name != "cpu" and name in ANSWERS:
            return ANSWERS[name](first)
        if isinstance(first, FakeTensor) and func is Tensor.__getitem__ and _chooses(args[1]):
            return first.flatten(0, args[1].dim() - 1)  # every entry is chosen
        if func in MADE and not isinstance(first, Tensor) and kwargs.get("device") is not None:
            where = kwargs.pop("device")
            return _fake(self.mode, func(*args, **kwargs)).to(where)
        if func is Tensor.to:
            return func(_fake(self.mode, first), *args[1:], **kwargs)
        return func(*args, **kwargs)


def _chooses(index: Any) -> bool:
    return isinstance(index, Tensor) and index.dtype is torch.bool


def verbs(method: Any) -> list[str]:
    """Return the devices of what a method's verbs make."""
    here, fed = task(type(method).needs == "BatchNorm"), federation(3, sizes=[20] * 3)
    own, server, first = Site.of(method, here, fed)
    own.train(0, method.send(server, 0), first, 1)  # what the method inserts is made
    new = federation(1, sizes=[20])
    with FakeTensorMode(allow_non_fake_inputs=True) as mode, Answers(mode):
        found = made(method, *Site.of(method, here.to(GPU), fed.to(GPU)), new.to(GPU))
    return sorted({str(leaf.device) for leaf in found if leaf.dim()})


def _fake(mode: FakeTensorMode, leaf: Tensor) -> FakeTensor:
    """Return a tensor as a fake that knows nothing of its value, for torch would send what it knows."""
    found = leaf if isinstance(leaf, FakeTensor) else mode.from_tensor(leaf)
    found.constant = None
    return found


@dataclass(frozen=True, kw_only=True)
class Careless(FedAvg):
    """Makes a tensor without saying where."""

    def local(self, task: Any, down: Any, mine: Any, data: Any) -> Any:
        up, mine = super().local(task, down, mine, data)
        return {name: leaf + torch.ones(leaf.shape) for name, leaf in up.items()}, mine


def tried(method: Any) -> Any:
    """Return the devices, or what went wrong."""
    try:
        return verbs(method)
    except Exception as wrong:
        return f"{type(wrong).__name__}: {wrong}"


if __name__ == "__main__":
    _setup_privateuseone_for_python_backend("fakegpu")
    found = {"careless": tried(Careless())} | {name: tried(find(name)()) for name in CATALOGUE}
    sys.stdout.write(json.dumps(found))
    sys.stdout.flush()
    os._exit(0)  # torch's threads of such a backend now and then abort the end of a process
