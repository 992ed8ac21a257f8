"""Arithmetic on trees: nested dicts and NamedTuples whose leaves are tensors."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

T = TypeVar("T")
Tree = Any
Params = dict[str, Tensor]

STATE = "~"  # a dict key that begins so names running state: carried along, never differentiated


def map(f: Callable[..., Any], tree: T, *rest: Any) -> T:
    """Apply ``f`` leaf by leaf to trees of the same shape; return a tree of that shape."""
    if isinstance(tree, Tensor):
        return f(tree, *rest)  # type: ignore[no-any-return]
    if isinstance(tree, dict):
        for other in rest:
            if other.keys() != tree.keys():
                raise ValueError(f"trees differ in {sorted(tree.keys() ^ other.keys())}")
        return {k: map(f, v, *(r[k] for r in rest)) for k, v in tree.items()}  # type: ignore[return-value]
    if isinstance(tree, tuple):
        for other in rest:
            if len(other) != len(tree):
                raise ValueError(f"trees differ: {len(tree)} and {len(other)} branches")
        branches = [map(f, v, *(r[i] for r in rest)) for i, v in enumerate(tree)]
        return type(tree)(*branches) if hasattr(tree, "_fields") else tuple(branches)  # type: ignore[return-value]
    raise TypeError(f"a tree is made of dicts, NamedTuples and tensors, not {type(tree).__name__}")


def named(tree: Tree, path: str = "") -> Iterator[tuple[str, Tensor]]:
    """Yield every leaf with its path, parts joined by ``/``."""
    if isinstance(tree, Tensor):
        yield path, tree
    else:
        fields = tree.items() if isinstance(tree, dict) else zip(names(tree), tree, strict=True)
        for name, branch in fields:
            yield from named(branch, f"{path}/{name}" if path else name)


def names(branches: tuple[Any, ...]) -> tuple[str, ...]:
    """Return the names of a tuple's branches; plain tuples count."""
    return getattr(branches, "_fields", None) or tuple(str(i) for i in range(len(branches)))


def select(mask: Tensor, one: Tensor, other: Tensor) -> Tensor:
    """Return ``one`` where a mask holds and ``other`` elsewhere, to the bit; on a processor ten times as fast as ``where``."""
    if one.dtype is not torch.float32 or other.dtype is not torch.float32 or one.device.type != "cpu":
        return torch.where(mask, one, other)
    first, second = one.view(torch.int32), other.view(torch.int32)
    return first.bitwise_xor(second).bitwise_and_(mask.int().neg_()).bitwise_xor_(second).view(torch.float32)


def leaves(tree: Tree) -> list[Tensor]:
    """Return the leaves in order."""
    if isinstance(tree, Tensor):
        return [tree]
    return [leaf for branch in (tree.values() if isinstance(tree, dict) else tree) for leaf in leaves(branch)]


def rebuild(tree: T, new: Sequence[Tensor]) -> T:
    """Return a tree shaped as ``tree`` with the leaves ``new``."""
    rest = iter(new)
    return map(lambda _: next(rest), tree)


def is_state(path: str) -> bool:
    """Whether a leaf is running state rather than a parameter."""
    return path.rpartition("/")[2].startswith(STATE)


def weights(params: Params) -> Params:
    """Return a network's parameters without its running state."""
    return {k: v for k, v in params.items() if not is_state(k)}


def state(params: Params) -> Params:
    """Return a network's running state alone."""
    return {k: v for k, v in params.items() if is_state(k)}


def clone(tree: T) -> T:
    return map(lambda x: x.detach().clone(), tree)


def to(tree: T, device: torch.device | str) -> T:
    return map(lambda x: x.to(device), tree)


def where(mask: Any, yes: T, no: T) -> T:
    return map(lambda a, m, b: torch.where(m, a, b), yes, mask, no)


def lerp(start: T, end: Any, weight: Any) -> T:
    """Return ``start`` moved towards ``end`` by ``weight``; whole numbers are rounded."""

    def blend(a: Tensor, b: Tensor) -> Tensor:
        mixed = a + weight * (b - a)
        return mixed if a.is_floating_point() else torch.round(mixed).to(a.dtype)

    return map(blend, start, end)


