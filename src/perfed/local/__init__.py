"""What a client can do: visit its samples, follow a loss downhill, compare features."""

from .budget import Budget
from .descend import descend, holding
from .shard import Batch, Inputs, Shard

__all__ = ["Batch", "Budget", "Inputs", "Shard", "descend", "holding"]
