"""What a run or a comparison came to, as values to look at."""

from .comparison import Comparison, conclude
from .run import Run
from .table import frame_of

__all__ = ["Comparison", "Run", "conclude", "frame_of"]
