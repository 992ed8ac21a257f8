"""Samples: the data sets of the papers, the embedded ones, and the user's own."""

from perfed.data.catalogue import CATALOGUE
from perfed.data.samples import Samples
from perfed.data.sets import fetch, listing, load

__all__ = ["CATALOGUE", "Samples", "fetch", "listing", "load"]
