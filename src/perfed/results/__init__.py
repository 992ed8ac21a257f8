"""What a run, a comparison or a race came to, as values to look at."""

from .comparison import Comparison, conclude
from .race import Race, conclude_race
from .run import Run
from .table import frame_of

__all__ = ["Comparison", "Race", "Run", "conclude", "conclude_race", "frame_of"]
