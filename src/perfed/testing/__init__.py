"""The contract, checked: what every method must pass, public, for authors of methods.

>>> from perfed.testing import check_method
>>> from perfed.methods.fedper import FedPer
>>> check_method(FedPer())
"""

from ..transport import Serial, Stacked
from .checks import (
    CHECKS,
    check_edges,
    check_forgets_nobody,
    check_hyper_parameters,
    check_is_itself,
    check_keeps_private,
    check_learns,
    check_method,
    check_no_favourites,
    check_pure,
    check_reduces,
    check_resumes,
    check_same_on_every_transport,
    check_survives_the_wire,
    check_takes_newcomers,
)
from .play import CLASSES, FEATURES, Net, Played, federation, gap, play, served, task

__all__ = [
    "CHECKS",
    "CLASSES",
    "FEATURES",
    "Net",
    "Played",
    "Serial",
    "Stacked",
    "check_edges",
    "check_forgets_nobody",
    "check_hyper_parameters",
    "check_is_itself",
    "check_keeps_private",
    "check_learns",
    "check_method",
    "check_no_favourites",
    "check_pure",
    "check_reduces",
    "check_resumes",
    "check_same_on_every_transport",
    "check_survives_the_wire",
    "check_takes_newcomers",
    "federation",
    "gap",
    "play",
    "served",
    "task",
]
