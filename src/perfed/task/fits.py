"""What a task makes of scores and labels: the loss that fits its goal."""

from torch import Tensor

from ..local.shard import Batch
from .loss import each, fit


class Fits:
    """How badly scores fit labels, by a task's goal and objective."""

    goal: str
    objective: str

    def fit(self, logits: Tensor, batch: Batch) -> Tensor:
        """Return how badly scores fit the labels of a batch: the mean cross-entropy, or what fits another goal.

        Args:
            logits: A row of scores per sample.
            batch: Has the labels, and the mask where samples are padded.

        Returns:
            One number.

        Example:
            >>> import torch
            >>> from perfed import Batch
            >>> from perfed.testing import task
            >>> batch = Batch(torch.zeros(1, 2), torch.tensor([0]), None, torch.tensor(0))
            >>> task().fit(torch.zeros(1, 4), batch)  # log 4
            tensor(1.3863)
        """
        return fit(self.goal, self.objective, logits, batch)

    def fit_each(self, logits: Tensor, y: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return how badly scores fit each label.

        Args:
            logits: A row of scores per sample.
            y: The labels.
            mask: 0 for padding, which survival must not compare with others; None where nothing is padded.

        Returns:
            One number per sample.

        Example:
            >>> import torch
            >>> from perfed.testing import task
            >>> task().fit_each(torch.zeros(2, 4), torch.tensor([0, 1]))
            tensor([1.3863, 1.3863])
        """
        return each(self.goal, self.objective, logits, y, mask)
