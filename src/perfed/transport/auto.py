"""Which transport to take: the one that was asked for, or the one that a few measured steps show to be fastest."""

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from time import perf_counter
from typing import Any

from ..errors import InputError
from .pooled import Pooled, keep_memory
from .serial import Serial, Transport
from .site import Site
from .stacked import Stacked, why_not
from .store import Store

_STEPS = 3  # batches per client in a trial
_PATIENCE = 4.0  # seconds for one client's trial beyond which only the cores decide


def choose(site: Site, store: Store, name: str, workers: int | None) -> tuple[Transport, dict[str, Any]]:
    """Return a transport and why it was taken."""
    makers: dict[str, Callable[[Site, Store], Transport]] = {
        "serial": Serial,
        "pooled": lambda site, store: Pooled(site, store, workers),
        "stacked": Stacked,
    }
    keep_memory()
    if name in makers:
        return makers[name](site, store), {"why": "asked for"}
    if name != "auto":
        raise InputError(f"transport must be auto, {', '.join(makers)}, got '{name}'")
    cores = min(workers or os.cpu_count() or 1, len(site.federation))
    if cores < 2 or site.task.device.type != "cpu" or sys.platform != "linux":
        del makers["pooled"]
    refused = why_not(site)
    if refused:
        del makers["stacked"]
    if len(makers) == 1:
        return Serial(site, store), {"why": f"the only one here ({refused or 'one core'})"}
    seconds = _measure(site, store, makers)
    best = min(seconds, key=lambda n: seconds[n])
    why = {"why": "fastest of a few measured steps", "seconds": {n: round(s, 4) for n, s in seconds.items()}}
    return makers[best](site, store), why | ({"not stacked": refused} if refused else {})


def _measure(site: Site, store: Store, makers: dict[str, Callable[[Site, Store], Transport]]) -> dict[str, float]:
    """Return seconds that each candidate takes for a few steps of some clients, padding of unequal ones included."""
    fed, batch = site.federation, site.method.budget.batch_size
    order = sorted(range(len(fed)), key=lambda i: -fed.sizes[i])
    some = sorted(order[: min(len(order), 16)])
    short = replace(site, federation=replace(fed, train=tuple(rows[: _STEPS * batch] for rows in fed.train)))
    server, mine = site.method.init(site.task, len(fed))
    seconds: dict[str, float] = {}
    for name, make in makers.items():
        if name == "stacked" and seconds and min(seconds.values()) / len(some) > _PATIENCE:
            continue
        transport = make(short, Store(store.first, len(fed)))
        try:
            _trial(transport, server, some[:1] if name == "serial" else some)  # warm
            began = perf_counter()
            _trial(transport, server, some)
            seconds[name] = perf_counter() - began
            if name == "stacked":  # the trial's clients take equally many steps; in a round the small wait for the large
                seconds[name] *= Stacked(site, Store(store.first, len(fed))).padding(server, range(len(fed)))
        finally:
            transport.close()
    return seconds


def _trial(transport: Transport, server: Any, ids: list[int]) -> None:
    transport.train(server, ids, 1, set(), False).drain()
    transport.score(server, ids, 1, ("test",))
