"""What each classifier of a model scores alone and what they score together (DualFed, Figure 3)."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from ..errors import InputError


@dataclass(frozen=True)
class Alone:
    """Accuracy of every classifier alone, and of their summed logits."""

    alone: dict[str, float]
    combined: float


def alone_and_combined(logits: Mapping[str, Tensor], labels: Tensor) -> Alone:
    """Score each classifier's logits and their sum, which is what DualFed and FedPick serve."""
    if not logits or not len(labels):
        raise InputError("alone_and_combined needs at least one classifier and one sample")
    alone = {name: _accuracy(values, labels) for name, values in logits.items()}
    first, *others = logits.values()
    for values in others:
        first = first + values
    return Alone(alone, _accuracy(first, labels))


def _accuracy(logits: Tensor, labels: Tensor) -> float:
    return (logits.argmax(1) == labels).double().mean().item()
