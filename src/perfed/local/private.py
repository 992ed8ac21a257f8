"""What perfed uses of torch that torch calls private: in this file alone, each with a public way to the same numbers."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

try:  # vmap from inside: which axis it hides, and the tensors behind it
    from torch._C import _functorch as _hidden
    from torch._functorch import pyfunctorch as _stack

    VMAP = all(
        hasattr(_hidden, name)
        for name in ("peek_interpreter_stack", "is_batchedtensor", "get_unwrapped", "maybe_get_bdim", "_add_batch_dim")
    ) and hasattr(_stack, "temporarily_clear_interpreter_stack")
except ImportError:  # pragma: no cover - another torch
    VMAP = False

FOREACH = all(hasattr(torch, f"_foreach_{what}") for what in ("add_", "mul_", "sub"))  # many small steps in one call

_NORMS = ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm")
_DROPOUTS = ("Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout")
_INSTANCES = ("InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d")


def kinds(base: str) -> tuple[type[nn.Module], ...]:
    """Return the classes of layers that share a private base: batch norms, dropouts or instance norms."""
    home, public = {
        "_BatchNorm": ("batchnorm", _NORMS),
        "_DropoutNd": ("dropout", _DROPOUTS),
        "_InstanceNorm": ("instancenorm", _INSTANCES),
    }[base]
    found = getattr(getattr(nn.modules, home), base, None)
    return (found,) if found is not None else tuple(getattr(nn, name) for name in public)


def add(params: Sequence[Tensor], slopes: Sequence[Tensor], alpha: float) -> None:
    """Add ``alpha`` times ``slopes`` to ``params``, in place."""
    if FOREACH and params:
        torch._foreach_add_(list(params), list(slopes), alpha=alpha)
        return
    for p, g in zip(params, slopes, strict=True):
        p.add_(g, alpha=alpha)


def gaps(here: Sequence[Tensor], there: Sequence[Tensor]) -> list[Tensor]:
    """Return how far ``here`` is from ``there``."""
    if FOREACH and here:
        return list(torch._foreach_sub(list(here), list(there)))
    return [x - y for x, y in zip(here, there, strict=True)]


def scale(tensors: Sequence[Tensor], factor: float) -> None:
    """Multiply ``tensors`` by ``factor``, in place."""
    if FOREACH and tensors:
        torch._foreach_mul_(list(tensors), factor)
        return
    for x in tensors:
        x.mul_(factor)


def rows(sparse: Tensor) -> tuple[Tensor, Tensor]:
    """Return which rows a sparse slope touches, and by how much; a row may come twice."""
    if hasattr(sparse, "_indices") and hasattr(sparse, "_values"):
        return sparse._indices()[0], sparse._values()
    whole = sparse.coalesce()
    return whole.indices()[0], whole.values()


def bf16() -> bool:
    """Whether this processor has instructions for bf16."""
    if hasattr(torch.cpu, "get_capabilities"):
        return bool(torch.cpu.get_capabilities().get("avx512_bf16", False))
    asked = getattr(torch.cpu, "_is_avx512_bf16_supported", None)
    return bool(asked and asked())


def stacked(seen: Tensor) -> bool:
    """Whether clients are along an axis that vmap hides; ``seen`` is something that each has of its own."""
    if VMAP:
        return _hidden.peek_interpreter_stack() is not None
    try:
        seen.item()
    except RuntimeError:  # one number per client is not one number
        return True
    return False


@contextmanager
def unstacked() -> Iterator[None]:
    """Within it, tensors are those of all clients."""
    with _stack.temporarily_clear_interpreter_stack():
        yield


class Axis:
    """The axis that vmap hides: tensors as a client sees them, and the tensors behind, clients first."""

    def __init__(self) -> None:
        vmap: Any = _stack.retrieve_current_functorch_interpreter()  # rather than a leaf: clients may share all of their start
        assert isinstance(vmap, _stack.VmapInterpreter)
        self.level, self.clients = vmap.level(), vmap.batch_size()

    def behind(self, seen: Tensor) -> Tensor:
        """Return the tensor of all clients behind ``seen``; what is the same for all is repeated."""
        if not _hidden.is_batchedtensor(seen):
            return seen.expand(self.clients, *seen.shape)
        inner: Tensor = _hidden.get_unwrapped(seen)
        return inner.movedim(_hidden.maybe_get_bdim(seen), 0)

    def before(self, inner: Tensor) -> Tensor:
        """Return ``inner``, whose first axis is clients, as each of them sees it."""
        made: Tensor = _hidden._add_batch_dim(inner, 0, self.level)
        return made


@contextmanager
def without_compiler() -> Iterator[None]:
    """Within it, operations on shapes do not import torch's compiler (a second and 70 MB), which they ask for and do not need.

    They import it to be left alone by it. A stand-in leaves them alone too; what they remember of it is forgotten at the end.
    Where the compiler is imported already, or asked for anything else, it is the real one.
    """
    name = "torch._dynamo"
    if name in sys.modules:
        yield
        return
    asked: list[Any] = []

    def disable(function: Callable[..., Any], *_: Any, **__: Any) -> Callable[..., Any]:
        asked.append(function)
        return function

    def real(attribute: str) -> Any:
        sys.modules.pop(name, None)
        return getattr(import_module(name), attribute)

    stand_in = ModuleType(name)
    vars(stand_in).update(disable=disable, __getattr__=real)
    sys.modules[name] = stand_in
    try:
        yield
    finally:
        if sys.modules.get(name) is stand_in:
            del sys.modules[name]
        for function in asked:
            vars(function).pop("__dynamo_disable", None)
