"""What a server can do: take in answers, average and mix them."""

from .rules import RULES, average, averaged, broadcast, combine, mean, mix, rule_of
from .uploads import Uploads, in_turn

__all__ = ["RULES", "Uploads", "average", "averaged", "broadcast", "combine", "in_turn", "mean", "mix", "rule_of"]
