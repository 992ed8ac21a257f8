"""Real silos: messages, the server's transport, the silo's private states and its policy; Flower itself is in deploy."""

from .grid import Flower, Plan
from .messages import Answer, Ask
from .policy import Policy
from .states import States

__all__ = ["Answer", "Ask", "Flower", "Plan", "Policy", "States"]
