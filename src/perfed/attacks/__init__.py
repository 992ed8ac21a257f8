"""Attacks for simulation: what some clients send, or train on, that honest ones would not."""

from .attack import ATTACKS, Attack
from .forge import Forger
from .poison import poisoned, stamped

__all__ = ["ATTACKS", "Attack", "Forger", "poisoned", "stamped"]
