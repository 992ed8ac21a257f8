"""What a server can do: take in answers, average and mix them."""

from .rules import average, average_uniform, broadcast, combine, mean, mix
from .uploads import Uploads, in_turn

__all__ = ["Uploads", "average", "average_uniform", "broadcast", "combine", "in_turn", "mean", "mix"]
