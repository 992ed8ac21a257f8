"""What a server can do with answers: pass its state on, average by a rule, mix."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from .. import trees
from ..errors import InputError, suggest
from . import robust
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
        method: The method whose verb it is; its ``rule`` is ``mean`` (by samples), ``uniform``, ``median`` or
            another of `RULES`.
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
    """How answers are averaged: a name of `RULES`, the share that it cuts off or takes to be bad, and whether it mixes first."""

    name: str
    share: float = 0.0
    mixed: bool = False  # whether every answer is first replaced by the mean of its nearest neighbours


RULES = {
    "mean": "the mean, weighted by training samples",
    "weighted": "another word for mean",
    "uniform": "the plain mean",
    "median": "the middle value of every number; of two, half their sum",
    "trimmed": "the plain mean of what is left without the smallest and the largest tenth; trimmed:0.2 cuts a fifth",
    "krum": "the one answer that is nearest to its nearest others; krum:0.3 takes three of ten to be bad",
    "multikrum": "the plain mean of those that Krum would choose first, all but a fifth; multikrum:0.3 leaves out three of ten",
    "geometric": "the point with the least sum of distances to all answers",
    "clipped": "the plain mean, once answers far from the one in the middle are drawn in to where half of them are",
}
SHARES = {"trimmed": 0.1, "krum": 0.2, "multikrum": 0.2}  # rules that take a share, and the one they take unless told
MIX = "mix+"  # before another rule: every answer is replaced by the mean of its nearest neighbours


def rule_of(text: str) -> Rule:
    """Read the name of a rule, with the share where it takes one, and ``mix+`` where neighbours are averaged first."""
    mixed, rest = text.startswith(MIX), text.removeprefix(MIX)
    name, mark, share = rest.partition(":")
    if name not in RULES:
        raise suggest("rule", name, RULES)
    if mixed and name in ("mean", "weighted", "uniform"):
        raise InputError(f"{MIX} goes before a rule that leaves something out, such as {MIX}trimmed:0.2; got '{text}'")
    if name not in SHARES:
        if mark:
            raise InputError(f"the rule {name} takes no share, got '{text}'; trimmed:0.1 does")
        return Rule("mean" if name == "weighted" else name, 0.2 if mixed else 0.0, mixed)
    try:
        cut = float(share) if mark else SHARES[name]
    except ValueError:
        cut = -1.0
    if not 0 < cut < 0.5:
        what = "cuts a share at either end" if name == "trimmed" else "takes a share of the answers to be bad"
        raise InputError(f"the rule {name} {what}, between 0 and 0.5, such as {name}:{SHARES[name]:g}; got '{text}'")
    return Rule(name, cut, mixed)


def averaged(rule: str, ups: Uploads[T]) -> T:
    """Return the answers averaged by a rule: a mean takes in one at a time, the others hold them all."""
    asked = rule_of(rule)
    if asked.name in ("mean", "uniform"):
        return mean(ups, ups.sizes if asked.name == "mean" else torch.ones(len(ups)))
    answers = ups.trees
    if not answers:
        raise ValueError("nothing to average: no client answered")
    if asked.mixed and (bad := robust.assumed(len(answers), asked.share)):
        answers = mix(robust.neighbours(robust.square_distances(answers), bad), answers)
    if asked.name in ("median", "trimmed"):
        cut = (len(answers) - 1) // 2 if asked.name == "median" else _cut(len(answers), asked.share)
        return _middle(answers, cut)
    weights = _weights(asked, robust.square_distances(answers))
    only = [i for i, weight in enumerate(weights.tolist()) if weight]
    return answers[only[0]] if len(only) == 1 else combine(weights.tolist(), answers)


def _weights(rule: Rule, square: Tensor) -> Tensor:
    """Return how much every answer counts, from their distances; of two answers neither can be told from the other."""
    if len(square) < 3:
        return torch.full((len(square),), 1 / len(square), dtype=torch.float64)
    if rule.name == "geometric":
        return robust.median_weights(square)
    if rule.name == "clipped":
        return robust.clipping_weights(square)
    return robust.krum_weights(square, robust.assumed(len(square), rule.share), many=rule.name == "multikrum")


def _cut(count: int, share: float) -> int:
    """Return how many answers are cut at either end: one at least where three answered, or nothing would be trimmed."""
    return max(int(share * count + 1e-6), 1) if count > 2 else 0


def _middle(answers: Sequence[T], cut: int) -> T:
    """Return, number by number, the mean without the ``cut`` smallest and largest, in double precision, piece by piece."""
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
