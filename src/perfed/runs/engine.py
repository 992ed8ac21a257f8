"""What trains the cells of a study: processes of this machine, or a Ray cluster; and what a cell may take of it."""

from dataclasses import dataclass, fields
from typing import Literal

from ..cluster import imported
from ..errors import InputError


@dataclass(frozen=True, kw_only=True)
class Engine:
    """Who trains the cells (method × settings × seed) of a study, and what each of them may take.

    Args:
        name: ``processes`` of this machine, or ``ray``.
        address: Of the Ray cluster: ``auto`` finds the one that this machine belongs to, ``local`` starts one for this study.
        cpus: What a cell takes of them.
        gpus: What a cell takes of a GPU; by default a whole one where ``device`` is a GPU, otherwise none.
        memory: GiB that a cell takes; by default estimated from its data and states.
        folder: Whether workers write into the study's own folder; ``auto`` looks whether they see it.
        retries: How often a cell may lose its worker without a new checkpoint before it is given up.

    Raises:
        InputError: If a number cannot be right, or the address is one that perfed cannot work behind.

    Example:
        >>> from perfed import Experiment
        >>> Experiment(engine={"name": "ray", "address": "local"}).engine.address
        'local'
    """

    name: Literal["processes", "ray"] = "processes"  # who trains the cells of a study: this machine's processes, or a Ray cluster
    address: str = "auto"  # of the Ray cluster: auto is the one this machine belongs to, local starts one for this study
    cpus: float = 1.0  # CPUs that a cell takes on a Ray cluster
    gpus: float | None = None  # share of a GPU that a cell takes there; None: a whole one where device is a GPU
    memory: float | None = None  # GiB that a cell takes there; None: estimated from its data and states
    folder: Literal["auto", "shared", "travels"] = "auto"  # whether workers write into the study's folder or send theirs back
    retries: int = 3  # times that a cell may lose its worker without a new checkpoint before it is given up

    def __post_init__(self) -> None:
        if self.cpus < 0 or (self.gpus or 0) < 0 or (self.memory is not None and self.memory <= 0) or self.retries < 0:
            raise InputError("engine.cpus, engine.gpus and engine.retries must not be negative, and engine.memory is above 0 GiB")
        if self.address.startswith("ray://"):
            raise InputError(
                f"engine.address={self.address} is Ray's client port, behind which a study's folder cannot be seen; start perfed "
                "on a machine of the cluster with engine.address=auto"
            )

    def needed(self) -> None:
        """Refuse what says something of a Ray cluster that is not asked for."""
        usual = {field.name: field.default for field in fields(self)}
        for name in ("address", "cpus", "gpus", "memory", "folder", "retries"):
            if self.name != "ray" and getattr(self, name) != usual[name]:
                raise InputError(f"engine.{name} is for a Ray cluster; say engine=ray too")

    def check(self) -> None:
        """Refuse, before anything is written, an engine that is not installed."""
        if self.name == "ray":
            imported()
