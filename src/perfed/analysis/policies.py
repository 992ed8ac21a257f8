"""How FedCP's policies divide features between the personal and the global head (FedCP, Figure 5)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import InputError

QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)


@dataclass(frozen=True)
class Policy:
    """The personal policy s of one client over all its samples and features."""

    pir: float
    quantiles: tuple[float, ...]  # of all elements of s, at QUANTILES
    samples: tuple[float, ...]  # quantiles of the means per sample
    histogram: tuple[float, ...]  # share of elements in equal bins of [0, 1]


@dataclass(frozen=True)
class Course:
    """PIR per recorded round and client; the share of the global head is 1 − PIR."""

    rounds: tuple[int, ...]
    pir: tuple[tuple[float, ...], ...]
    mean: tuple[float, ...]


def pir(s: Tensor) -> float:
    """Return the personalisation identification ratio: s averaged over samples, then over features."""
    return float(_checked(s).mean(0).mean())


def policy(s: Tensor, bins: int = 50) -> Policy:
    """Describe the personal policies s (samples × features) of one client."""
    rows = _checked(s)
    levels = torch.tensor(QUANTILES, dtype=torch.float64)
    counted = torch.histc(rows, bins=bins, min=0.0, max=1.0) / rows.numel()
    return Policy(
        pir=pir(rows),
        quantiles=_quantiles(rows.flatten(), levels),
        samples=_quantiles(rows.mean(1), levels),
        histogram=tuple(counted.tolist()),
    )


def course(recorded: Mapping[int, Sequence[Tensor]]) -> Course:
    """Follow PIR over rounds: ``recorded`` maps a round to the policies s of every client."""
    if not recorded:
        raise InputError("no policies were recorded, so PIR has no course")
    rounds = tuple(sorted(recorded))
    ratios = tuple(tuple(pir(s) for s in recorded[number]) for number in rounds)
    return Course(rounds, ratios, tuple(sum(row) / len(row) for row in ratios))


def _quantiles(values: Tensor, levels: Tensor) -> tuple[float, ...]:
    # torch.quantile refuses more than 2**24 values; a sorted pick has no such limit
    ordered = values.sort().values
    place = levels * (len(ordered) - 1)
    low, high = ordered[place.floor().long()], ordered[place.ceil().long()]
    return tuple((low + (high - low) * (place - place.floor())).tolist())


def _checked(s: Tensor) -> Tensor:
    rows = s.double()
    if rows.ndim != 2 or not rows.numel():
        raise InputError(f"policies must be samples × features, got shape {tuple(s.shape)}")
    if float(rows.min()) < 0 or float(rows.max()) > 1:
        raise InputError(f"policies must lie in [0, 1], got {float(rows.min()):.3g} to {float(rows.max()):.3g}")
    return rows
