"""What a server can do: take in answers, average and mix them."""

from .rules import average, average_uniform, broadcast, combine, mean, mix
from .uploads import Uploads

__all__ = ["Uploads", "average", "average_uniform", "broadcast", "combine", "mean", "mix"]
