"""How many points every method gains over Local in every study, read from the results' pages."""

import sys
from pathlib import Path

from source import table

from perfed import methods

sys.path.insert(0, str(Path(__file__).parents[1]))
from measured import STUDIES, anchor  # noqa: E402
from measured import table as numbers  # noqa: E402

SHORT = {  # a study's page and heading: what a column calls it; HAR after 50 rounds is the first half of another
    ("digits", "Twelve methods on the embedded digits, until the curves are flat"): "digits",
    ("fashion", "Label skew: a tenth of Fashion-MNIST"): "Fashion, 15 rounds",
    ("fashion", "Fashion-MNIST after 45 rounds"): "Fashion, 45 rounds",
    ("cifar10", "Label skew: CIFAR-10"): "CIFAR-10",
    ("digit-domains", "Feature shift: four ways of writing digits"): "digit domains",
    ("har", "Real users: HAR"): "HAR",
    ("pacs", "Feature shift: PACS"): "PACS",
}


def page() -> str:
    """Return methods × studies, in the order in which tables list methods."""
    found = {study: numbers(*study, STUDIES[study][1]) for study in SHORT}
    lines = []
    for name in methods.CATALOGUE:
        title = methods.title(name)
        gains = [_points(rows.get(title), rows["Local"]) for rows in found.values()]
        if name != "local" and any(gains):
            lines.append([f"[{title}](methods/{name}.md)", *gains])
    heads = [f"[{said}](results/{study}.md#{anchor(heading)})" for (study, heading), said in SHORT.items()]
    return table(["method", *heads], lines).replace("| ---", "| ---:").replace("| ---:", "| ---", 1)


def _points(said: str | None, local: str) -> str:
    if said is None:
        return ""
    gain = float(said.split(" ")[0]) - float(local.split(" ")[0])
    return f"**{gain:+.1f}**" if gain >= 1 else f"{gain:+.1f}"
