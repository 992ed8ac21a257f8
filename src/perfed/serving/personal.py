"""One client's model as an ordinary module, with its own tensors and nobody's samples."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from .. import trees
from ..errors import InputError, suggest
from ..local import Inputs
from ..method import Method
from ..task import Task
from ..transport import Private, Site, Store
from ..trees import Tree


class PersonalModel(nn.Module):
    """One client's model: network inputs, or stored samples through ``raw``, to scores.

    Its tensors are its own: what is learned are parameters that an optimiser finds, running statistics are buffers.
    ``train()`` and ``eval()`` switch BatchNorm and dropout as in any module; it begins in ``eval()``. Gradients flow unless
    they are switched off.

    Args:
        site: the method, the task and the data it was trained with; only method, task and preprocessing are kept.
        down: what the server sends to the client.
        private: what the client keeps to itself.
        client: its number.
        number: the round after which this is the model.

    Example:
        >>> import perfed
        >>> clients = perfed.federate("digits", clients=3, partition="iid")
        >>> model = perfed.train(clients, "fedper", rounds=1, progress=False).model(0)
        >>> model
        PersonalModel(FedPer, client 0, after round 1, 4,810 parameters)
        >>> model.raw(clients.x[:2]).shape
        torch.Size([2, 10])
    """

    def __init__(self, site: Site, down: Tree, private: Private, client: int, number: int) -> None:
        super().__init__()
        down, mine = site.adapted(client, site.withheld.overlay(down, private.kept), private.mine, number)
        whole = {"down": down, "mine": mine, "frozen": site.task.fixed}
        self.client, self.name, self.number = client, site.federation.names[client], number
        self.method: Method = site.method  # type: ignore[type-arg]
        self.inputs: Inputs = site.federation.inputs
        self.stored = site.federation.x.new_empty(0, *site.federation.x.shape[1:])  # a stored sample's form, and none of them
        self._task: Task = site.task.hollow()
        self._like = trees.map(lambda leaf: leaf.new_empty(0), whole)
        self._names = []
        for path, leaf in trees.named(whole):
            name = path.replace(".", "_")
            self._names.append(name)
            own = leaf.detach().clone()
            if own.is_floating_point() and not trees.is_state(path) and not path.startswith("frozen/"):
                self.register_parameter(name, nn.Parameter(own))
            else:
                self.register_buffer(name, own)
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        """Return the scores of network inputs."""
        return self.scores([leaf for _, leaf in self.tensors()], x)

    def tensors(self) -> list[tuple[str, Tensor]]:
        """Return the model's tensors by name, in the order of its tree."""
        return [(name, getattr(self, name)) for name in self._names]

    def scores(self, leaves: Sequence[Tensor], x: Tensor) -> Tensor:
        """Return the scores of network inputs with other tensors in the own ones' places."""
        whole = trees.rebuild(self._like, leaves)
        task = (self._task if self.training else self._task.served).fixing(whole["frozen"])
        return self.method.predict(task, whole["down"], whole["mine"], x)

    def raw(self, x: Tensor) -> Tensor:
        """Return the scores of samples as they are stored (uint8 images, tokens, …)."""
        return self(self.inputs(x, None))  # type: ignore[no-any-return]

    def extra_repr(self) -> str:
        count = sum(leaf.numel() for leaf in self.parameters())
        return f"{type(self.method).__name__}, {self.name}, after round {self.number}, {count:,} parameters"

    def __repr__(self) -> str:
        return f"PersonalModel({self.extra_repr()})"

    def _repr_html_(self) -> str:
        from html import escape

        return f"<code>{escape(repr(self))}</code>"


@dataclass(frozen=True)
class Trained:
    """One seed of a federation after a round: the server's state, and every client's own."""

    site: Site
    server: Tree
    store: Store
    number: int  # the round

    def model(self, client: int | str) -> PersonalModel:
        """Return the model that a client takes home.

        Args:
            client: its number, from 0, or its name.
        """
        place = self.place(client)
        return PersonalModel(self.site, self.site.method.send(self.server, place), self.store[place], place, self.number)

    def place(self, client: int | str) -> int:
        """Return a client's number."""
        names = self.site.federation.names
        if isinstance(client, str):
            if client not in names:
                raise suggest("client", client, names)
            return names.index(client)
        if isinstance(client, bool) or not isinstance(client, int) or not 0 <= client < len(names):
            raise InputError(f"there is no client {client}; clients are numbered 0 to {len(names) - 1}")
        return client
