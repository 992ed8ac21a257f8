"""The methods, one paper a file; the catalogue is literal, and its order is that of tables."""

import ast
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import suggest
from ..units import ruled

if TYPE_CHECKING:  # names and titles need no torch
    from ..method import Method

# name → class, in the module of that name; no collaboration, one model for all, personalised models, the five papers last
CATALOGUE: dict[str, str] = {
    "local": "Local",
    "fedavg": "FedAvg",
    "fedavgft": "FedAvgFT",
    "fedprox": "FedProx",
    "scaffold": "Scaffold",
    "moon": "Moon",
    "perfedavg": "PerFedAvg",
    "pfedme": "PFedMe",
    "ditto": "Ditto",
    "apfl": "APFL",
    "fedamp": "FedAMP",
    "fedfomo": "FedFomo",
    "apple": "Apple",
    "fedala": "FedALA",
    "fedphp": "FedPHP",
    "fedper": "FedPer",
    "fedrep": "FedRep",
    "fedrod": "FedRoD",
    "fedbabu": "FedBABU",
    "feddbe": "FedDBE",
    "lgfedavg": "LGFedAvg",
    "fedbn": "FedBN",
    "fedproto": "FedProto",
    "spherefed": "SphereFed",
    "fedetf": "FedETF",
    "fedcp": "FedCP",
    "fedcac": "FedCAC",
    "dualfed": "DualFed",
    "gpfl": "GPFL",
    "fedpick": "FedPick",
}


def find(name: str) -> "type[Method[Any, Any, Any, Any]]":
    """Return the class of a method, by its name."""
    if name not in CATALOGUE:
        raise suggest("method", name, CATALOGUE)
    return getattr(import_module(f".{name}", __name__), CATALOGUE[name])  # type: ignore[no-any-return]


def title(name: str) -> str:
    """Return how tables write a method."""
    return str(_said(name).get("title", CATALOGUE[name]))


def crosses(name: str) -> str:
    """Return the fields that go down, go up and stay, as a method's class names them; nothing where it does not."""
    return str(_said(name).get("crosses", ""))


def newcomer(name: str) -> list[str]:
    """Return what a newcomer is sent, what it then does, and whose choice that is; nothing where its class does not say."""
    return [part.strip() for part in str(_said(name).get("newcomer", "")).split("|") if part.strip()]


def guarded(name: str) -> list[str]:
    """Return what noise on uploads means for a method, for privacy=client and for privacy=sample: "yes: …" or "no: …"."""
    return [part.strip() for part in str(_said(name).get("guarded", "")).split("|") if part.strip()]


def label(name: str, rule: str | None = None) -> str:
    """Return how tables write a method that averages by ``rule``: its title, with the rule if that is not its own."""
    usual = _said(name).get("rule")
    return title(name) if usual is None or rule is None else ruled(title(name), rule, str(usual))


@cache
def _said(name: str) -> dict[str, Any]:
    """Return the plain values in a method's class, read off its source: a report need not wait for torch."""
    if name not in CATALOGUE:
        raise suggest("method", name, CATALOGUE)
    tree = ast.parse(Path(__file__).with_name(f"{name}.py").read_text(encoding="utf-8"))
    body = next(node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == CATALOGUE[name])
    return {
        ast.unparse(node.target if isinstance(node, ast.AnnAssign) else node.targets[0]): node.value.value
        for node in body
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Constant)
    }


def showing(view: str) -> list[str]:
    """Return the titles of the methods that have a view, which analyses look through."""
    return [kind.title for kind in map(find, CATALOGUE) if view in kind.views]
