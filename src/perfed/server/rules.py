"""What a server can do with answers: pass its state on, average by a rule, mix."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from .. import trees
from ..errors import InputError, suggest
from .uploads import Uploads

T = TypeVar("T")

_PIECE, _LEAST = 1 << 18, 4096  # numbers of all answers that are mixed at once, to stay in the cache; of one, at least


def mean(answers: Iterable[T], weights: Tensor | Sequence[float]) -> T:
    """Return the weighted mean, added up in order and in double precision; whole numbers are rounded.

    Args:
        answers: Trees of the same names and shapes, one at a time.
        weights: One number per answer; only their proportions count.

    Returns:
        A tree of the same names, shapes and types.

    Raises:
        ValueError: If nobody answered, or weights and answers differ in number.

    Example:
        >>> import torch
        >>> from perfed import mean
        >>> mean([{"w": torch.tensor(1.0)}, {"w": torch.tensor(5.0)}], [3, 1])
        {'w': tensor(2.)}
    """
    share = torch.as_tensor(weights, dtype=torch.float64)
    return combine((share / share.sum()).tolist(), answers)


def _like(total: Tensor, x: Tensor) -> Tensor:
    return total.to(x.dtype) if x.is_floating_point() else total.round().to(x.dtype)


def mix(matrix: Tensor, answers: Sequence[T]) -> list[T]:
    """Return, for each row of ``matrix``, the answers mixed with that row's weights, in double precision.

    All rows are made in one pass over the answers, piece by piece: N² sums of whole models would take minutes for N = 500.

    Args:
        matrix: Weights, a row per mixture and a column per answer.
        answers: Trees of the same names and shapes.

    Returns:
        One tree per row.

    Example:
        >>> import torch
        >>> from perfed import mix
        >>> mix(torch.tensor([[1.0, 0.0], [0.5, 0.5]]), [{"w": torch.tensor(1.0)}, {"w": torch.tensor(3.0)}])
        [{'w': tensor(1.)}, {'w': tensor(2.)}]
    """
    rows, columns = matrix.double(), list(zip(*map(trees.leaves, answers), strict=True))
    piece = max(_LEAST, _PIECE // max(1, len(answers)))
    mixed: list[list[Tensor]] = [[] for _ in rows]
    for leaves in columns:
        flat = [x.reshape(-1) for x in leaves]
        made = [torch.empty_like(flat[0]) for _ in rows]
        for at in range(0, len(flat[0]), piece):
            several = torch.stack([x[at : at + piece] for x in flat]).double()
            for whole, part in zip(made, _like(_product(rows, several), flat[0]), strict=True):
                whole[at : at + piece] = part
        for own, whole in zip(mixed, made, strict=True):
            own.append(whole.view(leaves[0].shape))
    return [trees.rebuild(answers[0], own) for own in mixed]


def _product(rows: Tensor, answers: Tensor) -> Tensor:
    """Return rows times answers; as in `combine`, an answer of weight zero does not count, not even where it is no number."""
    made = rows.to(answers.device) @ answers
    if bool(torch.isfinite(made.sum())):  # zero times what is no number is none either, in every row
        return made
    made = torch.zeros(len(rows), answers.shape[1], dtype=torch.float64, device=answers.device)
    for total, row in zip(made, rows.tolist(), strict=True):
        for w, x in zip(row, answers, strict=True):
            if w:
                total.add_(x, alpha=w)
    return made


def combine(row: Sequence[float], answers: Iterable[T]) -> T:
    """Return the sum of the answers, each times its weight; a weight of zero costs nothing."""
    total: list[Tensor] = []
    shape: Any = None
    for w, tree in zip(row, answers, strict=True):
        if shape is None:
            shape = tree
            total = [torch.zeros_like(x, dtype=torch.float64) for x in trees.leaves(tree)]
        if w:
            for acc, x in zip(total, trees.leaves(tree), strict=True):
                acc.add_(x, alpha=w)
    if shape is None:
        raise ValueError("nothing to combine: no client answered")
    made: T = trees.rebuild(shape, [_like(acc, x) for acc, x in zip(total, trees.leaves(shape), strict=True)])
    return made


def broadcast(method: Any, server: T, client: int) -> T:
    """As a ``send``: tell every client everything.

    Args:
        method: The method whose verb it is.
        server: The server's state.
        client: The client's number.

    Returns:
        The server's state.

    Example:
        >>> from perfed import broadcast
        >>> broadcast(None, {"w": 1}, client=0)
        {'w': 1}
    """
    return server


def average(method: Any, server: T, ups: Uploads[T]) -> T:
    """As a ``merge``: the answers, averaged by the method's ``rule``, become the server's state; without one, their mean.

    Args:
        method: The method whose verb it is; its ``rule`` is ``mean`` (by samples), ``uniform``, ``median`` or ``trimmed:0.1``.
        server: The server's state before, which is forgotten.
        ups: The answers.

    Returns:
        Their average.

    Raises:
        ValueError: If nobody answered.

    Example:
        >>> import torch
        >>> from perfed import Uploads, average
        >>> from perfed.methods.fedavg import FedAvg
        >>> answers = [{"w": torch.tensor(x)} for x in (1.0, 2.0, 9.0)]
        >>> average(FedAvg(rule="median"), None, Uploads([0, 1, 2], [10, 10, 20], answers))
        {'w': tensor(2.)}
    """
    return averaged(getattr(method, "rule", "mean"), ups)


class Rule(NamedTuple):
    """How answers are averaged: a name of `RULES`, and what is cut off at either end where it is ``trimmed``."""

    name: str
    share: float = 0.0


RULES = {
    "mean": "the mean, weighted by training samples",
    "weighted": "another word for mean",
    "uniform": "the plain mean",
    "median": "the middle value of every number; of two, half their sum",
    "trimmed": "the plain mean of what is left without the smallest and the largest tenth; trimmed:0.2 cuts a fifth",
}


def rule_of(text: str) -> Rule:
    """Read the name of a rule, with the share to be cut where it is ``trimmed``."""
    name, mark, share = text.partition(":")
    if name not in RULES:
        raise suggest("rule", name, RULES)
    if name != "trimmed":
        if mark:
            raise InputError(f"the rule {name} takes no share, got '{text}'; trimmed:0.1 does")
        return Rule("mean" if name == "weighted" else name)
    try:
        cut = float(share) if mark else 0.1
    except ValueError:
        cut = -1.0
    if not 0 < cut < 0.5:
        raise InputError(f"the rule trimmed cuts a share between 0 and 0.5 at either end, such as trimmed:0.1; got '{text}'")
    return Rule(name, cut)


def averaged(rule: str, ups: Uploads[T]) -> T:
    """Return the answers averaged by a rule: a mean takes in one at a time, the others hold them all."""
    asked = rule_of(rule)
    if asked.name in ("mean", "uniform"):
        return mean(ups, ups.sizes if asked.name == "mean" else torch.ones(len(ups)))
    cut = (len(ups) - 1) // 2 if asked.name == "median" else _cut(len(ups), asked.share)
    return _middle(ups.trees, cut)


def _cut(count: int, share: float) -> int:
    """Return how many answers are cut at either end: one at least where three answered, or nothing would be trimmed."""
    return max(int(share * count + 1e-6), 1) if count > 2 else 0


def _middle(answers: Sequence[T], cut: int) -> T:
    """Return, number by number, the mean without the ``cut`` smallest and largest, in double precision, piece by piece."""
    if not answers:
        raise ValueError("nothing to average: no client answered")
    piece = max(_LEAST, _PIECE // len(answers))
    made = []
    for leaves in zip(*map(trees.leaves, answers), strict=True):
        flat = [x.reshape(-1) for x in leaves]
        whole = torch.empty_like(flat[0])
        for at in range(0, len(whole), piece):
            ordered = torch.stack([x[at : at + piece] for x in flat]).double().sort(0).values
            whole[at : at + piece] = _like(ordered[cut : len(answers) - cut].mean(0), whole)
        made.append(whole.view(leaves[0].shape))
    return trees.rebuild(answers[0], made)
