"""The contract every method signs: five pure verbs, and a sixth that is optional, on a frozen record."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from torch import Tensor

from .errors import MethodError
from .local import Budget, Shard
from .server import Uploads
from .task import Norm, Task

Server = TypeVar("Server")
Down = TypeVar("Down")
Up = TypeVar("Up")
Mine = TypeVar("Mine")


@dataclass(frozen=True, kw_only=True)
class Method(ABC, Generic[Server, Down, Up, Mine]):
    """Fields are hyper-parameters; every state is an argument and a result.

    ``norm`` says who owns BatchNorm: ``all`` is averaged, ``local_stats`` keeps the running statistics at home,
    ``local_all`` keeps all of it.
    """

    budget: Budget = field(default_factory=Budget)
    norm: Norm = "local_stats"

    stacks: ClassVar[str] = ""  # why clients of this method cannot be stacked along an axis, if they cannot
    reveals: ClassVar[str] = ""  # what of the private state is uploaded as well, and why, if anything is

    def check(self, task: Task, sizes: list[int], participants: int) -> None:
        """Refuse, in one sentence, what the method cannot do on this task and these clients."""

    @abstractmethod
    def init(self, task: Task, clients: int) -> tuple[Server, Mine]:
        """Return the server's state and the private state every client starts from."""

    if TYPE_CHECKING:  # named in a class body, not inherited: `send = broadcast`, `merge = average`
        send: ClassVar[Callable[..., Any]]
        merge: ClassVar[Callable[..., Any]]
    else:

        @abstractmethod
        def send(self, server: Server, client: int) -> Down:
            """Return what the server tells one client."""

        @abstractmethod
        def merge(self, server: Server, ups: Uploads[Up]) -> Server:
            """Return the server's next state, given the answers."""

    def forms(self, server: Server) -> list[Down]:
        """Return a message of every form that `send` gives messages over a run; a silo accepts no other."""
        return [self.send(server, 0)]

    @abstractmethod
    def local(self, task: Task, down: Down, mine: Mine, data: Shard) -> tuple[Up, Mine]:
        """Return what one client answers and what it keeps to itself."""

    @abstractmethod
    def predict(self, task: Task, down: Down, mine: Mine, x: Tensor) -> Tensor:
        """Return the logits one client would serve for ``x``."""

    def adapt(self, task: Task, down: Down, mine: Mine, data: Shard) -> tuple[Down, Mine]:
        """Return the states after what a client does before it is tested; by default nothing."""
        return down, mine

    def after(self, down: Down, up: Up) -> Down:
        """Return ``down`` as if the client had been sent its own answer, for tests right after training."""
        return up  # type: ignore[return-value]


def positive(method: str, symbol: str, value: float, advice: str) -> None:
    """Refuse a weight of zero or less that would turn a method into another one."""
    if not value > 0:
        raise MethodError(f"{method} needs {symbol} > 0, got {value:g}: {advice}")
