"""How a method looks: one colour, dash and marker each, the same in every figure and distinct without colour."""

from collections.abc import Mapping
from typing import Any, NamedTuple


class Look(NamedTuple):
    """A line's colour, dash pattern and marker."""

    colour: str
    dash: str | tuple[int, tuple[float, ...]]
    marker: str


LONG = (0, (6.0, 1.5))
DOTS = (0, (1.2, 1.2))
MIXED = (0, (5.0, 1.2, 1.2, 1.2))

# No two methods share dash and marker, so figures can be read in grey.
LOOKS: Mapping[str, Look] = {
    "apfl": Look("#8c6d31", DOTS, "v"),
    "apple": Look("#6b8e23", MIXED, "v"),
    "ditto": Look("#5f3dc4", "-", "v"),
    "dualfed": Look("#00876c", "-", "D"),
    "fedala": Look("#2f9e44", LONG, "v"),
    "fedamp": Look("#b5651d", "-", "P"),
    "fedavg": Look("#6e6e6e", "-", "s"),
    "fedavgft": Look("#949494", LONG, "s"),
    "fedbabu": Look("#c2255c", DOTS, "X"),
    "fedbn": Look("#1098ad", "-", "X"),
    "fedcac": Look("#0b63a5", "-", "o"),
    "fedcp": Look("#d1410c", "-", "^"),
    "feddbe": Look("#087f5b", DOTS, "d"),
    "fedetf": Look("#74b816", DOTS, "P"),
    "fedfomo": Look("#ad7fa8", LONG, "P"),
    "fedper": Look("#3b82c4", LONG, "o"),
    "fedphp": Look("#a61e4d", MIXED, "P"),
    "fedpick": Look("#e0a100", "-", "*"),
    "fedprox": Look("#8d99ae", DOTS, "s"),
    "fedproto": Look("#7a5195", LONG, "X"),
    "fedrep": Look("#56a5dd", DOTS, "o"),
    "fedrod": Look("#12b886", LONG, "D"),
    "gpfl": Look("#b0307f", "-", "h"),
    "lgfedavg": Look("#4c8c7d", MIXED, "X"),
    "local": Look("#111111", LONG, "d"),
    "majority": Look("#444444", DOTS, ""),
    "moon": Look("#4263eb", DOTS, "D"),
    "perfedavg": Look("#e8590c", LONG, "^"),
    "pfedme": Look("#f08c5a", DOTS, "^"),
    "scaffold": Look("#495057", MIXED, "s"),
    "spherefed": Look("#9c36b5", LONG, "h"),
}

OTHERS = (
    Look("#845ef7", MIXED, "o"),
    Look("#20808d", MIXED, "D"),
    Look("#bf6900", MIXED, "^"),
    Look("#7b2d26", MIXED, "h"),
    Look("#4b6a2f", DOTS, "h"),
    Look("#33658a", DOTS, "*"),
)


def looks(methods: list[str]) -> list[Look]:
    """Return one look per line; a method unknown here or met again takes the next of ``OTHERS``."""
    chosen: list[Look] = []
    spare = 0
    for number, method in enumerate(methods):
        if method in LOOKS and method not in methods[:number]:
            chosen.append(LOOKS[method])
        else:
            chosen.append(OTHERS[spare % len(OTHERS)])
            spare += 1
    return chosen


RULES: Mapping[str, Any] = {
    "axes.edgecolor": "#333333",
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "axes.labelcolor": "#222222",
    "axes.labelsize": 9,
    "axes.linewidth": 0.7,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 9,
    "axes.titleweight": "bold",
    "figure.facecolor": "white",
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same picture on every machine
    "font.size": 9,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "hatch.linewidth": 0.5,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "lines.linewidth": 1.3,
    "lines.markersize": 4,
    "pdf.fonttype": 42,
    "savefig.facecolor": "white",
    "text.parse_math": False,  # a name with dollar signs is a name
    "svg.fonttype": "path",
    "svg.hashsalt": "perfed",  # element names in SVG files follow from their contents alone
    "xtick.color": "#333333",
    "xtick.labelsize": 8,
    "ytick.color": "#333333",
    "ytick.labelsize": 8,
}