def dot(a: Tree, b: Tree) -> Tensor:
    """Return the inner product of two trees."""
    return torch.stack([(x * y).sum() for x, y in zip(leaves(a), leaves(b), strict=True)]).sum()


def square_distance(a: Tree, b: Tree) -> Tensor:
    """Return the squared Euclidean distance of two trees."""
    return torch.stack([(x - y).square().sum() for x, y in zip(leaves(a), leaves(b), strict=True)]).sum()


def stack(trees: Sequence[T]) -> T:
    """Return one tree whose leaves have a new first axis."""
    return map(lambda *x: torch.stack(x), trees[0], *trees[1:])


def pick(tree: T, index: Any) -> T:
    """Return row ``index`` of every leaf."""
    return map(lambda x: x[index], tree)


def put(tree: T, index: Any, row: Any) -> T:
    """Return ``tree`` with row ``index`` of every leaf replaced."""
    return map(lambda x, r: x.index_copy(0, torch.as_tensor(index, device=x.device).reshape(-1), r[None]), tree, row)


def repeat(tree: T, count: int) -> T:
    """Return ``count`` copies along a new first axis."""
    return map(lambda x: x.expand(count, *x.shape).clone(), tree)


def flat(tree: Tree) -> Tensor:
    """Return all leaves as one vector."""
    return torch.cat([x.reshape(-1) for x in leaves(tree)])


def equal(a: Tree, b: Tree) -> bool:
    """Whether two trees agree in names, types and every bit."""
    one, two = dict(named(a)), dict(named(b))
    return one.keys() == two.keys() and all(one[k].dtype == two[k].dtype and torch.equal(one[k], two[k]) for k in one)


def finite(tree: Tree) -> bool:
    """Whether no floating-point leaf holds NaN or infinity."""
    return all(bool(torch.isfinite(x).all()) for x in leaves(tree) if x.is_floating_point())


def nbytes(tree: Tree) -> int:
    """Return the payload in bytes; booleans count one bit each."""
    return sum(size_of(x) for x in leaves(tree))


def memory(tree: Tree) -> int:
    """Return what all leaves weigh in memory and in a file, in bytes."""
    return sum(x.numel() * x.element_size() for x in leaves(tree))


def size_of(x: Tensor) -> int:
    """Return what one leaf weighs on the wire, in bytes."""
    return -(-x.numel() // 8) if x.dtype is torch.bool else x.numel() * x.element_size()


def apart(tensors: Params) -> Params:
    """Return contiguous tensors of which no two share memory, as safetensors wants them."""
    seen: set[int] = set()
    out: Params = {}
    for name, tensor in tensors.items():
        own = tensor.detach().cpu().contiguous()
        where = own.untyped_storage().data_ptr()
        own = own.clone() if where in seen or own.untyped_storage().nbytes() != own.numel() * own.element_size() else own
        seen.add(own.untyped_storage().data_ptr())
        out[name] = own
    return out


def over(tree: T, top: Any) -> T:
    """Return ``tree`` with the leaves of ``top`` laid over it, or added to it, dict by dict."""
    if isinstance(tree, dict):
        return {**tree, **top}  # type: ignore[return-value]
    branches = [over(a, b) for a, b in zip(tree, top, strict=True)]  # type: ignore[call-overload]
    return type(tree)(*branches) if hasattr(tree, "_fields") else tuple(branches)  # type: ignore[return-value]


def fingerprint(tree: Tree) -> bytes:
    """Return a SHA-256 over names, types, shapes and contents of a tree."""
    found = hashlib.sha256()
    for path, leaf in sorted(named(tree), key=lambda item: item[0]):
        leaf = leaf.detach().cpu().contiguous()
        found.update(f"{path} {leaf.dtype} {tuple(leaf.shape)};".encode())
        found.update(leaf.reshape(-1).view(torch.uint8).numpy().tobytes())
    return found.digest()
