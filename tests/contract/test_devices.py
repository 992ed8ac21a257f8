"""No verb of any method mixes devices: run on tensors of another device, a tensor left on the processor is an error."""

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode

from perfed import trees
from perfed.errors import PerfedError
from perfed.methods import CATALOGUE, find
from perfed.methods.fedavg import FedAvg
from perfed.server import Uploads
from perfed.shapes import Shapes
from perfed.testing.play import federation, task
from perfed.transport import Private, Site

ELSEWHERE = "meta"  # has no numbers and is no processor: what torch has of a second device where there is no GPU


class Fetched(TorchFunctionMode):
    """Inside, what is fetched to the processor is there: noughts of the same shape."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.cpu and args[0].is_meta:
            return torch.zeros(args[0].shape, dtype=args[0].dtype)
        if func is torch.Tensor.__setitem__ and isinstance(args[2], torch.Tensor) and args[2].is_meta and not args[0].is_meta:
            return None  # an assignment copies between devices
        return func(*args, **(kwargs or {}))


def site_of(method: Any) -> tuple[Site, Any, Private]:
    """A site whose every tensor is elsewhere."""
    here, fed = task(type(method).needs == "BatchNorm"), federation(3, sizes=[20, 20, 20])
    method.check(here, fed.sizes, 3)
    body, head = (
        replace(p, start=trees.to(p.start, ELSEWHERE), fixed=trees.to(p.fixed, ELSEWHERE)) for p in (here.body, here.head)
    )
    moved = replace(here, body=body, head=head, parts={}, device=torch.device(ELSEWHERE))
    return Site.of(method, moved, fed.to(ELSEWHERE))


def verbs(method: Any) -> set[str]:
    """Run every verb for a round; return the devices of what comes out."""
    with Shapes(), Fetched():
        site, server, first = site_of(method)
        ups, privates = [], []
        for client in range(3):
            up, private, whole = site.train(client, method.send(server, client), first, 1)
            ups.append(up)
            privates.append(private)
            method.after(method.send(server, client), whole)
        server = method.merge(server, Uploads([0, 1, 2], [20, 20, 20], ups))
        down = method.send(server, 1)
        below, mine = site.adapted(1, down, privates[1].mine, 2)
        scores = method.predict(site.task.served, site.withheld.overlay(below, privates[1].kept), mine, site.federation.x[:4])
        site.train(1, down, privates[1], 2)
    found = [*trees.leaves(ups), *trees.leaves(mine), *trees.leaves(down), scores]
    return {leaf.device.type for leaf in found if leaf.dim()}


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_no_verb_leaves_a_tensor_on_the_processor(name: str) -> None:
    assert verbs(find(name)()) == {ELSEWHERE}


@dataclass(frozen=True, kw_only=True)
class Careless(FedAvg):
    """Makes a tensor without saying where."""

    def local(self, task: Any, down: Any, mine: Any, data: Any) -> Any:
        up, mine = super().local(task, down, mine, data)
        return {name: leaf + torch.ones(leaf.shape) for name, leaf in up.items()}, mine


def test_one_that_does_is_noticed() -> None:
    with pytest.raises(PerfedError, match="device"):
        verbs(Careless())
