"""Every method as its source describes it: name, paper, fields and what crosses, without importing torch."""

from typing import Any

from . import sources
from .errors import suggest
from .methods import CATALOGUE, crosses, newcomer
from .methods import title as title_of

NORM = "who owns BatchNorm: all averaged, local_stats, local_all (set as norm=)"


def everything() -> list[dict[str, Any]]:
    """Return every method: name, paper, fields, what goes up, down and stays private, where its class says so."""
    return [entry(name) | crossing(name) for name in sorted(CATALOGUE)]


def entry(name: str) -> dict[str, Any]:
    """Return a method's name, paper and fields."""
    if name not in CATALOGUE:
        raise suggest("method", name, CATALOGUE)
    paper = sources.docstring(f"methods/{name}.py").splitlines()[0]
    return {"name": name, "title": title_of(name), "paper": paper, "fields": meanings(name)}


def crossing(name: str) -> dict[str, list[str]]:
    """Return the fields that go down, go up and stay, as the method's class says; nothing where it does not."""
    return {way: own.split() for way, own in zip(("down", "up", "private"), crosses(name).split("|"), strict=False)}


def newcomers() -> str:
    """Return the table of what a newcomer is sent by every method and what it does with it, in Markdown."""
    head = ["| method | a newcomer is sent | and | whose choice |", "|---|---|---|---|"]
    rows = ["| " + " | ".join([f"[{title_of(name)}](methods/{name}.md)", *newcomer(name)]) + " |" for name in CATALOGUE]
    return "\n".join([*head, *rows]) + "\n"


def joins(name: str) -> str:
    """Return the paragraph about newcomers on a method's page."""
    sent, does, whose = newcomer(name)
    return f"**A newcomer** is sent {sent}; it {does} ({whose}). [Newcomers](../newcomers.md) has all methods.\n"


def meanings(name: str) -> list[dict[str, Any]]:
    """Return a method's own fields with default, type and the meaning that stands beside them in the source."""
    found = {field.name: field for field in sources.fields(CATALOGUE[name], f"methods/{name}.py")}
    norm = found.pop("norm", None)
    if norm is None:
        norm = next(f for f in sources.fields("Method", "method/contract.py") if f.name == "norm")
    own = [
        {"name": f.name, "default": f.default, "meaning": f.meaning, "type": f.type} for f in found.values() if f.name != "budget"
    ]
    return [*own, {"name": "norm", "default": norm.default, "type": "str", "meaning": NORM}]
