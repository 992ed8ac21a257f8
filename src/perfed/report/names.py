"""How methods are written in tables and figures, in the order in which tables list them."""

import re
from collections.abc import Sequence

# The order is the one papers use: no collaboration, one model for all, personalised models, the five papers last.
NAMES = {
    "majority": "Majority class",
    "local": "Local",
    "fedavg": "FedAvg",
    "fedavgft": "FedAvg+FT",
    "fedprox": "FedProx",
    "scaffold": "SCAFFOLD",
    "moon": "MOON",
    "perfedavg": "Per-FedAvg",
    "pfedme": "pFedMe",
    "ditto": "Ditto",
    "apfl": "APFL",
    "fedamp": "FedAMP",
    "fedfomo": "FedFomo",
    "apple": "APPLE",
    "fedala": "FedALA",
    "fedphp": "FedPHP",
    "fedper": "FedPer",
    "fedrep": "FedRep",
    "fedrod": "FedRoD",
    "fedbabu": "FedBABU",
    "lgfedavg": "LG-FedAvg",
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


def title(method: str) -> str:
    """Return how ``method`` is written; a method of the reader's own keeps its name."""
    return NAMES.get(method, method)


def position(method: str) -> int:
    """Return where ``method`` stands in a table; methods of the reader's own stand last."""
    return list(NAMES).index(method) if method in NAMES else len(NAMES)


def shorten(clients: Sequence[str]) -> tuple[str, list[str]]:
    """Return what numbered names share and their numbers: ``client 0, client 1`` is ``client`` and ``0, 1``."""
    numbered = [re.fullmatch(r"(\D*?)[ _-]?(\d+)", name) for name in clients]
    found = [match.groups() for match in numbered if match]
    if len(found) == len(clients) and len({prefix for prefix, _ in found}) == 1:
        return found[0][0].strip() or "client", [number for _, number in found]
    return "", list(clients)
