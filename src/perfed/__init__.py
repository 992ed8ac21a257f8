"""Personalised federated learning: every client ends up with a model of its own.

Names are imported on first use, so that ``import perfed`` is quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .api import compare as compare
    from .api import federate as federate
    from .api import open as open
    from .api import resume as resume
    from .api import run as run
    from .api import train as train
    from .data import Samples as Samples
    from .federation import Federation as Federation
    from .local import Batch as Batch
    from .local import Budget as Budget
    from .local import Shard as Shard
    from .local.descend import descend as descend
    from .method import Method as Method
    from .partition import Split as Split
    from .racing import race as race
    from .racing import tune as tune
    from .results import Comparison as Comparison
    from .results import Race as Race
    from .results import Run as Run
    from .results.joined import join as join
    from .runs.experiment import Experiment as Experiment
    from .sampling import Sampling as Sampling
    from .server import Uploads as Uploads
    from .server import average as average
    from .server import broadcast as broadcast
    from .server import mean as mean
    from .server import mix as mix
    from .serving.export import export as export
    from .task import Task as Task
    from .task import cross_entropy as cross_entropy

__version__ = "0.1.0"

_HOMES = {  # public name → module
    "Batch": "local",
    "Budget": "local",
    "Comparison": "results",
    "Experiment": "runs.experiment",
    "Federation": "federation",
    "Method": "method",
    "Privacy": "privacy",
    "Race": "results",
    "Run": "results",
    "Samples": "data",
    "Sampling": "sampling",
    "Shard": "local",
    "Split": "partition",
    "Task": "task",
    "Uploads": "server",
    "average": "server",
    "broadcast": "server",
    "compare": "api",
    "cross_entropy": "task",
    "descend": "local",
    "export": "serving.export",
    "federate": "api",
    "join": "results.joined",
    "mean": "server",
    "mix": "server",
    "open": "api",
    "race": "racing",
    "resume": "api",
    "run": "api",
    "train": "api",
    "tune": "racing",
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
