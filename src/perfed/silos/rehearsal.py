"""A silo's own check before it takes part: load the data, try one round, and say what would leave the house."""

import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from .. import __version__, trees
from ..data.columns import agreed
from ..errors import InputError
from ..runs.experiment import Experiment
from ..transport import one_thread
from ..wire import encode
from .assignment import assign, column_sums
from .config import SiloConfig
from .messages import Ask
from .policy import SitePolicy, passes, steps
from .silo import Silo
from .states import States


def question(settings: Experiment, config: SiloConfig, clients: int) -> Ask:
    """Return what a server would ask first for an experiment."""
    return Ask(
        verb="hello",
        experiment="0" * 32,
        client=config.client,
        clients=clients,
        seed=settings.seeds[0],
        settings=settings.plain(),
        version=__version__,
    )


def last_asked(config: SiloConfig) -> Ask:
    """Return the last request that the server made here."""
    there = Silo(config).experiments()
    if not there:
        raise InputError("the server has asked nothing here yet; name the experiment's YAML file to check against it")
    return Silo(config).served(there[-1])


def rehearse(config: SiloConfig, ask: Ask) -> dict[str, Any]:
    """Train one round of an experiment on this silo's data and forget it; return what was found and what would leave."""
    policy = SitePolicy.load(config.policy)
    with tempfile.TemporaryDirectory() as place, one_thread(), (states := States(Path(place), ask.experiment)).locked():
        ask = replace(ask, seeded=False)
        if ask.columns is None and (alone := column_sums(config, ask, policy)) is not None:
            ask = replace(ask, columns=agreed([alone]).as_json())  # as if this silo were the only one
        job = assign(config, ask, policy, states)
        method, own = job.site.method, job.site.federation
        began = time.perf_counter()
        up, _, _ = job.site.train(0, method.send(job.server, 0), job.first, 1)
        took = time.perf_counter() - began
    shown = {name: value for name, value in job.facts.items() if name not in ("labels", "majority")}
    return {
        "client": config.client,
        "facts": shown,
        "passes": passes(method),
        "steps": steps(method, len(own.train[0])),
        "parameters": sum(leaf.numel() for leaf in job.site.task.params().values()),
        "seconds": round(took, 3),
        "leaves": {
            "facts": sorted(shown),
            "update": [name for name, _ in trees.named(up)],
            "bytes": len(encode(up, job.site.withheld)),
            "scores": list(policy.scores) if isinstance(policy.scores, tuple) else policy.scores,
            "labels": policy.labels,
            "sums": policy.sums,
        },
    }
