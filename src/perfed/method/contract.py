"""The contract every method signs: five pure verbs on a frozen record, some optional ones, and what is known of it."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Generic, Literal

from torch import Tensor

from ..errors import InputError, MethodError
from ..local import Budget, Shard
from ..server import Uploads, rule_of
from ..task import Norm, Task
from ..units import ruled
from .guards import Guards
from .joins import Joins, Server
from .search import Space
from .views import Down, Mine, Up


@dataclass(frozen=True, kw_only=True)
class Method(Joins[Server, Down, Up, Mine], Guards[Down, Up], ABC, Generic[Server, Down, Up, Mine]):
    """A method of federated learning: its fields are hyper-parameters, its verbs the steps of the paper.

    Server and clients are values: every state comes in as an argument and goes out as a result. The four types in brackets
    are what the server holds, what it sends down, what a client sends up, and what a client keeps to itself.

    Args:
        budget: What a client may spend in a round; the same for all methods that are compared.
        norm: Who owns BatchNorm: ``all`` is averaged, ``local_stats`` keeps the running statistics at home, ``local_all``
            keeps all of it.

    Raises:
        InputError: If a field cannot be right, in one sentence.

    Example:
        FedAvg, written anew, and two rounds of it:

        >>> from dataclasses import dataclass
        >>> import perfed
        >>> from perfed.testing import federation, play
        >>> @dataclass(frozen=True, kw_only=True)
        ... class Mine(perfed.Method):
        ...     send = perfed.broadcast
        ...     merge = perfed.average
        ...
        ...     def init(self, task, clients):
        ...         return task.params(), ()
        ...
        ...     def local(self, task, down, mine, data):
        ...         return perfed.descend(task.loss, down, data.epochs(self.budget.epochs), self.budget), ()
        ...
        ...     def predict(self, task, down, mine, x):
        ...         return task.logits(down, x)
        >>> len(play(Mine(), federation(2), count=2).history)  # the start counts too
        3
    """

    budget: Budget = field(default_factory=Budget)
    norm: Norm = "local_stats"

    # `title`, how tables write it, is the class's name unless the class says otherwise; `views` are those that it defines.
    needs: ClassVar[Literal["", "BatchNorm"]] = ""  # layers without which a network cannot be trained by it
    names_classes: ClassVar[str] = ""  # why it can learn nothing but classes, if so: "it learns an embedding of every class"
    search: ClassVar[Mapping[str, Space]] = {}  # fields worth tuning, each with its range; the step size always is
    cost: ClassVar[float] = 1.0  # time of local training, FedAvg's is 1: for estimates before a run
    stacks: ClassVar[str] = ""  # why clients of this method cannot be stacked along an axis, if they cannot
    crosses: ClassVar[str] = ""  # fields that go down | go up | stay, for lists that need no round to find out
    reveals: ClassVar[str] = ""  # what of the private state is uploaded as well, and why, if anything is
    counted: ClassVar[tuple[str, ...]] = ()  # fields of the private state that its paper counts as sent, though they are not
    former: ClassVar[Mapping[str, Any]] = {}  # defaults that fields had in version 0.1.0, where they have others today
    at_first: ClassVar[Mapping[str, Any]] = {}  # the same, for records of 0.1.0 alone: later ones had today's without naming it

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.title = cls.__dict__.get("title", cls.__name__)

    def __post_init__(self) -> None:
        """Refuse fields that cannot be right; a method with checks of its own calls this one first."""
        if (rule := getattr(self, "rule", None)) is not None:
            rule_of(rule)

    @classmethod
    def renamed(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return options under the names that fields have today: up to version 0.1.0 ``rule`` was ``weighting`` in some methods.

        Args:
            options: Fields by name, as a run folder has them.

        Returns:
            The same options, called as today.

        Raises:
            InputError: If an option is given under both names.

        Example:
            >>> from perfed.methods.fedbn import FedBN
            >>> FedBN.renamed({"weighting": "samples"})
            {'rule': 'weighted'}
        """
        found, names = dict(options), {f.name for f in fields(cls)}
        if "weighting" in found and "weighting" not in names and "rule" in names:
            if "rule" in found:
                raise InputError("weighting is the former name of rule: give rule alone")
            former = found.pop("weighting")
            found["rule"] = "weighted" if former == "samples" else former
        return found

    @property
    def label(self) -> str:
        """How tables write this method as it is set: its title, with a rule that is not its own."""
        usual = [str(f.default) for f in fields(self) if f.name == "rule"]
        return ruled(self.title, str(getattr(self, "rule", usual[0])), usual[0]) if usual else self.title

    @property
    def passes(self) -> int:
        """Passes over a client's training samples in one round, with those before a test; a silo's policy limits them."""
        return self.budget.epochs + self.tuning

    @property
    def tuning(self) -> int:
        """Passes over a client's training samples before its model is tested or served, which leave no trace in training."""
        return 0

    @property
    def fitted(self) -> int:
        """Passes over a client's training samples in a usual round of training: what an equal budget counts."""
        return self.passes - self.tuning

    def check(self, task: Task, sizes: list[int], participants: int) -> None:
        """Refuse, in one sentence, what the method cannot do on this task and these clients.

        Args:
            task: The network.
            sizes: Training samples of every client.
            participants: The fewest clients that a round can have.

        Raises:
            MethodError: If it cannot be done; the sentence says what would help.

        Example:
            >>> from perfed.methods.fedbn import FedBN
            >>> from perfed.testing import task
            >>> FedBN().check(task(norm=True), [20, 30], 2)
        """

    @abstractmethod
    def init(self, task: Task, clients: int) -> tuple[Server, Mine]:
        """Return the server's state and the private state every client starts from.

        Args:
            task: The network, which all clients start from alike.
            clients: How many there are.

        Returns:
            The server's first state, and the private state that each client begins with.

        Example:
            >>> from perfed.methods.fedper import FedPer
            >>> from perfed.testing import task
            >>> body, head = FedPer().init(task(), clients=2)
            >>> list(head)
            ['head.weight', 'head.bias']
        """

    @abstractmethod
    def send(self, server: Server, client: int) -> Down:
        """Return what the server tells one client; ``send = broadcast`` tells everybody everything.

        Args:
            server: The server's state.
            client: The client's number, from 0.

        Returns:
            The message: a tree of tensors.

        Example:
            >>> from perfed.methods.fedper import FedPer
            >>> from perfed.testing import task
            >>> body, head = FedPer().init(task(), clients=2)
            >>> FedPer().send(body, client=1) is body
            True
        """

    def forms(self, server: Server) -> list[Down]:
        """Return a message of every form that `send` gives messages over a run; a silo accepts no other.

        Args:
            server: The server's first state.

        Returns:
            One message per form; by default all have that of the first.

        Example:
            >>> from perfed.methods.lgfedavg import LGFedAvg
            >>> from perfed.testing import task
            >>> server, _ = LGFedAvg().init(task(), clients=2)
            >>> len(LGFedAvg().forms(server))  # with the common body, with the checkpoint, with the head alone
            3
        """
        return [self.send(server, 0)]

    @abstractmethod
    def local(self, task: Task, down: Down, mine: Mine, data: Shard) -> tuple[Up, Mine]:
        """Return what one client answers and what it keeps to itself.

        Args:
            task: The network, in training mode.
            down: What the client was sent.
            mine: What it has kept from the round before.
            data: Its training samples, in the order in which this round visits them.

        Returns:
            The answer, and the client's next private state.

        Example:
            >>> from perfed.methods.fedper import FedPer
            >>> from perfed.testing import federation, task
            >>> method, net, data = FedPer(), task(), federation(2)
            >>> body, head = method.init(net, clients=2)
            >>> up, mine = method.local(net, body, head, data.shard(0, 1, method.budget.batch_size, False))
            >>> up.keys() == body.keys(), mine.keys() == head.keys()
            (True, True)
        """

    @abstractmethod
    def merge(self, server: Server, ups: Uploads[Up]) -> Server:
        """Return the server's next state, given the answers; ``merge = average`` takes their mean.

        Args:
            server: The server's state before.
            ups: The answers that arrived, in the order of the clients' numbers.

        Returns:
            The server's next state.

        Example:
            >>> import torch
            >>> from perfed import Uploads
            >>> from perfed.methods.fedavg import FedAvg
            >>> answers = [{"w": torch.tensor(1.0)}, {"w": torch.tensor(4.0)}]
            >>> FedAvg().merge({"w": torch.tensor(0.0)}, Uploads([0, 1], [20, 10], answers))
            {'w': tensor(2.)}
        """

    @abstractmethod
    def predict(self, task: Task, down: Down, mine: Mine, x: Tensor) -> Tensor:
        """Return the logits one client would serve for ``x``.

        Args:
            task: The network, as it is served: running statistics, no dropout.
            down: What the client was sent last.
            mine: What it keeps.
            x: Inputs of the network.

        Returns:
            A row of logits per input.

        Example:
            >>> from perfed.methods.fedper import FedPer
            >>> from perfed.testing import federation, task
            >>> body, head = FedPer().init(task(), clients=2)
            >>> FedPer().predict(task().served, body, head, federation(2).x[:5]).shape
            torch.Size([5, 3])
        """

    def adapt(self, task: Task, down: Down, mine: Mine, data: Shard) -> tuple[Down, Mine]:
        """Return the states after what a client does before it is tested; by default nothing.

        Args:
            task: The network, in training mode.
            down: What the client was sent.
            mine: What it keeps.
            data: Its training samples.

        Returns:
            What takes the place of ``down`` and ``mine`` in `predict`; the next round does not see it.

        Example:
            >>> from perfed.methods.fedavgft import FedAvgFT
            >>> from perfed.testing import federation, task
            >>> method, net, data = FedAvgFT(), task(), federation(2)
            >>> model, nothing = method.init(net, clients=2)
            >>> tuned, _ = method.adapt(net, model, nothing, data.shard(0, 1, method.budget.batch_size, False))
            >>> bool((tuned["head.bias"] != model["head.bias"]).any())
            True
        """
        return down, mine

    def after(self, down: Down, up: Up) -> Down:
        """Return ``down`` as if the client had been sent its own answer, for tests right after training.

        Args:
            down: What the client was sent.
            up: What it answered.

        Returns:
            The message to predict with; by default the answer itself.

        Example:
            >>> from perfed.methods.fedavg import FedAvg
            >>> FedAvg().after({"w": 1}, {"w": 2})
            {'w': 2}
        """
        return up  # type: ignore[return-value]


def positive(method: str, symbol: str, value: float, advice: str) -> None:
    """Refuse a weight of zero or less that would turn a method into another one."""
    if not value > 0:
        raise MethodError(f"{method} needs {symbol} > 0, got {value:g}: {advice}")
