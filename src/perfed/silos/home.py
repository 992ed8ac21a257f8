"""What a model says that is taken home from a silo: how its data is read, and after which message it is."""

from collections.abc import Mapping
from typing import Any

from ..results.home import TESTED, reading, scored_on, tabled
from .assignment import Assignment, built
from .config import SiloConfig
from .messages import Ask


def silo_origin(config: SiloConfig, job: Assignment, ask: Ask, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is noted in the file and on the card of a silo's model."""
    settings = built(ask.settings)
    source = config.data[settings.data.name]
    return {
        "run": ask.experiment,
        "seed": ask.seed,
        "rounds": settings.rounds,
        "data": {"clients": ask.clients},
        "samples": TESTED[scored_on(job.site.federation, 0)],
        "chosen": "It is the model after the server's last message; no score chose it.",
        **reading(source.source),
        **tabled(source.source, facts),
    }
