"""fastText: the mean of word vectors, then two linear layers (FedCP, GPFL)."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from ..errors import InputError
from .network import Network


class MeanOfWords(nn.Module):
    """The mean word vector over all positions, padding included, and a linear layer."""

    def __init__(self, words: int, features: int, sparse: bool) -> None:
        super().__init__()
        # Sparse gradients touch the words of the batch alone, not the whole vocabulary.
        self.embedding = nn.Embedding(words, features, padding_idx=0, sparse=sparse)
        self.linear = nn.Linear(features, features)

    def forward(self, x: Tensor) -> Tensor:
        """Return the features of token sequences; index 0 is padding, a vector of zeros."""
        found: Tensor = self.linear(self.embedding(x.long()).mean(dim=1))
        return found


def fasttext(shape: Sequence[int], classes: int, vocabulary: Any = None, *, features: int = 32, sparse: bool = True) -> Network:
    """Word vectors, mean, linear layer; the head is a linear layer too."""
    if len(shape) != 1:
        raise InputError(f"fasttext takes sequences of tokens (length,), got inputs of shape {tuple(shape)}")
    if vocabulary is None:
        raise InputError("fasttext needs the size of the vocabulary, which comes with data of kind tokens")
    words = vocabulary if isinstance(vocabulary, int) else len(vocabulary)
    return Network(MeanOfWords(words, features, sparse), nn.Linear(features, classes))
