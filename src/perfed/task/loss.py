"""What is minimised unless a method says otherwise."""

from collections.abc import Callable, Mapping
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from ..errors import InputError
from ..local.losses import absolute_each, binary_each, cox_each, cross_entropy_each, huber_each, squared_each
from ..local.shard import Batch

Each = Callable[[Tensor, Tensor], Tensor]  # a row of scores and a label per sample → each sample's loss


def cross_entropy(logits: Tensor, batch: Batch) -> Tensor:
    """Return the mean cross-entropy over the real samples of a batch.

    Args:
        logits: A row per sample.
        batch: Has the labels, and the mask where samples are padded.

    Returns:
        One number.

    Example:
        >>> import torch
        >>> from perfed import Batch, cross_entropy
        >>> batch = Batch(torch.zeros(1, 2), torch.tensor([0]), None, torch.tensor(0))
        >>> cross_entropy(torch.zeros(1, 4), batch)  # log 4
        tensor(1.3863)
    """
    if batch.mask is None:
        return F.cross_entropy(logits, batch.y)
    return batch.mean(cross_entropy_each(logits, batch.y))


LOSSES: Mapping[str, Mapping[str, Each]] = {  # what is learned → its losses by name, the usual one first
    "classification": {"cross_entropy": cross_entropy_each},
    "multilabel": {"binary_cross_entropy": binary_each},
    "regression": {"squared": squared_each, "absolute": absolute_each, "huber": huber_each},
    "survival": {"cox": cox_each},
}


def each_of(goal: str, loss: str = "usual") -> Each:
    """Return the loss of single samples for what is learned, by its name.

    Args:
        goal: ``classification``, ``multilabel``, ``regression`` or ``survival``.
        loss: Its name, or ``usual``.

    Returns:
        A function of scores and labels.

    Raises:
        InputError: If there is no such loss for this goal.
    """
    known = LOSSES[goal]
    if loss == "usual":
        return next(iter(known.values()))
    if loss not in known:
        raise InputError(f"loss={loss} is not for {goal}; there {'is' if len(known) == 1 else 'are'} {', '.join(known)}")
    return known[loss]


def fit(goal: str, loss: str, logits: Tensor, batch: Batch) -> Tensor:
    """Return the mean loss of a batch.

    Args:
        goal: What is learned.
        loss: The name of its loss, or ``usual``.
        logits: A row per sample.
        batch: Has the labels, and the mask where samples are padded.

    Returns:
        One number.
    """
    if goal == "classification":
        return cross_entropy(logits, batch)
    return batch.mean(each(goal, loss, logits, batch.y, batch.mask))


def each(goal: str, loss: str, logits: Tensor, y: Tensor, mask: Tensor | None) -> Tensor:
    """Return each sample's loss; only survival compares samples, and must know which are padding."""
    given: dict[str, Any] = {"mask": mask} if goal == "survival" else {}
    return each_of(goal, loss)(logits, y, **given)
