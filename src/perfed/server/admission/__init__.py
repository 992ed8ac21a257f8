"""Admission: every answer is checked before it is merged, in simulation and at silos alike.

A fault costs its sender its place in that round, never the round: what the server makes of the others is, to the bit, what
it would have made had the sender not been there.
"""

from .form import miscounted
from .gate import LEVELS, Admission, Merged

__all__ = ["LEVELS", "Admission", "Merged", "miscounted"]
