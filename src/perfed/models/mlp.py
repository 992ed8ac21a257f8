"""Perceptrons: GPFL's for Amazon reviews, a small one for anything that can be flattened, and logistic regression."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ..errors import InputError
from .network import Network


def mlp(shape: Sequence[int], classes: int, *, hidden: int | Sequence[int] = 64) -> Network:
    """Flattened inputs, one hidden layer or several with ReLU, and a linear head."""
    return perceptron(math.prod(shape), [hidden] if isinstance(hidden, int) else list(hidden), classes)


class AgainstZero(nn.Module):
    """One score as those of two classes: the first has always zero, so that softmax is the sigmoid of the second."""

    def forward(self, z: Tensor) -> Tensor:
        """Return N×2 scores of N×1."""
        return torch.cat([torch.zeros_like(z), z], dim=1)


def logistic(shape: Sequence[int], classes: int, *, paired: bool = True) -> Network:
    """Logistic regression: one linear layer, with a single score where there are two classes."""
    inputs = math.prod(shape)
    head = nn.Sequential(nn.Linear(inputs, 1), AgainstZero()) if classes == 2 and paired else nn.Linear(inputs, classes)
    return Network(nn.Flatten(), head)


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
