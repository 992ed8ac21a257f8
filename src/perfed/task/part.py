"""A module as a function of its parameters."""

import copy
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from .. import trees
from ..local.private import kinds
from ..trees import STATE, Params

Mode = Literal["train", "still", "served"]
Precision = Literal["fp32", "bf16"]

_BATCH_NORMS = kinds("_BatchNorm")
_UNSTEADY = (*_BATCH_NORMS, *kinds("_DropoutNd"), *kinds("_InstanceNorm"), nn.RReLU)


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
        self.name, self.training = name, copy.deepcopy(module).train()
        frozen = frozen_in(self.training)
        shared: dict[int, Any] = {id(tensor): tensor for tensor in frozen.values()}
        self.serving = copy.deepcopy(self.training, shared).eval()  # what is frozen is there once
        still = _resting(self.training, frozen)
        for m in still:
            m.eval()  # statistics of a frozen BatchNorm do not move
        self.weights = {f"{name}.{k}": k for k, _ in module.named_parameters()}
        self.state = {f"{STATE}{name}.{k}": k for k, _ in module.named_buffers()}
        names = self.weights | self.state
        self.train, self.serve = _Sockets(self.training, names), _Sockets(self.serving, names)
        self.linears = [
            f"{name}.{k}.weight" if k else f"{name}.weight" for k, m in module.named_modules() if isinstance(m, nn.Linear)
        ]
        self.frozen = {outer for outer, inner in names.items() if inner in frozen}
        self.steady = all(
            type(m).__module__.startswith("torch.nn") and (not isinstance(m, _UNSTEADY) or m in still)
            for m in self.training.modules()
        )
        self.norm_weights: set[str] = set()
        self.norm_state: set[str] = set()
        for prefix, m in self.training.named_modules():
            if isinstance(m, _BATCH_NORMS) and m not in still:  # by type: a name's substring would miss `downsample.1`
                path = f"{name}.{prefix}" if prefix else name
                self.norm_weights |= {f"{path}.{k}" for k, _ in m.named_parameters(recurse=False)}
                self.norm_state |= {f"{STATE}{path}.{k}" for k, _ in m.named_buffers(recurse=False)}

    def hollow(self) -> "_Skeleton":
        """Return the same module without numbers: what it computes with is plugged in."""
        return _Skeleton(self.name, copy.deepcopy(self.training).to("meta"))


def frozen_in(module: nn.Module) -> dict[str, Tensor]:
    """Return what of a module is never trained, by name: parameters without a gradient, and buffers of layers that have no other.

    A module of which every parameter is trained has nothing frozen.
    """
    frozen: dict[str, Tensor] = {name: leaf for name, leaf in module.named_parameters() if not leaf.requires_grad}
    if not frozen:
        return {}
    for name, leaf in module.named_buffers():
        if not any(own.requires_grad for own in module.get_submodule(name.rpartition(".")[0]).parameters()):
            frozen[name] = leaf
    return frozen


def _resting(module: nn.Module, frozen: dict[str, Tensor]) -> set[nn.Module]:
    """Return the BatchNorm layers all of whose tensors are frozen."""
    norms = {f"{prefix}." if prefix else "": m for prefix, m in module.named_modules() if isinstance(m, _BATCH_NORMS)}
    own = {prefix: [*m.named_parameters(), *m.named_buffers()] for prefix, m in norms.items()}
    return {m for prefix, m in norms.items() if own[prefix] and all(f"{prefix}{name}" in frozen for name, _ in own[prefix])}


@dataclass(frozen=True)
class Part:
    """A module as a function of its parameters; the task's mode decides how BatchNorm behaves.

    ``fixed`` are its frozen tensors: no method sees them, so they are neither trained nor sent nor kept for every client.
    """

    skeleton: _Skeleton
    start: Params
    mode: Mode
    precision: Precision = "fp32"
    fixed: Params = field(default_factory=dict)

    def params(self) -> Params:
        """Return fresh copies of the initial parameters and running state."""
        return trees.clone(self.start)

    def __call__(self, params: Params, x: Tensor) -> Tensor:
        s = self.skeleton
        module = s.serve if self.mode == "served" else s.train
        if s.state and self.mode == "still":
            params = params | {name: params[name].clone() for name in s.state if name not in s.frozen}
        if self.fixed:
            params = params | self._fixed(params, x)
        if self.precision == "bf16":
            with torch.autocast(x.device.type, torch.bfloat16):
                out = module(params, x)
            return out.float()
        return module(params, x)

    def _fixed(self, params: Params, x: Tensor) -> Params:
        """Return the frozen tensors in the precision of the others, which analyses raise."""
        kind = next((params[k].dtype for k in self.start if params[k].is_floating_point()), x.dtype)
        if not kind.is_floating_point or all(v.dtype == kind for v in self.fixed.values() if v.is_floating_point()):
            return self.fixed
        return {k: v.to(kind) if v.is_floating_point() else v for k, v in self.fixed.items()}

    def take(self, params: Params) -> Params:
        """Return this part's leaves out of a larger dict."""
        return {k: params[k] for k in self.start}

    def hollow(self, *, keep: bool) -> "Part":
        """Return this part without the numbers of its module, and unless ``keep`` without those of its start."""
        start, fixed = (own if keep else {k: v.to("meta") for k, v in own.items()} for own in (self.start, self.fixed))
        return replace(self, skeleton=self.skeleton.hollow(), start=start, fixed=fixed)

    def to(self, device: torch.device | str) -> "Part":
        """Return this part with its start and what is frozen on a device; the module's own tensors are never computed with."""
        return replace(self, start=trees.to(self.start, device), fixed=trees.to(self.fixed, device))

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


def part_of(name: str, module: nn.Module, device: torch.device, precision: Precision) -> Part:
    """Return a module as a part whose tensors are its start."""
    module = module.to(device)
    skeleton = _Skeleton(name, module)
    tensors = dict(module.named_parameters()) | dict(module.named_buffers())
    own = {outer: tensors[inner].detach() for outer, inner in (skeleton.weights | skeleton.state).items()}
    start = {outer: leaf.clone() for outer, leaf in own.items() if outer not in skeleton.frozen}
    inside = frozen_in(skeleton.training)
    names = skeleton.weights | skeleton.state
    fixed = {outer: inside[names[outer]].detach() for outer in own if outer in skeleton.frozen}
    return Part(skeleton, start, "train", precision, fixed)
