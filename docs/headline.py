"""Draw the README's figure from docs/results/digits.md and the site's from docs/results/har.md: ``python docs/headline.py``."""

from pathlib import Path

from measured import table

from perfed.report.canvas import save, sheet, styled
from perfed.report.glance import Mark, glance
from perfed.report.names import title as named
from perfed.report.style import LOOKS

WHO = [  # what a reader reads, the method, and the group it belongs to
    ("Everybody alone", "Local", "local"),
    ("One model for all", "FedAvg", "fedavg"),
    ("A model each", "GPFL", "gpfl"),
    ("", "FedCAC", "fedcac"),
    ("", "Ditto", "ditto"),
]
FROM, TO = 84.0, 100.0


def draw(path: Path) -> None:
    """Draw the last round's accuracy on HAR with its deviation over seeds."""
    found = table("har", "Real users: HAR", "last round: weighted %")
    with styled():
        figure, axes = sheet(7.0, 3.0)
        for row, (group, title, name) in enumerate(WHO):
            mean, _, deviation = found[title].partition(" ± ")
            value, colour = float(mean), LOOKS[name].colour
            axes.axhline(row, color="#e4e4e4", lw=1, zorder=0)
            axes.errorbar(value, row, xerr=float(deviation), color=colour, marker="o", ms=10, lw=2.5, capsize=4)
            axes.text(value, row - 0.2, f"{value:.0f} %", va="bottom", ha="center", fontweight="bold", color=colour)
            axes.text(FROM - 0.2, row, title, va="center", ha="right", fontweight="bold", color=colour)
            axes.text(FROM - 2.3, row, group, va="center", ha="right")
        axes.set(
            xlim=(FROM, TO),
            ylim=(len(WHO) - 0.5, -0.7),
            yticks=[],
            xlabel="% of test samples right, last of 100 rounds; bars: three seeds",
        )
        axes.set_title("Thirty people carry a phone. What are they doing?", loc="left", fontweight="bold")
        axes.spines["left"].set_visible(False)
        axes.grid(True, axis="x", color="#eeeeee")
    save(figure, path)


MAIN = {"20 clients, a few kinds of digits each": "Skewed labels", "10 clients, five looks of digits": "Five looks"}


def marks(heading: str) -> list[Mark]:
    """Return the validated round of a table of the main job, the highest first."""
    found, names = table("digits", heading, "validated round: weighted %"), {named(name): name for name in LOOKS}
    rows = []
    for method, text in found.items():
        mean, _, deviation = text.partition(" ± ")
        rows.append((method, names[method], LOOKS[names[method]], float(mean), float(deviation)))
    return sorted((row for row in rows if row[1] != "majority"), key=lambda row: -row[3])


if __name__ == "__main__":
    images = Path(__file__).parent / "images"
    draw(images / "headline.svg")
    save(glance({text: marks(heading) for text, heading in MAIN.items()}, width=9.0), images / "main.svg")
