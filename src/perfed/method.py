"""The contract every method signs: five pure verbs on a frozen record, some optional ones, and what is known of it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

from torch import Tensor

from .errors import InputError, MethodError
from .local import Budget, Shard
from .server import Uploads, rule_of
from .task import Norm, Task
from .trees import Params
from .units import ruled

Server = TypeVar("Server")
Down = TypeVar("Down")
Up = TypeVar("Up")
Mine = TypeVar("Mine")

VIEWS = ("critical_masks", "heads", "pieces", "policies", "representations", "selected", "teams")  # optional, for analyses


class Piece(NamedTuple):
    """A network that can be made of what a client uploads: its leaves, the function they make up, the width of its outputs."""

    names: list[str]
    forward: Callable[[Params, Tensor], Tensor]
    outputs: int


@dataclass(frozen=True, kw_only=True)
class Method(ABC, Generic[Server, Down, Up, Mine]):
    """Fields are hyper-parameters; every state is an argument and a result.

    ``norm`` says who owns BatchNorm: ``all`` is averaged, ``local_stats`` keeps the running statistics at home,
    ``local_all`` keeps all of it.
    """

    budget: Budget = field(default_factory=Budget)
    norm: Norm = "local_stats"

    title: ClassVar[str] = "Method"  # how tables write it; the class's name unless it says otherwise
    needs: ClassVar[Literal["", "BatchNorm"]] = ""  # layers without which a network cannot be trained by it
    cost: ClassVar[float] = 1.0  # time of local training, FedAvg's is 1: for estimates before a run
    stacks: ClassVar[str] = ""  # why clients of this method cannot be stacked along an axis, if they cannot
    reveals: ClassVar[str] = ""  # what of the private state is uploaded as well, and why, if anything is
    counted: ClassVar[tuple[str, ...]] = ()  # fields of the private state that its paper counts as sent, though they are not
    views: ClassVar[frozenset[str]] = frozenset()  # which of VIEWS it has; filled in

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.title = cls.__dict__.get("title", cls.__name__)
        cls.views = frozenset(name for name in VIEWS if getattr(cls, name) is not getattr(Method, name))

    def __post_init__(self) -> None:
        """Refuse fields that cannot be right; a method with checks of its own calls this one first."""
        if (rule := getattr(self, "rule", None)) is not None:
            rule_of(rule)

    @classmethod
    def renamed(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return options under the names that fields have today: up to version 0.1.0 some methods called it ``weighting``."""
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
        usual = next((f.default for f in fields(self) if f.name == "rule"), None)
        return self.title if usual is None else ruled(self.title, getattr(self, "rule", usual), usual)

    @property
    def passes(self) -> int:
        """Passes over a client's training samples in one round, with those before a test; a silo's policy limits them."""
        return self.budget.epochs

    def check(self, task: Task, sizes: list[int], participants: int) -> None:
        """Refuse, in one sentence, what the method cannot do on this task and these clients."""

    @abstractmethod
    def init(self, task: Task, clients: int) -> tuple[Server, Mine]:
        """Return the server's state and the private state every client starts from."""

    @abstractmethod
    def send(self, server: Server, client: int) -> Down:
        """Return what the server tells one client; ``send = broadcast`` tells everybody everything."""

    def forms(self, server: Server) -> list[Down]:
        """Return a message of every form that `send` gives messages over a run; a silo accepts no other."""
        return [self.send(server, 0)]

    @abstractmethod
    def local(self, task: Task, down: Down, mine: Mine, data: Shard) -> tuple[Up, Mine]:
        """Return what one client answers and what it keeps to itself."""

    @abstractmethod
    def merge(self, server: Server, ups: Uploads[Up]) -> Server:
        """Return the server's next state, given the answers; ``merge = average`` takes their mean."""

    @abstractmethod
    def predict(self, task: Task, down: Down, mine: Mine, x: Tensor) -> Tensor:
        """Return the logits one client would serve for ``x``."""

    def adapt(self, task: Task, down: Down, mine: Mine, data: Shard) -> tuple[Down, Mine]:
        """Return the states after what a client does before it is tested; by default nothing."""
        return down, mine

    def after(self, down: Down, up: Up) -> Down:
        """Return ``down`` as if the client had been sent its own answer, for tests right after training."""
        return up  # type: ignore[return-value]

    # Views: what analyses ask a method to show of itself. All are optional; a method has those that it defines (`views`).

    def representations(self, task: Task, down: Down, mine: Mine, x: Tensor) -> dict[str, Tensor]:
        """View: return the representations that a client's model makes of ``x``, by name, where there are several."""
        raise self._blind("representations")

    def heads(self, task: Task, down: Down, mine: Mine, x: Tensor) -> dict[str, Tensor]:
        """View: return the logits of each classifier of a client, by name; what is served is made of them."""
        raise self._blind("heads")

    def policies(self, task: Task, down: Down, mine: Mine, x: Tensor) -> Tensor:
        """View: return, sample by sample, the share of each feature that goes to the personal head."""
        raise self._blind("policies")

    def selected(self, task: Task, down: Down, mine: Mine, x: Tensor) -> Tensor:
        """View: return, sample by sample, which features the client uses: 1, or 0, or in between."""
        raise self._blind("selected")

    def critical_masks(self, up: Up) -> Params:
        """View: return which parameters a client's answer holds critical."""
        raise self._blind("critical_masks")

    def teams(self, masks: Sequence[Params], number: int) -> Tensor:
        """View: return who works with whom in round ``number``, a row per client, given what each holds critical."""
        raise self._blind("teams")

    def pieces(self, task: Task, down: Down) -> dict[str, Piece]:
        """View: return the networks that an attacker can make of an upload, by name, the most telling one last."""
        raise self._blind("pieces")

    def _blind(self, view: str) -> MethodError:
        return MethodError(f"{self.title} does not show its {view.replace('_', ' ')}")


def positive(method: str, symbol: str, value: float, advice: str) -> None:
    """Refuse a weight of zero or less that would turn a method into another one."""
    if not value > 0:
        raise MethodError(f"{method} needs {symbol} > 0, got {value:g}: {advice}")
