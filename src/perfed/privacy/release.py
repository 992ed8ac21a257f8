"""What a client lets go under privacy=client: its answer's way from what everyone knows, clipped and noised."""

from typing import TypeVar

from torch import Tensor

from .. import trees
from ..errors import MethodError
from ..local.guard import Noise, shortened
from ..trees import Params, Tree
from .settings import Privacy

T = TypeVar("T")


def released(privacy: Privacy, answer: Params, still: T, crossing: set[str], noise: Noise) -> T:
    """Return ``still``, the answer of a client that learned nothing, moved as the client moved: clipped, with noise.

    Args:
        privacy: Clip and noise.
        answer: The client's answer by path.
        still: What everyone knows of it beforehand. What is not in it is not let go.
        crossing: The paths that leave the client; the rest stays as it is.
        noise: Where the noise comes from.

    Raises:
        MethodError: If the answer lacks a leaf, or holds one that cannot be noised.
    """
    known = dict(trees.named(still))
    moved = {path: answer[path] - known[path] for path in known if path in crossing and _noised(path, answer, known[path])}
    short = dict(zip(moved, shortened(list(moved.values()), privacy.clip), strict=True))
    deviation = privacy.noise * privacy.clip

    def let_go(path: str, leaf: Tensor) -> Tensor:
        if path not in short:
            return leaf
        drawn = noise.normal(path, tuple(leaf.shape)).to(leaf.device)
        return (leaf.double() + short[path].double() + deviation * drawn.double()).to(leaf.dtype)

    return trees.rebuild(still, [let_go(path, leaf) for path, leaf in trees.named(still)])


def _noised(path: str, answer: Params, known: Tensor) -> bool:
    if path not in answer or answer[path].shape != known.shape:
        raise MethodError(f"'{path}' is not in the client's answer as it is in that of one that learned nothing (`unmoved`)")
    if not known.is_floating_point() or trees.is_state(path):
        raise MethodError(f"'{path}' would leave the client, and noise cannot be added to it; `unmoved` must leave it out")
    return True


def same_form(one: Tree, other: Tree) -> bool:
    """Return whether two answers have the same leaves."""
    first, second = dict(trees.named(one)), dict(trees.named(other))
    return first.keys() == second.keys() and all(
        first[path].shape == second[path].shape and first[path].dtype == second[path].dtype for path in first
    )
