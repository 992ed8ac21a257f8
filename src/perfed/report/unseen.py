"""Columns of a table for clients that were kept out of training: how they do once they have joined, and the difference."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..evaluate.newcomers import last, newcomers
from .main_score import MainScore
from .read import Record


def wanted(runs: Sequence[Record]) -> bool:
    """Return whether a run has tested clients that it kept out of training."""
    return any(last(lines) is not None for run in runs for lines in run.rounds.values())


def columns(runs: Sequence[Record]) -> list[dict[str, Any]]:
    """Return the columns as what ``tables.Column`` takes."""
    if not wanted(runs):
        return []
    above = "newcomers, last round"
    before = MainScore.of(runs).before
    titles = {"accuracy": f"{before}unseen %", "seen": "seen %", "gap": "unseen − seen", "std": "std over unseen"}
    return [{"key": f"unseen.{key}", "above": above, "title": text, "ranked": key == "accuracy"} for key, text in titles.items()]


def values(run: Record, runs: Sequence[Record], options: Mapping[str, str]) -> dict[str, Any]:
    """Return a run's figures with mean and deviation over seeds."""
    return {"unseen": newcomers(run.rounds, options["report"])} if wanted(runs) else {}


def notes(runs: Sequence[Record]) -> list[str]:
    """Say who the unseen are and what they did."""
    if not wanted(runs):
        return []
    counts = [len(who.get("unseen", {}).get("names", ())) for run in runs for who in run.clients.values()]
    epochs = {(run.settings.get("join") or {}).get("epochs", 10) for run in runs}
    passes = " or ".join(map(str, sorted(epochs)))
    return [
        f"Unseen: {max(counts)} clients that never trained; each then joins, fits its own parts in {passes} passes over its "
        "training samples, and is tested. The seen are those who trained, in the same round."
    ]
