"""The contract every method signs."""

from .contract import Method, positive
from .views import VIEWS, Piece

__all__ = ["VIEWS", "Method", "Piece", "positive"]
