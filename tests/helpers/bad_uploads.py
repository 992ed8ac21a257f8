"""Uploads that an honest client never sends: what a broken or malicious one might."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from perfed import keys, trees


def floats(change: Callable[[Tensor], Any]) -> Callable[[Any, Any], Any]:
    """Return a change of every leaf that holds numbers."""
    return lambda up, down: trees.map(lambda leaf: change(leaf) if leaf.is_floating_point() else leaf, up)


def _first(up: Any, change: Callable[[dict[str, Tensor]], dict[str, Tensor]]) -> Any:
    """Return an upload whose first dict of leaves is changed."""
    if isinstance(up, dict):
        return change(up)
    place = next(i for i, branch in enumerate(up) if isinstance(branch, dict) and branch)
    branches = [change(branch) if i == place else branch for i, branch in enumerate(up)]
    return type(up)(*branches) if hasattr(up, "_fields") else tuple(branches)


def _one(up: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """Return an upload whose first leaf is changed."""
    return _first(up, lambda own: own | {next(iter(own)): change(next(iter(own.values())))})


def moved(up: Any, down: Any, times: float) -> Any:
    """Return an upload whose update is so many times as long; minus one turns it round."""
    sent = {path.rpartition("/")[2]: leaf for path, leaf in trees.named(down)}
    exact = dict(trees.named(down))

    def change(path: str, leaf: Tensor) -> Tensor:
        base = exact.get(path, sent.get(path.rpartition("/")[2]))
        if not leaf.is_floating_point():
            return leaf
        return times * leaf if base is None or base.shape != leaf.shape else base + times * (leaf - base)

    return trees.rebuild(up, [change(path, leaf) for path, leaf in trees.named(up)])


def _noise(leaf: Tensor) -> Tensor:
    return keys.normal(keys.key(7, leaf.numel()), tuple(leaf.shape)).to(leaf.dtype)


def _some(value: float) -> Callable[[Tensor], Tensor]:
    return lambda leaf: torch.cat([torch.tensor([value]), leaf.reshape(-1)[1:]]).reshape(leaf.shape)


Change = Callable[[Any, Any], Any]  # the honest upload, what was sent → what comes instead

STRUCTURE: dict[str, Change] = {
    "not a number": floats(lambda x: torch.full_like(x, torch.nan)),
    "infinite": floats(lambda x: torch.full_like(x, torch.inf)),
    "minus infinity": floats(lambda x: torch.full_like(x, -torch.inf)),
    "one value that is no number": lambda up, down: _one(up, _some(float("nan"))),
    "one infinite value": lambda up, down: _one(up, _some(float("inf"))),
    "one more dimension": floats(lambda x: x[None]),
    "a shape that would broadcast": floats(lambda x: x.new_zeros(())),
    "another shape": lambda up, down: _one(up, lambda x: x.reshape(-1)[:-1]),
    "double precision": floats(lambda x: x.double()),
    "complex numbers": floats(lambda x: x.to(torch.complex64)),
    "whole numbers": floats(lambda x: x.long()),
    "half precision": floats(lambda x: x.half()),
    "a name less": lambda up, down: _first(up, lambda own: dict(list(own.items())[1:])),
    "a name more": lambda up, down: _first(up, lambda own: own | {"more": torch.zeros(3)}),
    "another name": lambda up, down: _first(up, lambda own: {f"{k}x": v for k, v in own.items()}),
    "five megabytes more": lambda up, down: _first(up, lambda own: own | {"more": torch.zeros(5 << 18)}),
    "nothing": lambda up, down: {},
    "no tree": lambda up, down: "hello",
    "none": lambda up, down: None,
    "a list of numbers": lambda up, down: [1.0, 2.0],
}
VALUES: dict[str, Change] = {
    "weights times a thousand": floats(lambda x: 1e3 * x),
    "weights times 10^30": floats(lambda x: 1e30 * x),
    "update times a thousand": lambda up, down: moved(up, down, 1e3),
    "weights times 10^37": floats(lambda x: 1e37 * x),
    "weights turned round": floats(lambda x: -x),
    "zeros": floats(torch.zeros_like),
    "a constant": floats(lambda x: torch.full_like(x, 0.5)),
    "noise": floats(_noise),
}
DIRECTION: dict[str, Change] = {"update turned round": lambda up, down: moved(up, down, -1.0)}
COUNTS = {"10^12 samples": 10**12, "no samples": 0, "less than no samples": -5, "one sample more": None}
