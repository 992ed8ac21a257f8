"""Which transport to take: the one that was asked for, or by a rule that never changes a bit of what comes out."""

import sys
from collections.abc import Callable, Sequence
from typing import Any

from torch import nn

from .. import trees
from ..errors import InputError
from ..machine import cores
from ..trees import Tree
from .pooled import Pooled, keep_memory
from .rayed import Rayed
from .serial import Serial, Transport
from .site import Site
from .stacked import Stacked, why_not
from .store import Store

SAME = ("serial", "pooled", "ray")  # to the bit, for any number of workers
_SMALL = 50_000  # weights; above, arithmetic takes the time and stacking saves little of it
_FEW = 8  # clients below which there is little to put side by side
_PADDED = 2.0  # steps computed for each that counts, above which waiting for the largest client eats the gain
# what takes its time in arithmetic, or has no fast form over an axis of clients
_SLOW = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.RNNBase, nn.Embedding, nn.EmbeddingBag, nn.MultiheadAttention)


def choose(
    site: Site, store: Store, name: str, workers: int | None, address: str = "auto", devices: Sequence[str] = ()
) -> tuple[Transport, dict[str, Any]]:
    """Return a transport and why it was taken.

    ``auto`` takes the workers where there are several, else clients one after another. Both come to the same bits, so what is
    chosen depends on the machine and what comes out does not. ``stacked`` rounds differently and is only taken when asked for.
    """
    makers: dict[str, Callable[[Site, Store], Transport]] = {
        "serial": Serial,
        "pooled": lambda site, store: Pooled(site, store, workers, devices=devices),
        "stacked": Stacked,
        "ray": lambda site, store: Rayed(site, store, workers, address),
    }
    keep_memory()
    if name in makers:
        return makers[name](site, store), {"why": "asked for"}
    if name != "auto":
        raise InputError(f"transport must be auto, {', '.join(makers)}, got '{name}'")
    if devices:
        return makers["pooled"](site, store), {"why": f"a process for each of {', '.join(devices)}"}
    alone = _alone(site, workers)
    if alone:
        return Serial(site, store), {"why": f"{alone}; pooled would come to the same bits"}
    return Pooled(site, store, workers), {"why": "a process per core; serial would come to the same bits"}


def _alone(site: Site, workers: int | None) -> str:
    """Return why clients are trained one after another, or nothing."""
    if site.task.device.type != "cpu":
        return "worker processes are for CPUs"
    if sys.platform != "linux":
        return "worker processes are for Linux"
    if len(site.federation) < 2:
        return "there is one client"
    return "" if (workers or cores()) > 1 else "there is one worker"


def faster(site: Site, store: Store, server: Tree) -> str:
    """Return a sentence where `stacked` would save time, by a rule over clients and network; else nothing."""
    if len(site.federation) < _FEW or why_not(site):
        return ""
    differ = "its numbers differ by about 1e-5"
    if site.task.device.type != "cpu":
        return f"transport=stacked may be faster on this device; {differ}"
    parts = (site.task.body, site.task.head, *site.task.parts.values())
    modules = [m for part in parts for m in part.skeleton.training.modules()]
    if any(isinstance(m, _SLOW) for m in modules):
        return ""
    weights = sum(leaf.numel() for leaf in trees.leaves(site.task.params()))
    if weights > _SMALL or Stacked(site, store).padding(server, range(len(site.federation))) > _PADDED:
        return ""
    return f"transport=stacked would be faster here; {differ}"
