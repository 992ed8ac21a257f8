"""Columns of a table for runs that were attacked: the honest clients' accuracy, and how often a backdoor opens at them."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..evaluate.attacked import PART, attacked
from .read import Record


def wanted(runs: Sequence[Record]) -> bool:
    """Return whether a run was attacked."""
    return any(line.get("attackers") for run in runs for lines in run.rounds.values() for line in lines[-1:])


def _opened(runs: Sequence[Record]) -> bool:
    return any(line.get(PART) for run in runs for lines in run.rounds.values() for line in lines)


def columns(runs: Sequence[Record]) -> list[dict[str, Any]]:
    """Return the columns as what ``tables.Column`` takes."""
    if not wanted(runs):
        return []
    found = [{"key": "attack.honest", "above": "attacked, last round", "title": "honest clients %", "ranked": True}]
    if _opened(runs):
        found.append({"key": "attack.backdoor", "above": "attacked, last round", "title": "backdoor opens %", "higher": False})
    return found


def values(run: Record, runs: Sequence[Record], options: Mapping[str, str]) -> dict[str, Any]:
    """Return a run's figures with mean and deviation over seeds."""
    return {"attack": attacked(run.rounds, options["report"])} if wanted(runs) else {}


def notes(runs: Sequence[Record]) -> list[str]:
    """Say which attack was simulated, and by how many."""
    found = dict.fromkeys(_note(run) for run in runs)
    return [note for note in found if note]


def _note(run: Record) -> str:
    who = next((line["attackers"] for lines in run.rounds.values() for line in lines[-1:] if line.get("attackers")), None)
    if not who:
        return ""
    asked = run.settings.get("attack") or {}
    name = asked.get("name", "attack") if isinstance(asked, Mapping) else asked
    numbers = ", ".join(map(str, who[:10])) + (", …" if len(who) > 10 else "")
    opens = " The backdoor opens where a marked test sample is taken for the attackers' class." if _opened([run]) else ""
    level = run.settings.get("admission", "bounds")
    said = f"Attacked on purpose ({name}) by {len(who)} clients ({numbers}), with admission={level}"
    return f"{said}; other columns count them too.{opens}"
