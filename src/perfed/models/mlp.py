"""Perceptrons: GPFL's for Amazon reviews, and a small one for anything that can be flattened."""

import math
from collections.abc import Sequence

from torch import nn

from ..errors import InputError
from .network import Network


def mlp(shape: Sequence[int], classes: int, *, hidden: int | Sequence[int] = 64) -> Network:
    """Flattened inputs, one hidden layer or several with ReLU, and a linear head."""
    return perceptron(math.prod(shape), [hidden] if isinstance(hidden, int) else list(hidden), classes)


def amazon_mlp(shape: Sequence[int], classes: int) -> Network:
    """Hidden layers of 1000, 500 and 100, for 5000 bag-of-words features."""
    if len(shape) != 1:
        raise InputError(f"amazon_mlp takes features (count,), got inputs of shape {tuple(shape)}; mlp takes any")
    return perceptron(shape[0], [1000, 500, 100], classes)


def perceptron(inputs: int, hidden: Sequence[int], classes: int) -> Network:
    """Return linear layers with ReLU between them; the last is the head."""
    if not hidden or not all(isinstance(width, int) and width > 0 for width in hidden):
        raise InputError(f"hidden must be one positive whole number or a list of them, got {list(hidden)}")
    layers: list[nn.Module] = [nn.Flatten()]
    for before, after in zip([inputs, *hidden[:-1]], hidden, strict=True):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return Network(nn.Sequential(*layers), nn.Linear(hidden[-1], classes))
