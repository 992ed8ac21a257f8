"""The methods, one paper a file; the catalogue is literal, and its order is that of tables."""

import ast
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import suggest

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


@cache
def title(name: str) -> str:
    """Return how tables write a method; it is read off the source, so that a report need not wait for torch."""
    if name not in CATALOGUE:
        raise suggest("method", name, CATALOGUE)
    tree = ast.parse(Path(__file__).with_name(f"{name}.py").read_text(encoding="utf-8"))
    body = next(node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == CATALOGUE[name])
    said = [node.value for node in body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "title"]
    return str(ast.literal_eval(said[0])) if said else CATALOGUE[name]


def showing(view: str) -> list[str]:
    """Return the titles of the methods that have a view, which analyses look through."""
    return [kind.title for kind in map(find, CATALOGUE) if view in kind.views]
