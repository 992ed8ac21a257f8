"""The contract every method signs."""

from .contract import Method, positive
from .joins import as_in_a_round
from .views import VIEWS, Piece

__all__ = ["VIEWS", "Method", "Piece", "as_in_a_round", "positive"]
