"""Personalised federated learning: every client ends up with a model of its own.

Names are imported on first use, so that ``import perfed`` is quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .data import Samples as Samples
    from .exported import export as export
    from .face import Trained as Trained
    from .face import compare as compare
    from .face import federate as federate
    from .face import open as open
    from .face import train as train
    from .local import Batch as Batch
    from .local import Budget as Budget
    from .local import Shard as Shard
    from .local.descend import descend as descend
    from .method import Method as Method
    from .partition import Split as Split
    from .sampling import Sampling as Sampling
    from .server import Uploads as Uploads
    from .server import average as average
    from .server import broadcast as broadcast
    from .server import mean as mean
    from .server import mix as mix
    from .settings import Settings as Settings
    from .task import Task as Task
    from .task import cross_entropy as cross_entropy

__version__ = "0.1.0"

_HOMES = {  # public name → module
    "Batch": "local",
    "Budget": "local",
    "Method": "method",
    "Samples": "data",
    "Sampling": "sampling",
    "Settings": "settings",
    "Shard": "local",
    "Split": "partition",
    "Task": "task",
    "Trained": "face",
    "Uploads": "server",
    "average": "server",
    "broadcast": "server",
    "compare": "face",
    "cross_entropy": "task",
    "descend": "local",
    "export": "exported",
    "federate": "face",
    "mean": "server",
    "mix": "server",
    "open": "face",
    "train": "face",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f".{_HOMES[name]}", __name__), name)
    try:
        return import_module(f".{name}", __name__)
    except ModuleNotFoundError as missing:
        if missing.name != f"{__name__}.{name}":
            raise
        raise AttributeError(f"module 'perfed' has no attribute '{name}'") from None


def __dir__() -> list[str]:
    return __all__
