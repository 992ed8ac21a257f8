"""Every client's AUC with its 95 % interval, method by method, where a run measured both."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..evaluate.summary import Moment, choose
from .read import Record, labels

MISSING = "–"


def rows(runs: Sequence[Record], moment: Moment, options: Mapping[str, str]) -> list[list[str]]:
    """Return a table of the first seed, a row per client and a column per run; nothing where no run measured intervals."""
    seed = next(iter(runs[0].clients))
    series = options.get("series", "test")
    rest = {"report": options.get("report", "weighted"), "series": series, "by": options.get("choose", "accuracy")}
    lines = [choose(run.rounds.get(seed, []), moment, **rest) for run in runs]
    parts: list[Mapping[str, Any]] = [{} if line is None else line[series] for line in lines]
    if not any("auc" in part and "auc_interval" in part for part in parts):
        return []
    names = runs[0].clients[seed]["names"]
    found = [["Client", "test samples", *labels(runs)]]
    for place, name in enumerate(names):
        counts = [part["count"][place] for part in parts if part and place < len(part["count"])]
        found.append([name, str(counts[0]) if counts else MISSING, *(_said(part, place) for part in parts)])
    return found


def _said(part: Mapping[str, Any], place: int) -> str:
    """Return ``83 [74, 90]``, in per cent; a client with one class has neither."""
    if "auc" not in part or "auc_interval" not in part or place >= len(part["auc"]) or part["auc"][place] is None:
        return MISSING
    ends = part["auc_interval"][place]
    if not ends or any(end is None for end in ends):
        return f"{100 * part['auc'][place]:.0f}"
    return f"{100 * part['auc'][place]:.0f} [{100 * ends[0]:.0f}, {100 * ends[1]:.0f}]"
