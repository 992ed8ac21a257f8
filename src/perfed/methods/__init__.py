"""The methods, one paper a file; the catalogue is literal."""

from importlib import import_module
from typing import Any

from ..errors import suggest
from ..method import Method

CATALOGUE: dict[str, str] = {  # name → class, in the module of that name
    "ditto": "Ditto",
    "fedavg": "FedAvg",
    "fedbn": "FedBN",
    "fedcac": "FedCAC",
    "fedcp": "FedCP",
    "fedper": "FedPer",
    "fedprox": "FedProx",
    "fedrep": "FedRep",
    "local": "Local",
}


def find(name: str) -> type[Method[Any, Any, Any, Any]]:
    """Return the class of a method, by its name."""
    if name not in CATALOGUE:
        raise suggest("method", name, CATALOGUE)
    return getattr(import_module(f".{name}", __name__), CATALOGUE[name])  # type: ignore[no-any-return]
