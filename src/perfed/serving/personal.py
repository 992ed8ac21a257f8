"""One client's model as an ordinary module, with its own tensors and nobody's samples."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from .. import trees
from ..errors import InputError, suggest
from ..federation import PARTS, Federation
from ..local import Inputs
from ..method import Method
from ..task import Task
from ..transport import Private, Site, Store
from ..trees import Tree

BATCH = 256  # samples at once when a file is compared with the model that it was made of
AnyMethod = Method[Any, Any, Any, Any]


@dataclass(frozen=True)
class Made:
    """What a model is made of besides its tensors."""

    method: AnyMethod
    task: Task
    inputs: Inputs
    stored: Tensor  # no sample, of the form that one has


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

    method: AnyMethod
    task: Task
    inputs: Inputs
    stored: Tensor
    like: Tree  # the form of its states, without their numbers
    facts: dict[str, Any]

    def __init__(self, site: Site, down: Tree, private: Private, client: int, number: int) -> None:
        super().__init__()
        down, mine = site.adapted(client, site.withheld.overlay(down, private.kept), private.mine, number)
        federation = site.federation
        self.client, self.name, self.number = client, federation.names[client], number
        self.facts = _facts(federation, client)  # what a user of the model must know of its data
        self.columns = None if federation.columns is None else federation.columns[client]  # of a table, as it was coded
        stored = federation.x.new_empty(0, *federation.x.shape[1:])  # a stored sample's form, and none of them
        whole = {"down": down, "mine": mine, "frozen": site.task.fixed}
        self._hold(site.method, site.task.hollow(), federation.inputs, stored, whole)

    @classmethod
    def again(cls, made: "Made", whole: Tree, name: str, number: int) -> "PersonalModel":
        """Return the model of a file: what it is made of by name, and its tensors."""
        self = cls.__new__(cls)
        nn.Module.__init__(self)
        self.client, self.name, self.number, self.facts = 0, name, number, {}
        self._hold(made.method, made.task, made.inputs, made.stored, whole)
        return self

    def _hold(self, method: AnyMethod, task: Task, inputs: Inputs, stored: Tensor, whole: Tree) -> None:
        self.method, self.inputs, self.stored, self.task = method, inputs, stored, task
        self.like = trees.map(lambda leaf: leaf.new_empty(0), whole)
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
        whole = trees.rebuild(self.like, leaves)
        task = (self.task if self.training else self.task.served).fixing(whole["frozen"])
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


@torch.no_grad()
def scores_of(model: PersonalModel, x: Tensor, batch: int = BATCH) -> Tensor:
    """Return the model's scores of stored samples as it serves."""
    before = model.training
    place = next((leaf.device for _, leaf in model.tensors()), x.device)
    try:
        return torch.cat([model.eval().raw(part.to(place)).cpu() for part in torch.split(x, batch)])
    finally:
        model.train(before)


def _facts(federation: Federation, client: int) -> dict[str, Any]:
    """Return the classes' names, the words and columns where there are any, and how many samples the client has."""
    data: dict[str, Any] = {part: len(getattr(federation, part)[client]) for part in PARTS}
    found: dict[str, Any] = {"data": data}
    data["clients"] = len(federation)
    if federation.source is not None:
        found["classes"], found["task"] = list(federation.source[0].classes), federation.source[0].task
        data["name"] = federation.source[0].name
    if federation.columns is not None:
        found["columns"] = federation.columns[client].as_json()
    if federation.vocabulary is not None:
        found["vocabulary"] = list(federation.vocabulary.words)
    return found


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
