"""What is learned: a network in two parts, as pure functions of its parameters, and its loss."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from . import keys, trees
from .errors import InputError
from .local.losses import surprise
from .local.shard import Batch
from .trees import STATE, Params

Norm = Literal["all", "local_stats", "local_all"]
Mode = Literal["train", "still", "served"]
Precision = Literal["fp32", "bf16"]

_BATCH_NORMS = (nn.modules.batchnorm._BatchNorm,)
_UNSTEADY = (*_BATCH_NORMS, nn.modules.dropout._DropoutNd, nn.modules.instancenorm._InstanceNorm, nn.RReLU)


class _Sockets:
    """A module whose tensors are plugged in for one call: what ``functional_call`` does, looked up once instead of each time."""

    def __init__(self, module: nn.Module, names: dict[str, str]) -> None:
        self.module = module
        outer = {inner: name for name, inner in names.items()}
        own = dict(module.named_parameters()) | dict(module.named_buffers())
        called = {id(tensor): outer[inner] for inner, tensor in own.items()}  # a tensor in two places has one name
        self.places = [
            (kind, key, called[id(tensor)], tensor)
            for m in module.modules()
            for kind in (m._parameters, m._buffers)
            for key, tensor in kind.items()
            if tensor is not None
        ]

    def __call__(self, params: Params, x: Tensor) -> Tensor:
        places: list[tuple[dict[str, Any], str, str, Tensor]] = self.places
        try:
            for kind, key, name, _ in places:
                kind[key] = params[name]
            return self.module(x)  # type: ignore[no-any-return]
        finally:  # hold on to nobody's tensors
            for kind, key, _, own in places:
                kind[key] = own


class _Skeleton:
    """One module in training and in serving mode, and the tree's names of its tensors."""

    def __init__(self, name: str, module: nn.Module) -> None:
        self.name, self.training, self.serving = name, copy.deepcopy(module).train(), copy.deepcopy(module).eval()
        self.weights = {f"{name}.{k}": k for k, _ in module.named_parameters()}
        self.state = {f"{STATE}{name}.{k}": k for k, _ in module.named_buffers()}
        names = self.weights | self.state
        self.train, self.serve = _Sockets(self.training, names), _Sockets(self.serving, names)
        self.linears = [
            f"{name}.{k}.weight" if k else f"{name}.weight" for k, m in module.named_modules() if isinstance(m, nn.Linear)
        ]
        self.steady = all(type(m).__module__.startswith("torch.nn") and not isinstance(m, _UNSTEADY) for m in module.modules())
        self.norm_weights: set[str] = set()
        self.norm_state: set[str] = set()
        for prefix, m in module.named_modules():
            if isinstance(m, _BATCH_NORMS):  # by type: a name's substring would miss `downsample.1`
                path = f"{name}.{prefix}" if prefix else name
                self.norm_weights |= {f"{path}.{k}" for k, _ in m.named_parameters(recurse=False)}
                self.norm_state |= {f"{STATE}{path}.{k}" for k, _ in m.named_buffers(recurse=False)}

    def hollow(self) -> "_Skeleton":
        """Return the same module without numbers: what it computes with is plugged in."""
        return _Skeleton(self.name, copy.deepcopy(self.training).to("meta"))


@dataclass(frozen=True)
class Part:
    """A module as a function of its parameters; the task's mode decides how BatchNorm behaves."""

    skeleton: _Skeleton
    start: Params
    mode: Mode
    precision: Precision = "fp32"

    def params(self) -> Params:
        """Return fresh copies of the initial parameters and running state."""
        return trees.clone(self.start)

    def __call__(self, params: Params, x: Tensor) -> Tensor:
        s = self.skeleton
        module = s.serve if self.mode == "served" else s.train
        if s.state and self.mode == "still":
            params = params | {name: params[name].clone() for name in s.state}
        if self.precision == "bf16":
            with torch.autocast(x.device.type, torch.bfloat16):
                out = module(params, x)
            return out.float()
        return module(params, x)

    def take(self, params: Params) -> Params:
        """Return this part's leaves out of a larger dict."""
        return {k: params[k] for k in self.start}

    def hollow(self, *, keep: bool) -> "Part":
        """Return this part without the numbers of its module, and unless ``keep`` without those of its start."""
        start = self.start if keep else {k: v.to("meta") for k, v in self.start.items()}
        return replace(self, skeleton=self.skeleton.hollow(), start=start)

    def again(self) -> nn.Module:
        """Return a module of the same architecture, freshly drawn."""
        module = copy.deepcopy(self.skeleton.training).cpu()
        for layer in module.modules():
            if callable(draw := getattr(layer, "reset_parameters", None)):
                draw()
        return module

    @property
    def steady(self) -> bool:
        """Whether it surely takes samples one by one and is the same in training: no batch statistics, no dropout."""
        return self.mode == "served" or self.skeleton.steady

    @property
    def linears(self) -> list[str]:
        """Names of the weights of the linear layers, in order."""
        return self.skeleton.linears


