"""How many points every method gains over Local in every study, read from the results' pages."""

import sys
from pathlib import Path

from source import table

sys.path.insert(0, str(Path(__file__).parents[1]))
from measured import STUDIES  # noqa: E402
from measured import table as numbers  # noqa: E402

SHORT = {"digits": "digits", "fashion": "Fashion-MNIST", "cifar10": "CIFAR-10", "har": "HAR", "digit-domains": "digit domains"}
FIRST_LOOKS = ("Label skew: a tenth of Fashion-MNIST", "HAR after 50 rounds")  # a later section has the same runs, longer


def page() -> str:
    """Return methods × studies, those with the highest mean gain first."""
    found = {key: numbers(*key, column) for key, (_, column) in STUDIES.items() if key[1] not in FIRST_LOOKS}
    gains: dict[str, dict[str, float]] = {}
    for (study, _), rows in found.items():
        local = _number(rows["Local"])
        for method, said in rows.items():
            if method not in ("Majority class", "Local"):
                gains.setdefault(method, {})[study] = _number(said) - local
    order = sorted(gains, key=lambda m: -sum(gains[m].values()) / len(gains[m]))
    studies = [key[0] for key in found]
    lines = [[f"[{m}](methods/{_page(m)}.md)", *(_points(gains[m].get(s)) for s in studies)] for m in order]
    heads = [f"[{SHORT.get(s, s.upper())}](results/{s}.md)" for s in studies]
    return table(["method", *heads], lines)


def _number(said: str) -> float:
    return float(said.split(" ")[0])


def _points(gain: float | None) -> str:
    if gain is None:
        return ""
    return f"**{gain:+.1f}**" if gain >= 1 else f"{gain:+.1f}"


def _page(method: str) -> str:
    return method.lower().replace("-", "").replace("+", "")
