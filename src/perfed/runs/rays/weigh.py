"""What a cell asks of a cluster: CPUs, a share of a GPU and memory, estimated from what it holds; and how long it is."""

from dataclasses import dataclass, replace
from typing import Any

from ... import trees
from ...machine import cores
from ...transport import Store
from ...units import weighed
from ..cells import Cell
from ..engine import Engine

PROCESS = 400 << 20  # bytes of a process that has imported torch and perfed
COPIES = 3  # of a server's state: the old one, the sum, and the new one
SPARE = 1.25


@dataclass(frozen=True)
class Weight:
    """What a cell takes, and a figure in proportion to its time."""

    cpus: float
    gpus: float
    memory: int  # bytes
    round: float  # samples × parameters × passes of a round: to say which cell is longer
    work: float = 0.0

    def left(self, cell: Cell) -> "Weight":
        """Return the weight of a cell with the rounds that it has to go."""
        reached = cell.run.seed(cell.seed).reached or 0
        return replace(self, work=self.round * max(1, cell.experiment.rounds - reached))

    @property
    def options(self) -> dict[str, Any]:
        """As Ray takes it for a task."""
        return {"num_cpus": self.cpus, "num_gpus": self.gpus, "memory": self.memory}

    @property
    def resources(self) -> dict[str, float]:
        """As Ray counts what a machine has."""
        wanted = {"CPU": self.cpus, "GPU": self.gpus, "memory": float(self.memory)}
        return {what: much for what, much in wanted.items() if much}

    @property
    def said(self) -> str:
        """In words."""
        gpu = f", {self.gpus:g} of a GPU" if self.gpus else ""
        return f"{self.cpus:g} CPU{gpu} and {weighed(self.memory)} of memory"


def weigh(cell: Cell, engine: Engine) -> Weight:
    """Return what a cell takes: its process, its data, the server's states and the clients' private ones."""
    asked = cell.experiment
    made = cell.shared.assemble(asked, cell.seed)
    federation = made.federation
    store: Store = made.store()
    private = min(len(federation) * trees.memory(made.template), int(asked.memory * 2**30))
    data = federation.x.numel() * federation.x.element_size() + federation.y.numel() * federation.y.element_size()
    server = COPIES * trees.memory(made.server) + 2 * trees.memory(store.first)
    memory = int(engine.memory * 2**30) if engine.memory is not None else int(SPARE * (PROCESS + data + server + private))
    gpu = asked.device.partition(":")[0] == "cuda"
    cpus = max(engine.cpus, float(asked.workers or cores())) if asked.transport == "pooled" else engine.cpus
    size = sum(leaf.numel() for leaf in trees.leaves(made.site.task.params()))
    effort = sum(federation.sizes) * asked.budget.epochs * asked.sampling.ratio * made.method.cost
    return Weight(cpus, (1.0 if gpu else 0.0) if engine.gpus is None else engine.gpus, memory, effort * size)
