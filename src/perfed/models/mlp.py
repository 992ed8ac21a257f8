"""Perceptrons: GPFL's for Amazon reviews, a small one for anything that can be flattened, and logistic regression."""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

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


class LinearOfCounts(nn.Module):
    """A linear layer for inputs that are mostly zero: the slope of its weight touches only what occurs in a batch.

    Computes what `nn.Linear` computes, in another order of sums. One row of the weight belongs to one input.
    """

    sparse = True  # as an embedding says it

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        self.bias = nn.Parameter(torch.empty(outputs))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw what `nn.Linear` would draw."""
        inputs, outputs = self.weight.shape
        drawn = nn.Linear(inputs, outputs, device=self.weight.device)
        with torch.no_grad():
            self.weight.copy_(drawn.weight.t())
            self.bias.copy_(drawn.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Return the weighted sums of the inputs that are not zero."""
        found = _nonzero(x) if self.training and torch.is_grad_enabled() else None
        if found is None:
            return torch.addmm(self.bias, x, self.weight)
        sample, column = found
        starts = torch.searchsorted(sample, torch.arange(len(x), device=x.device))
        sums = functional.embedding_bag(
            column, self.weight, starts, mode="sum", sparse=True, per_sample_weights=x[sample, column]
        )
        return sums + self.bias


def _nonzero(x: Tensor) -> tuple[Tensor, ...] | None:
    """Return where inputs are not zero; nothing under vmap (single samples' slopes), where no shape may depend on values."""
    try:
        return x.nonzero(as_tuple=True)
    except RuntimeError:
        return None


def amazon_mlp(shape: Sequence[int], classes: int, *, sparse: bool = False) -> Network:
    """Hidden layers of 1000, 500 and 100, for 5000 bag-of-words features; ``sparse`` where most of them are zero."""
    if len(shape) != 1:
        raise InputError(f"amazon_mlp takes features (count,), got inputs of shape {tuple(shape)}; mlp takes any")
    return perceptron(shape[0], [1000, 500, 100], classes, LinearOfCounts if sparse else nn.Linear)


def perceptron(inputs: int, hidden: Sequence[int], classes: int, first: Callable[[int, int], nn.Module] = nn.Linear) -> Network:
    """Return linear layers with ReLU between them; the last is the head."""
    if not hidden or not all(isinstance(width, int) and width > 0 for width in hidden):
        raise InputError(f"hidden must be one positive whole number or a list of them, got {list(hidden)}")
    layers: list[nn.Module] = [nn.Flatten()]
    for before, after in zip([inputs, *hidden[:-1]], hidden, strict=True):
        layers += [(nn.Linear if len(layers) > 1 else first)(before, after), nn.ReLU()]
    return Network(nn.Sequential(*layers), nn.Linear(hidden[-1], classes))
