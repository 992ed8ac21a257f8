"""What is learned: a network in two parts, as pure functions of its parameters, and its loss."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from .. import keys
from ..errors import InputError
from ..local.shard import Batch
from ..trees import Params
from .fits import Fits
from .part import Mode, Part, Precision, part_of

Norm = Literal["all", "local_stats", "local_all"]


@dataclass(frozen=True)
class Task(Fits):
    """A network with a ``body`` (features) and a ``head`` (classes) as pure functions of its parameters, and its loss.

    Args:
        body: Everything before the last layer.
        head: The classifier.
        classes: How many there are.
        width: K, the size of the features between body and head.
        seed: What modules that a method inserts are drawn from.
        mode: ``train`` moves BatchNorm's statistics, ``still`` uses those of the batch and moves none, ``served`` uses the
            running ones.
        device: Where tensors are.
        precision: ``fp32``, or ``bf16`` inside the network.
        parts: Modules that methods insert, made on first use.
        named: How the network is made again: its ``name``, ``options`` and number of words; nothing where it is an object.
        goal: ``classification``, ``multilabel``, ``regression`` or ``survival``: what labels are, and which loss fits them.
        objective: The name of the loss, or ``usual``.

    Example:
        >>> from torch import nn
        >>> import perfed
        >>> class Net(nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.body, self.head = nn.Linear(4, 8), nn.Linear(8, 3)
        >>> task = perfed.Task.of(Net(), (4,), classes=3)
        >>> task.width, sorted(task.params())
        (8, ['body.bias', 'body.weight', 'head.bias', 'head.weight'])
    """

    body: Part
    head: Part
    classes: int
    width: int  # K, size of the features between body and head
    seed: int = 0
    mode: Mode = "train"
    device: torch.device = torch.device("cpu")
    precision: Precision = "fp32"
    parts: dict[str, Part] = field(default_factory=dict)  # modules that methods insert, made on first use
    named: Mapping[str, Any] = field(default_factory=dict)  # name, options and words, by which the network is made again
    goal: str = "classification"
    objective: str = "usual"

    @staticmethod
    def of(
        net: nn.Module,
        shape: tuple[int, ...],
        classes: int,
        *,
        seed: int = 0,
        device: str | torch.device = "cpu",
        example: Tensor | None = None,
        precision: Precision = "fp32",
    ) -> "Task":
        """Make a task of a module whose tensors are the common start.

        Args:
            net: A module with children ``body`` and ``head``; `perfed.models.wrap` finds them in any module.
            shape: Of one input.
            classes: How many there are.
            seed: What modules that a method inserts are drawn from.
            device: Where tensors go.
            example: Two inputs or more, where zeros of ``shape`` would not do.
            precision: ``fp32``, or ``bf16`` inside the network.

        Returns:
            The task.

        Raises:
            InputError: If the module has no body and head, or they do not give features and scores.

        Example:
            >>> import perfed
            >>> from perfed.testing import Net
            >>> perfed.Task.of(Net(), (6,), classes=3).width
            8
        """
        if not (isinstance(getattr(net, "body", None), nn.Module) and isinstance(getattr(net, "head", None), nn.Module)):
            raise InputError("a network needs children `body` and `head`; perfed.models.wrap finds them in any module")
        where = torch.device(device)
        body, head = (part_of(name, net.get_submodule(name), where, precision) for name in ("body", "head"))
        x = torch.zeros(2, *shape, device=where) if example is None else example.to(where)
        with torch.no_grad():
            z = replace(body, mode="served")(body.params(), x)
            out = replace(head, mode="served")(head.params(), z) if z.dim() == 2 else z
        if z.dim() != 2 or out.shape != (len(x), classes):
            raise InputError(
                f"the body must give N×K features and the head N×{classes} scores; "
                f"they give {tuple(z.shape)} and {tuple(out.shape)}"
            )
        return Task(body, head, classes, z.shape[1], seed, device=where, precision=precision)

    def hollow(self) -> "Task":
        """Return this task without the network's start, for serving; what methods insert keeps its own.

        Returns:
            A task that computes the same with the parameters it is given.

        Example:
            >>> from perfed.testing import task
            >>> next(iter(task().hollow().body.start.values())).is_meta
            True
        """
        body, head = (part.hollow(keep=False) for part in (self.body, self.head))
        return replace(self, body=body, head=head, parts={name: part.hollow(keep=True) for name, part in self.parts.items()})

    def to(self, device: torch.device | str) -> "Task":
        """Return this task with its start, its frozen tensors and what methods inserted on a device.

        Args:
            device: Such as ``cpu`` or ``cuda``.

        Returns:
            The same task, elsewhere.

        Example:
            >>> from perfed.testing import task
            >>> task().to("meta").device
            device(type='meta')
        """
        body, head = self.body.to(device), self.head.to(device)
        parts = {name: part.to(device) for name, part in self.parts.items()}
        return replace(self, body=body, head=head, parts=parts, device=torch.device(device))

    @property
    def fixed(self) -> Params:
        """The network's frozen tensors, which no method sees and nothing sends."""
        return self.body.fixed | self.head.fixed

    def fixing(self, fixed: Params) -> "Task":
        """Return this task with other frozen tensors in place of its own.

        Args:
            fixed: Tensors by name, those of `fixed`.

        Returns:
            A task that computes with them.

        Example:
            >>> from perfed.testing import task
            >>> task().fixing({}).fixed
            {}
        """
        parts = (replace(part, fixed={name: fixed[name] for name in part.fixed}) for part in (self.body, self.head))
        return replace(self, **dict(zip(("body", "head"), parts, strict=True)))  # type: ignore[arg-type]

    def params(self) -> Params:
        """Return a fresh copy of the common start: parameters and running state.

        Returns:
            Tensors by name; running state has names that begin with ``~``.

        Example:
            >>> from perfed.testing import task
            >>> len(task().params())
            6
        """
        return self.body.params() | self.head.params()

    def split(self, params: Params) -> tuple[Params, Params]:
        """Return the body's and the head's leaves.

        Args:
            params: Tensors by name.

        Returns:
            Those of the body, and those of the head.

        Example:
            >>> from perfed.testing import task
            >>> body, head = task().split(task().params())
            >>> list(head)
            ['head.weight', 'head.bias']
        """
        return self.body.take(params), self.head.take(params)

    def features(self, params: Params, x: Tensor) -> Tensor:
        """Return what the body makes of inputs.

        Args:
            params: Tensors by name.
            x: Inputs of the network.

        Returns:
            Features, a row per input.

        Example:
            >>> from perfed.testing import federation, task
            >>> task().features(task().params(), federation(2).x[:5]).shape
            torch.Size([5, 8])
        """
        return self.body(params, x)

    def classify(self, params: Params, z: Tensor) -> Tensor:
        """Return what the head makes of features.

        Args:
            params: Tensors by name.
            z: Features.

        Returns:
            Logits, a row per input.

        Example:
            >>> import torch
            >>> from perfed.testing import task
            >>> task().classify(task().params(), torch.zeros(5, 8)).shape
            torch.Size([5, 3])
        """
        return self.head(params, z)

    def logits(self, params: Params, x: Tensor) -> Tensor:
        """Return what the network makes of inputs.

        Args:
            params: Tensors by name.
            x: Inputs of the network.

        Returns:
            Logits, a row per input.

        Example:
            >>> from perfed.testing import federation, task
            >>> task().logits(task().params(), federation(2).x[:5]).shape
            torch.Size([5, 3])
        """
        return self.head(params, self.body(params, x))

    def loss(self, params: Params, batch: Batch) -> Tensor:
        """Return the mean loss of a batch: the cross-entropy, or what fits another goal.

        Args:
            params: Tensors by name.
            batch: Inputs and labels.

        Returns:
            One number.

        Example:
            >>> from perfed.testing import federation, task
            >>> batch = next(federation(2).shard(0, 1, 10, False).epochs(1))
            >>> bool(task().loss(task().params(), batch) > 0)
            True
        """
        return self.fit(self.logits(params, batch.x), batch)

    @property
    def still(self) -> "Task":
        """This task with batch statistics that move nothing."""
        return self._in("still")

    @property
    def served(self) -> "Task":
        """This task as it is tested: running statistics."""
        return self._in("served")

    def _in(self, mode: Mode) -> "Task":
        if mode == self.mode:
            return self
        return replace(self, body=replace(self.body, mode=mode), head=replace(self.head, mode=mode), mode=mode)

    def part(self, name: str, build: Callable[[], nn.Module]) -> Part:
        """Return a module that a method inserts, drawn once from the task's seed and ``name``.

        Args:
            name: What it is called; its leaves' names begin with it.
            build: Makes it, the first time.

        Returns:
            The module as a function of its parameters.

        Example:
            >>> from torch import nn
            >>> from perfed.testing import task
            >>> list(task().part("valve", lambda: nn.Linear(8, 8)).params())
            ['valve.weight', 'valve.bias']
        """
        if name not in self.parts:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(keys.seed_of(keys.key(self.seed, "part", name)))
                self.parts[name] = part_of(name, build().to(self.dtype), self.device, self.precision)
        return replace(self.parts[name], mode=self.mode)

    @property
    def dtype(self) -> torch.dtype:
        """The type of the network's parameters."""
        own = (*self.body.start.values(), *self.head.start.values(), *self.fixed.values())
        return next(leaf.dtype for leaf in own if leaf.is_floating_point())

    @property
    def has_norm(self) -> bool:
        """Whether the network (not what a method inserts) has BatchNorm layers."""
        return bool(self.body.skeleton.norm_state or self.head.skeleton.norm_state)

    @property
    def needs_pairs(self) -> bool:
        """Whether something trained has BatchNorm, the network or what a method inserted: a batch of one would fail."""
        return bool(self.withheld("local_stats"))

    def withheld(self, norm: Norm) -> frozenset[str]:
        """Return the names of the leaves that stay with their client under a BatchNorm policy.

        Args:
            norm: ``all``, ``local_stats`` or ``local_all``.

        Returns:
            The names.

        Example:
            >>> from perfed.testing import task
            >>> sorted(task(norm=True).withheld("local_stats"))[-1]
            '~body.1.running_var'
        """
        skeletons = [p.skeleton for p in (self.body, self.head, *self.parts.values())]
        stats = frozenset().union(*(s.norm_state for s in skeletons))
        affine = frozenset().union(*(s.norm_weights for s in skeletons))
        return {"all": frozenset[str](), "local_stats": stats, "local_all": stats | affine}[norm]
