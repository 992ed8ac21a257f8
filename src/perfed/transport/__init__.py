"""Ways for messages to travel; a method cannot tell them apart."""

from .auto import SAME, choose, faster
from .newcomers import Newcomers
from .pooled import Pooled
from .rayed import ClientsLost, Rayed
from .serial import Serial, Transport, one_thread
from .site import ClientError, Private, Site
from .stacked import Stacked, why_not
from .store import Store

__all__ = [
    "SAME",
    "ClientError",
    "ClientsLost",
    "Newcomers",
    "Pooled",
    "Private",
    "Rayed",
    "Serial",
    "Site",
    "Stacked",
    "Store",
    "Transport",
    "choose",
    "faster",
    "one_thread",
    "why_not",
]
