"""Samples: the data sets of the papers, the embedded ones, and the user's own."""

from .catalogue import CATALOGUE
from .samples import Samples
from .sets import fetch, listing, load

__all__ = ["CATALOGUE", "Samples", "fetch", "listing", "load"]
