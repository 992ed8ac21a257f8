"""What a reader must know of runs that went wrong: uploads that were refused, and losses that ran away."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..evaluate.refusals import refusals
from ..evaluate.summary import RUNAWAY
from .read import Record, labels

SHOWN = 3  # clients that are named one by one


def notes(runs: Sequence[Record]) -> list[str]:
    """Return a sentence for every run in which an upload was refused."""
    said = []
    for run, name in zip(runs, labels(runs), strict=True):
        names = {str(seed): clients.get("names", ()) for seed, clients in run.clients.items()}
        said += sentence(name, refusals(run.rounds), int(run.settings.get("suspend") or 0), names)
    return said


def sentence(
    name: str,
    refused: Mapping[str, Mapping[str, Mapping[str, Any]]],
    suspend: int = 0,
    names: Mapping[str, Sequence[str]] | None = None,
) -> list[str]:
    """Return what to say of a run's refused uploads, by seed and client, or nothing where there were none."""
    said, total = [], 0
    for seed, clients in refused.items():
        called = (names or {}).get(seed, ())
        for client, own in clients.items():
            who = str(called[int(client)]) if int(client) < len(called) else f"client {client}"
            at = f"round {own['round']}" + (f" of seed {seed}" if len(refused) > 1 else "")
            said.append(f"{own['count']} of {who} (first in {at}: {own['why']})")
            total += own["count"]
    if not said:
        return []
    more = f"; and of {len(said) - SHOWN} more" if len(said) > SHOWN else ""
    asked = f" After {suspend} in a row a client is asked no more (suspend={suspend})." if suspend else ""
    what = "upload was" if total == 1 else "uploads were"
    return [f"{name}: {total} {what} refused: {'; '.join(said[:SHOWN])}{more}.{asked}"]


def ran_away(name: str, since: Mapping[Any, int]) -> str:
    """Return what to say of a run that ends with a loss that is of no use, by seed."""
    seeds = ", ".join(f"round {number} (seed {seed})" for seed, number in since.items())
    return (
        f"{name} ran away: its loss or its uploads are no numbers, or its loss is over {RUNAWAY:g} times that of the "
        f"untrained model, since {seeds}. A smaller budget.lr may help."
    )
