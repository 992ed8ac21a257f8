"""Whether scores from outside can be what they say they are."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from .metrics import Metric

LARGEST = 1e12  # of a loss or an error; a model of no use has less
_WHOLE = 1e-5  # how far a share of samples may be off a whole number of them: records keep some decimals


def implausible(score: Mapping[str, Any], metrics: Sequence[Metric]) -> str:
    """Return why a score cannot be right, or nothing.

    Args:
        score: a count, and values by name, as a message has them.
        metrics: what was asked for.
    """
    known = {metric.name: metric for metric in metrics}
    for name, value in score.items():
        if name == "count" or value is None:
            continue
        if name not in known:
            return f"it scores '{name[:60]}', which nobody asked for"
        if known[name].listed != isinstance(value, list):
            return f"its {name} is {'no list' if known[name].listed else 'a list'}"
        if not isinstance(value, list) and (why := _beyond(known[name], float(value), int(score["count"]))):
            return why
    return ""


def _beyond(metric: Metric, value: float, count: int) -> str:
    if not math.isfinite(value) or abs(value) > LARGEST:
        return f"its {metric.name} is {value:.3g}, which no model has"
    if metric.name == "r2" and value > 1:
        return f"its r2 is {value:.3g}, no model explains more than all"
    if metric.unit == "%" and metric.name != "r2" and not 0 <= value <= 1:
        return f"its {metric.name} is {value:.3g}, a share lies between 0 and 1"
    if metric.name in ("brier", "mae", "rmse") and value < 0:
        return f"its {metric.name} is {value:.3g}, an error is not negative"
    if metric.whole and abs(value * count - round(value * count)) > _WHOLE * max(1, count):
        return f"its {metric.name} of {value:.6g} is no whole number of {count} samples"
    return ""