@dataclass(frozen=True)
class Task:
    """A network with a ``body`` (features) and a ``head`` (classes), its start and its loss."""

    body: Part
    head: Part
    classes: int
    width: int  # K, size of the features between body and head
    seed: int = 0
    mode: Mode = "train"
    device: torch.device = torch.device("cpu")
    precision: Precision = "fp32"
    parts: dict[str, Part] = field(default_factory=dict)  # modules that methods insert, made on first use

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
        """Make a task of a module with children ``body`` and ``head`` whose tensors are the common start."""
        if not (isinstance(getattr(net, "body", None), nn.Module) and isinstance(getattr(net, "head", None), nn.Module)):
            raise InputError("a network needs children `body` and `head`; perfed.models.wrap finds them in any module")
        where = torch.device(device)
        body, head = (_part(name, net.get_submodule(name), where, precision) for name in ("body", "head"))
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
        """Return this task without the network's start, for serving; what methods insert keeps its own."""
        body, head = (part.hollow(keep=False) for part in (self.body, self.head))
        return replace(self, body=body, head=head, parts={name: part.hollow(keep=True) for name, part in self.parts.items()})

    def params(self) -> Params:
        """Return a fresh copy of the common start: parameters and running state."""
        return self.body.params() | self.head.params()

    def split(self, params: Params) -> tuple[Params, Params]:
        """Return the body's and the head's leaves."""
        return self.body.take(params), self.head.take(params)

    def features(self, params: Params, x: Tensor) -> Tensor:
        return self.body(params, x)

    def classify(self, params: Params, z: Tensor) -> Tensor:
        return self.head(params, z)

    def logits(self, params: Params, x: Tensor) -> Tensor:
        return self.head(params, self.body(params, x))

    def loss(self, params: Params, batch: Batch) -> Tensor:
        """Return the mean cross-entropy of a batch."""
        return cross_entropy(self.logits(params, batch.x), batch)

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
        """Return a module that a method inserts, drawn once from the task's seed and ``name``."""
        if name not in self.parts:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(keys.seed_of(keys.key(self.seed, "part", name)))
                self.parts[name] = _part(name, build(), self.device, self.precision)
        return replace(self.parts[name], mode=self.mode)

    @property
    def has_norm(self) -> bool:
        """Whether the network (not what a method inserts) has BatchNorm layers."""
        return bool(self.body.skeleton.norm_state or self.head.skeleton.norm_state)

    @property
    def needs_pairs(self) -> bool:
        """Whether something trained has BatchNorm, the network or what a method inserted: a batch of one would fail."""
        return bool(self.withheld("local_stats"))

    def withheld(self, norm: Norm) -> frozenset[str]:
        """Return the names of the leaves that stay with their client under a BatchNorm policy."""
        skeletons = [p.skeleton for p in (self.body, self.head, *self.parts.values())]
        stats = frozenset().union(*(s.norm_state for s in skeletons))
        affine = frozenset().union(*(s.norm_weights for s in skeletons))
        return {"all": frozenset[str](), "local_stats": stats, "local_all": stats | affine}[norm]


def _part(name: str, module: nn.Module, device: torch.device, precision: Precision) -> Part:
    module = module.to(device)
    skeleton = _Skeleton(name, module)
    tensors = dict(module.named_parameters()) | dict(module.named_buffers())
    start = {outer: tensors[inner].detach().clone() for outer, inner in (skeleton.weights | skeleton.state).items()}
    return Part(skeleton, start, "train", precision)


def cross_entropy(logits: Tensor, batch: Batch) -> Tensor:
    """Return the mean cross-entropy over the real samples of a batch."""
    if batch.mask is None:
        return F.cross_entropy(logits, batch.y)
    return batch.mean(surprise(logits, batch.y))
