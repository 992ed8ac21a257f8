"""Views: optional verbs by which analyses look inside a method, instead of knowing its name and its parts."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from torch import Tensor

from ..errors import MethodError
from ..task import Task
from ..trees import Params

Down = TypeVar("Down")
Up = TypeVar("Up")
Mine = TypeVar("Mine")

VIEWS = ("critical_masks", "heads", "pieces", "policies", "representations", "selected", "teams")


class Piece(NamedTuple):
    """A network that can be made of what a client uploads: its leaves, the function they make up, the width of its outputs.

    ``gains`` says of single leaves how many times farther the client went than its answer shows, where that is known.
    """

    names: list[str]
    forward: Callable[[Params, Tensor], Tensor]
    outputs: int
    gains: Mapping[str, float] = MappingProxyType({})


class Views(Generic[Down, Up, Mine]):
    """What a method can show of itself. All of it is optional; a method has the views that it defines."""

    title: ClassVar[str] = ""
    views: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.views = frozenset(name for name in VIEWS if getattr(cls, name) is not getattr(Views, name))

    def representations(self, task: Task, down: Down, mine: Mine, x: Tensor) -> dict[str, Tensor]:
        """View: return the representations that a client's model makes of ``x``, by name, where there are several.

        Args:
            task: The network, as it is served.
            down: What the client was sent.
            mine: What it keeps.
            x: Inputs of the network.

        Returns:
            Features by name, a row per input.

        Raises:
            MethodError: If the method does not show it.

        Example:
            >>> from perfed.methods.dualfed import DualFed
            >>> from perfed.testing import federation, task
            >>> net = task()
            >>> down, mine = DualFed().init(net, clients=2)
            >>> list(DualFed().representations(net.served, down, mine, federation(2).x[:5]))
            ['before the projector', 'after the projector']
        """
        raise self._blind("representations")

    def heads(self, task: Task, down: Down, mine: Mine, x: Tensor) -> dict[str, Tensor]:
        """View: return the logits of each classifier of a client, by name; what is served is made of them.

        Args:
            task: The network, as it is served.
            down: What the client was sent.
            mine: What it keeps.
            x: Inputs of the network.

        Returns:
            Logits by name, a row per input.

        Raises:
            MethodError: If the method does not show it.

        Example:
            >>> from perfed.methods.dualfed import DualFed
            >>> from perfed.testing import federation, task
            >>> net = task()
            >>> down, mine = DualFed().init(net, clients=2)
            >>> list(DualFed().heads(net.served, down, mine, federation(2).x[:5]))
            ['personal', 'global']
        """
        raise self._blind("heads")

    def policies(self, task: Task, down: Down, mine: Mine, x: Tensor) -> Tensor:
        """View: return, sample by sample, the share of each feature that goes to the personal head.

        Args:
            task: The network, as it is served.
            down: What the client was sent.
            mine: What it keeps.
            x: Inputs of the network.

        Returns:
            Shares between 0 and 1, samples × features.

        Raises:
            MethodError: If the method does not show it.

        Example:
            >>> from perfed.methods.fedcp import FedCP
            >>> from perfed.testing import federation, task
            >>> net = task()
            >>> down, mine = FedCP().init(net, clients=2)
            >>> FedCP().policies(net.served, down, mine, federation(2).x[:5]).shape
            torch.Size([5, 8])
        """
        raise self._blind("policies")

    def selected(self, task: Task, down: Down, mine: Mine, x: Tensor) -> Tensor:
        """View: return, sample by sample, which features the client uses: 1, or 0, or in between.

        Args:
            task: The network, as it is served.
            down: What the client was sent.
            mine: What it keeps.
            x: Inputs of the network.

        Returns:
            A mask, samples × features.

        Raises:
            MethodError: If the method does not show it.

        Example:
            >>> from perfed.methods.fedpick import FedPick
            >>> from perfed.testing import federation, task
            >>> net = task()
            >>> down, mine = FedPick().init(net, clients=2)
            >>> FedPick().selected(net.served, down, mine, federation(2).x[:5]).unique().tolist()
            [0.0, 1.0]
        """
        raise self._blind("selected")

    def critical_masks(self, up: Up) -> Params:
        """View: return which parameters a client's answer holds critical.

        Args:
            up: What the client answered.

        Returns:
            A mask per parameter.

        Raises:
            MethodError: If the method does not show it.

        Example:
            >>> import torch
            >>> from perfed.methods.fedcac import FedCAC, Up
            >>> FedCAC().critical_masks(Up({"w": torch.ones(2)}, {"w": torch.tensor([True, False])}))
            {'w': tensor([ True, False])}
        """
        raise self._blind("critical_masks")

    def teams(self, masks: Sequence[Params], number: int) -> Tensor:
        """View: return who works with whom in round ``number``, a row per client, given what each holds critical.

        Args:
            masks: What `critical_masks` shows of each client.
            number: The round, from 1.

        Returns:
            1 where two clients work together, with oneself; clients × clients.

        Raises:
            MethodError: If the method does not show it.

        Example:
            >>> import torch
            >>> from perfed.methods.fedcac import FedCAC
            >>> masks = [{"w": torch.tensor(m).bool()} for m in ([1, 1, 0], [1, 1, 0], [0, 0, 1])]
            >>> FedCAC().teams(masks, 1).tolist()
            [[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
        """
        raise self._blind("teams")

    def pieces(self, task: Task, down: Down) -> dict[str, Piece]:
        """View: return the networks that an attacker can make of an upload, by name, the most telling one last.

        Args:
            task: The network, with batch statistics that move nothing.
            down: What the client was sent.

        Returns:
            The leaves of each, the function that they make up, and the width of its outputs.

        Raises:
            MethodError: If the method does not show it.

        Example:
            >>> from perfed.methods.gpfl import GPFL
            >>> from perfed.testing import task
            >>> net = task()
            >>> list(GPFL().pieces(net.still, GPFL().init(net, clients=2)[0]))
            ['pseudo_extractor', 'pseudo_model']
        """
        raise self._blind("pieces")

    def _blind(self, view: str) -> MethodError:
        return MethodError(f"{self.title} does not show its {view.replace('_', ' ')}")
