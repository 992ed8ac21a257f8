"""Every method as its source describes it: name, paper, fields and what crosses, without importing torch."""

from typing import Any

from . import sources
from .errors import suggest
from .methods import CATALOGUE
from .methods import title as title_of

NORM = "who owns BatchNorm: all averaged, local_stats, local_all (set as norm=)"
# What goes down, up and stays, field by field: `catalogue.describe` finds it by a round, a test compares the two.
CROSSING = {
    "apfl": ("body head", "body head", "own share"),
    "apple": ("others own round shares", "body head", "state"),
    "ditto": ("body head", "body head", "body head"),
    "dualfed": ("encoder global_classifier", "encoder global_classifier", "personal_classifier projector"),
    "fedala": ("body head", "body head", "mixing settled top"),
    "fedamp": ("body head", "body head", "body head"),
    "fedavg": ("body head", "body head", ""),
    "fedavgft": ("body head", "body head", ""),
    "fedbabu": ("body", "body", "head"),
    "fedbn": ("body head", "body head", "kept"),
    "fedcac": ("body head", "critical params", "body head"),
    "fedcp": ("body head policy", "body head policy", "head"),
    "fedetf": ("body projection scale", "body projection scale", ""),
    "fedfomo": ("models sent", "gains params ticket", "body head"),
    "fedper": ("body", "body", "head"),
    "fedphp": ("body head", "body head", "heirloom visits"),
    "fedpick": ("encoder head", "encoder head", "chosen rejected selector"),
    "fedproto": ("centres known", "centres known", "body head"),
    "fedprox": ("body head", "body head", ""),
    "fedrep": ("body", "body", "head"),
    "fedrod": ("body head", "body head", "head"),
    "gpfl": ("body embeddings valve", "body embeddings valve", "head shares"),
    "lgfedavg": ("common head", "common head", "begun body"),
    "local": ("", "", "body head"),
    "moon": ("body head", "body head", "body"),
    "perfedavg": ("body head", "body head", ""),
    "pfedme": ("body head", "body head", "body head"),
    "scaffold": ("control model", "change model", "body head"),
    "spherefed": ("body", "body", ""),
}


def everything() -> list[dict[str, Any]]:
    """Return every method: name, paper, fields, what goes up, down and stays private, where the table has it."""
    return [entry(name) | crossing(name) for name in sorted(CATALOGUE)]


def entry(name: str) -> dict[str, Any]:
    """Return a method's name, paper and fields."""
    if name not in CATALOGUE:
        raise suggest("method", name, CATALOGUE)
    paper = sources.docstring(f"methods/{name}.py").splitlines()[0]
    return {"name": name, "title": title_of(name), "paper": paper, "fields": meanings(name)}


def crossing(name: str) -> dict[str, list[str]]:
    """Return the fields that go down, go up and stay; nothing of a method that the table does not have."""
    return {way: own.split() for way, own in zip(("down", "up", "private"), CROSSING.get(name, ()), strict=False)}


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
