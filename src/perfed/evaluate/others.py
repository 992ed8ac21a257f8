"""The objects that a summary holds for all metrics but accuracy: the same figures, and those over all clients' samples."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .metrics import MAIN, finite, known
from .scores import Line, Scores, Value
from .summary import MOMENTS, average, choose, over, summarise, tested


def others(seeds: Mapping[int, Sequence[Line]], **options: str) -> dict[str, Any]:
    """Return the objects of all metrics but accuracy that every seed has, by name; options as in ``summarise``.

    Beside the figures of accuracy each moment has ``pooled``, the metric of all clients' samples together, where it can be
    known, and by seed ``undefined``, the number of clients with samples for which there is no value.
    """
    series = options.get("series", "test")
    last = [found[-1][series] for lines in seeds.values() if (found := tested(lines, series))]
    names = [
        name
        for name in (last[-1] if last else ())
        if name not in ("count", "accuracy", *MAIN.values()) and all(name in p for p in last)
    ]
    return {name: _listed(seeds, name, options) if listed(last, name) else _numbers(seeds, name, options) for name in names}


def listed(parts: Sequence[Scores], name: str) -> bool:
    """Return whether a metric's values are lists, such as one number per class."""
    return any(isinstance(value, list) for part in parts for value in part[name])


def pooled(part: Scores, name: str) -> Value:
    """Return a metric of all clients' samples together, or ``None`` where what it needs was not recorded."""
    metric = known(name)
    if metric.per == "sample":
        return finite(average(part, "weighted", name))
    if metric.pooled is None or metric.pooled[0] not in part:
        return None
    source, whole = metric.pooled
    return finite(whole(np.sum(_tables(part, source), axis=0)))


def undefined(part: Scores, name: str) -> int:
    """Return how many clients with samples have no value."""
    return sum(1 for value, count in zip(part[name], part["count"], strict=True) if count and value is None)


def _numbers(seeds: Mapping[int, Sequence[Line]], name: str, options: Mapping[str, str]) -> dict[str, Any]:
    block = summarise(seeds, metric=name, **options)
    series = options.get("series", "test")
    for moment in MOMENTS:
        if block[moment] is None:
            continue
        for seed, line in _lines(seeds, moment, options).items():
            entry = block[moment]["seeds"][str(seed)]
            entry["pooled"] = None if line is None else pooled(line[series], name)
            entry["undefined"] = None if line is None else undefined(line[series], name)
        block[moment]["pooled"] = over([entry["pooled"] for entry in block[moment]["seeds"].values()])
    return block


def _listed(seeds: Mapping[int, Sequence[Line]], name: str, options: Mapping[str, str]) -> dict[str, Any]:
    """Lists have no deviation: by seed that of all samples, or else entry by entry the mean over clients."""
    block: dict[str, Any] = {}
    series = options.get("series", "test")
    for moment in MOMENTS:
        found = {
            str(seed): {"round": line["round"], "pooled": pooled(line[series], name), "mean": _mean(line[series], name)}
            for seed, line in _lines(seeds, moment, options).items()
            if line is not None
        }
        block[moment] = {"seeds": found} if found else None
    return block


def _lines(seeds: Mapping[int, Sequence[Line]], moment: Any, options: Mapping[str, str]) -> dict[int, Line | None]:
    """The line of a moment, by seed; where every client has a best round of its own there is none."""
    if moment == "best" and options.get("best") == "per_client":
        return dict.fromkeys(sorted(seeds))
    rest = {name: options[name] for name in ("report", "series") if name in options}
    by = options.get("choose", "accuracy")
    return {seed: choose(lines, moment, by=by, **rest) for seed, lines in sorted(seeds.items())}


def _mean(part: Scores, name: str) -> Value:
    """Entry by entry the mean over the clients that have it; of sums such as a confusion matrix there is none."""
    if (source := known(name).pooled) is not None and source[0] == name:
        return None
    tables = np.stack(_tables(part, name))
    there = ~np.isnan(tables)
    return finite(np.where(there, tables, 0.0).sum(0) / np.where(there.any(0), there.sum(0), np.nan))


def _tables(part: Scores, name: str) -> list[Any]:
    pairs = zip(part[name], part["count"], strict=True)
    arrays = [np.array(value) for value, count in pairs if count and value is not None]
    return [array.astype(float) if array.dtype == object else array for array in arrays]
