"""Differential privacy of what is uploaded: the settings, the accountant, and what a client lets go."""

from .accountant import ORDERS, curve, epsilon, noise_for
from .refusals import check
from .release import released, same_form
from .settings import Privacy
from .spending import Spending

__all__ = ["ORDERS", "Privacy", "Spending", "check", "curve", "epsilon", "noise_for", "released", "same_form"]
