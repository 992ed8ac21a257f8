"""What crosses between server and client: bytes with a strict schema, and their ledger."""

from .codec import decode, encode
from .ledger import Ledger
from .withhold import Withheld

__all__ = ["Ledger", "Withheld", "decode", "encode"]
