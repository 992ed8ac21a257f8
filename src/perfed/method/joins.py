"""Newcomers: two optional verbs that say what a client who comes later receives, and how it fits its own parts."""

from typing import Any, ClassVar, Generic, TypeVar

from .. import trees
from ..errors import MethodError
from ..local import Shard, holding
from ..server import broadcast
from ..task import Norm, Task
from .views import Down, Mine, Up, Views

Server = TypeVar("Server")


class Joins(Views[Down, Up, Mine], Generic[Server, Down, Up, Mine]):
    """How a method takes a newcomer in; the defaults are right where everyone is sent the same."""

    norm: Norm

    newcomer: ClassVar[str] = ""  # what a newcomer is sent | what it then does | whose choice that is, for lists and pages

    def admit(self, server: Server) -> Server:
        """Return the server's state with a place for one more client, who has never taken part; its number is the last.

        `send` then says what that newcomer receives. A server that holds nothing about single clients needs no place.

        Args:
            server: The server's state; it is not changed.

        Returns:
            The state that the newcomer is told from, and that a running experiment goes on with.

        Raises:
            MethodError: If a client is sent something of its own and the method does not say what a newcomer gets.

        Example:
            >>> from perfed.methods.fedper import FedPer
            >>> from perfed.testing import task
            >>> body, head = FedPer().init(task(), clients=2)
            >>> FedPer().admit(body) is body
            True
        """
        if getattr(type(self), "send", None) is broadcast:
            return server
        raise MethodError(f"{self.title} sends every client a message of its own and does not say what a newcomer gets (admit)")

    def join(self, task: Task, down: Down, mine: Mine, data: Shard) -> tuple[Down, Mine]:
        """Return the states after a newcomer has fitted its own parts; nothing of it is sent.

        By default it trains as in a round, but what it was sent is held still; under a BatchNorm policy what stays at home
        is its own.

        Args:
            task: The network, in training mode.
            down: What the newcomer was sent.
            mine: The private state that every client starts from.
            data: Its training samples; ``budget.epochs`` is how often it may visit them.

        Returns:
            What takes the place of ``down`` and ``mine`` in `adapt` and `predict`.

        Example:
            >>> from perfed.methods.fedper import FedPer
            >>> from perfed.testing import federation, task
            >>> method, net, data = FedPer(), task(), federation(2)
            >>> body, head = method.init(net, clients=2)
            >>> same, fitted = method.join(net, body, head, data.shard(0, 1, method.budget.batch_size, False))
            >>> same.keys() == body.keys(), all(same[name] is body[name] for name in body)
            (True, True)
            >>> bool((fitted["head.bias"] == head["head.bias"]).any())
            False
        """
        own = task.withheld(self.norm)
        with holding(leaf for path, leaf in trees.named(down) if path.rpartition("/")[2] not in own):
            up, mine = self.local(task, down, mine, data)  # type: ignore[attr-defined]
        return self.after(down, up), mine  # type: ignore[attr-defined]


def as_in_a_round(method: Any, task: Task, down: Down, mine: Mine, data: Shard) -> tuple[Down, Mine]:
    """As a method's ``join``: train as in a round and keep what is private, where that is a whole model of one's own.

    Args:
        method: The method.
        task: The network, in training mode.
        down: What the newcomer was sent.
        mine: The private state that every client starts from.
        data: Its training samples.

    Returns:
        What was sent, and the private state after a round's training; the answer is forgotten.

    Example:
        >>> from perfed.methods.fedproto import FedProto
        >>> from perfed.testing import federation, task
        >>> method, net, data = FedProto(), task(), federation(2)
        >>> prototypes, model = method.init(net, clients=2)
        >>> method.join(net, prototypes, model, data.shard(0, 1, 10, False))[0] is prototypes
        True
    """
    return down, method.local(task, down, mine, data)[1]
