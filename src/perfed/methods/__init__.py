"""The methods, one paper a file; the catalogue is literal."""

from importlib import import_module
from typing import Any

from ..errors import suggest
from ..method import Method

CATALOGUE: dict[str, str] = {  # name → class, in the module of that name
    "apfl": "APFL",
    "apple": "Apple",
    "ditto": "Ditto",
    "dualfed": "DualFed",
    "fedala": "FedALA",
    "fedamp": "FedAMP",
    "fedavg": "FedAvg",
    "fedavgft": "FedAvgFT",
    "fedbabu": "FedBABU",
    "fedbn": "FedBN",
    "fedcac": "FedCAC",
    "fedcp": "FedCP",
    "fedetf": "FedETF",
    "fedfomo": "FedFomo",
    "fedper": "FedPer",
    "fedphp": "FedPHP",
    "fedpick": "FedPick",
    "fedproto": "FedProto",
    "fedprox": "FedProx",
    "fedrep": "FedRep",
    "fedrod": "FedRoD",
    "gpfl": "GPFL",
    "lgfedavg": "LGFedAvg",
    "local": "Local",
    "moon": "Moon",
    "perfedavg": "PerFedAvg",
    "pfedme": "PFedMe",
    "scaffold": "Scaffold",
    "spherefed": "SphereFed",
}


def find(name: str) -> type[Method[Any, Any, Any, Any]]:
    """Return the class of a method, by its name."""
    if name not in CATALOGUE:
        raise suggest("method", name, CATALOGUE)
    return getattr(import_module(f".{name}", __name__), CATALOGUE[name])  # type: ignore[no-any-return]
