"""What is learned: a network in two parts, as pure functions of its parameters, and its loss."""

from .loss import cross_entropy, each_of
from .part import Mode, Part, Precision
from .task import Norm, Task

__all__ = ["Mode", "Norm", "Part", "Precision", "Task", "cross_entropy", "each_of"]
