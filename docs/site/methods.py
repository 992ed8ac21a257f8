"""The table of methods on their front page, read from the methods themselves."""

import inspect

from source import cell, table

from perfed import methods
from perfed.report.names import title

FIVE = ("fedcp", "fedcac", "dualfed", "gpfl", "fedpick")


def page() -> str:
    """Return the five with every variant of their papers, then the baselines."""
    rest = [name for name in sorted(methods.CATALOGUE) if name not in FIVE]
    return "\n\n".join(
        [
            f"## The five, with every variant of their papers\n\n{_rows(list(FIVE))}",
            f"## {len(rest)} baselines\n\n{_rows(rest)}",
        ]
    )


def _rows(names: list[str]) -> str:
    rows = []
    for name in names:
        said = (inspect.getdoc(inspect.getmodule(methods.find(name))) or "").splitlines()[0]
        paper, _, idea = said.partition(": ")
        where = paper[paper.find("(") + 1 : paper.rfind(")")] if "(" in paper else ""
        rows.append([f"[{title(name)}]({name}.md)", f"`{name}`", cell(idea or said), cell(where)])
    return table(["method", "name", "idea", "paper"], rows)
