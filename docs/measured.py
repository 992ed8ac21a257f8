"""Write what docs/results says of a method into its page: ``python docs/measured.py``, or ``--check`` to change nothing."""

import re
import sys
from functools import cache
from pathlib import Path

from perfed.report.names import title

DOCS = Path(__file__).parent
WEIGHTED, MEAN = "best round: weighted %", "best round: mean %"
STUDIES = {  # page of the results and its heading: what a row of a method's page calls it, and the number it takes
    ("digits", "Twelve methods on the embedded digits, until the curves are flat"): (
        "embedded digits, 20 clients, Dirichlet 0.1",
        WEIGHTED,
    ),
    ("fashion", "Label skew: a tenth of Fashion-MNIST"): ("Fashion-MNIST, 20 clients, Dirichlet 0.1, 15 rounds", WEIGHTED),
    ("fashion", "Fashion-MNIST after 45 rounds"): ("Fashion-MNIST, 20 clients, Dirichlet 0.1, 45 rounds", WEIGHTED),
    ("cifar10", "Label skew: CIFAR-10"): ("CIFAR-10, 20 clients, Dirichlet 0.1", WEIGHTED),
    ("digit-domains", "Feature shift: four ways of writing digits"): ("four digit domains", MEAN),
    ("har", "Real users: HAR"): ("HAR, 30 subjects, 100 rounds", WEIGHTED),
    ("har", "HAR after 50 rounds"): ("HAR, 30 subjects, 50 rounds", WEIGHTED),
    ("pacs", "Feature shift: PACS"): ("PACS, 4 domains", MEAN),
}


@cache
def table(page: str, heading: str, column: str) -> dict[str, str]:
    """Return the numbers of one study by method."""
    text = (DOCS / "results" / f"{page}.md").read_text(encoding="utf-8")
    section = re.split(rf"^##? {re.escape(heading)}\n", text, maxsplit=1, flags=re.M)[1].split("\n## ", 1)[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line.startswith("| ")]
    place = rows[0].index(column)
    return {row[0]: re.sub(r"\*\*|</?ins>", "", row[place]) for row in rows[2:]}


def anchor(heading: str) -> str:
    """Return where a heading can be linked to."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def measured(method: str) -> str:
    """Return a page's section: this method beside Local and FedAvg in every study that has it."""
    lines = [f"| setting | {method} | Local | FedAvg |", "| --- | ---: | ---: | ---: |"]
    for (page, heading), (name, column) in STUDIES.items():
        found = table(page, heading, column)
        if method in found:
            row = [f"[{name}](../results/{page}.md#{anchor(heading)})", found[method], found["Local"], found["FedAvg"]]
            lines.append(f"| {' | '.join(row)} |")
    said = "Accuracy in %, best round, mean ± deviation over three seeds, at equal budgets; reduced as the linked section says."
    return "\n".join([said, "", *lines])


def main() -> None:
    """Bring every page up to date, or name those that are not."""
    stale = []
    for path in sorted((DOCS / "methods").glob("*.md")):
        page = path.read_text(encoding="utf-8")
        section = measured(title(path.stem))
        new = re.sub(r"(?<=\n## Measured\n\n).*?(?=\n\n## )", lambda _, s=section: s, page, flags=re.S)
        if new != page:
            stale.append(path.name)
            if "--check" not in sys.argv:
                path.write_text(new, encoding="utf-8")
    if stale and "--check" in sys.argv:
        sys.exit(f"run python docs/measured.py: {', '.join(stale)} do not say what docs/results says")


if __name__ == "__main__":
    main()
