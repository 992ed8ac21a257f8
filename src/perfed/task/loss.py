"""What is minimised unless a method says otherwise."""

import torch.nn.functional as F
from torch import Tensor

from ..local.losses import cross_entropy_each
from ..local.shard import Batch


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
