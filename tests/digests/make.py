"""Two rounds of every method on the embedded digits, as digests: what must not move when code does.

There is a table for every kind of arithmetic that they were made with. ``python tests/digests/make.py`` writes that of this
machine anew, with what tests/conftest.py sets. Do that only for a change that means to move numbers, and say so in the
changelog: the other tables then have to be made anew on their machines.
"""

import json
import platform
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from perfed import keys, machine, models
from perfed.data import load
from perfed.data.inputs import inputs_for
from perfed.federation import Federation
from perfed.local import Budget
from perfed.methods import CATALOGUE, find
from perfed.partition import build, split
from perfed.rounds import Protocol, Span, rounds
from perfed.sampling import Sampling
from perfed.task import Task
from perfed.transport import Pooled, Serial, Site, Store

TABLE = Path(__file__).with_name("table.json")
NETWORKS = {"plain": "mlp", "norm": "cnn_bn"}
OPTIONS: dict[str, dict[str, Any]] = {"lgfedavg": {"warmup": 1}, "fedcac": {"narrowing": 10}, "fedpick": {"teachers": "moving"}}


def cases() -> list[tuple[str, str]]:
    """Return every method with every network that it can be trained on."""
    return [(name, net) for name in sorted(CATALOGUE) for net in NETWORKS if not (name == "fedbn" and net == "plain")]


def here() -> dict[str, str]:
    """Return what decides the last bit besides the code."""
    return {
        "torch": torch.__version__.split("+")[0],
        "machine": platform.machine(),
        "kernels": machine.kernels(),
    }


def digest_of(name: str, network: str, transport: str) -> str:
    """Return the digest after two rounds on five clients, of which one is absent in each."""
    from perfed.runs.states import digest

    samples = load("digits")
    made = split(samples, build("dirichlet", alpha=0.5), 5, 3, 0.1, 0.2)
    federation = Federation.of(samples, made, inputs_for(samples), seed=3)
    method = replace(find(name)(**OPTIONS.get(name, {})), budget=Budget(lr=0.05, batch_size=32))
    example = federation.inputs(federation.x[:2], None)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(keys.seed_of(keys.key(3, "network")))
        net = models.build(NETWORKS[network], shape=tuple(example.shape[1:]), classes=federation.classes)
    task = Task.of(net, tuple(example.shape[1:]), federation.classes, seed=3, example=example)
    site, server, first = Site.of(method, task, federation)
    store = Store(first, len(federation))
    carrier = Serial(site, store) if transport == "serial" else Pooled(site, store, 2)
    try:
        for done in rounds(method, server, carrier, Sampling(ratio=0.8), Protocol(), Span(3, 5, 2)):
            server = done.server
    finally:
        carrier.close()
    return digest(server, store)


if __name__ == "__main__":
    torch.set_num_threads(1)
    found = {f"{name} {net}": digest_of(name, net, "serial") for name, net in cases()}
    others = [table for table in json.loads(TABLE.read_text(encoding="utf-8")) if table["here"] != here()]
    TABLE.write_text(json.dumps([*others, {"here": here(), "digests": found}], indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(f"{len(found)} digests of {here()} in {TABLE}; {len(others)} other tables stay as they were\n")
