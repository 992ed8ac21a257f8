"""How an answer stands to what its sender was sent: a few numbers, taken in one pass and without holding it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ... import keys, trees
from .form import Form

SKETCH = 4096  # numbers that stand for an update where directions are compared
TOGETHER = 1 << 15  # numbers of answers that wait to be measured in one go: calls cost more than the arithmetic on small ones


class View(NamedTuple):
    """Which leaves of an answer were sent before and have moved, with their places in the message; and which are new."""

    moved: tuple[tuple[int, int], ...]
    new: tuple[int, ...]  # numbers that nobody was sent: control variates, surveys, running statistics


class Measured(NamedTuple):
    """What is known of one answer."""

    length: float  # of the update: the answer less what was sent
    sent: float  # length of what was sent, of the same leaves
    kept: float  # cosine of the answer with what was sent; 1 where nothing was
    size: float  # length of the answer's moved leaves
    new: float  # length of the leaves that were not sent


def view_of(form: Form, message: Any) -> View:
    """Return how the leaves of answers of one form correspond to those of a message: by path.

    Where no path is the same, what follows a common end counts: a core that was sent as ``own/w`` and comes back as ``w``.
    """
    downs = {path: (place, tuple(leaf.shape)) for place, (path, leaf) in enumerate(trees.named(message))}
    ends: dict[str, tuple[int, tuple[int, ...]]] = {}
    for path, spot in downs.items():
        ends.setdefault(path.rpartition("/")[2], spot)
    numbers = [(place, path, shape) for place, (path, shape, kind) in enumerate(form) if kind.startswith(("float", "bfloat"))]
    exact = any(downs.get(path, (0, None))[1] == shape for _, path, shape in numbers)
    moved, new = [], []
    for place, path, shape in numbers:
        found = downs.get(path) if exact else ends.get(path.rpartition("/")[2])
        if found is None or found[1] != shape or trees.is_state(path):
            new.append(place)
        else:
            moved.append((place, found[0]))
    return View(tuple(moved), tuple(new))


@dataclass
class Measures:
    """The numbers of a round's answers, all of one form; small answers wait and are measured many at a time."""

    sketched: bool = False  # whether directions will be compared
    sketches: list[Tensor | None] = field(default_factory=list)
    _view: View | None = None
    _sent: tuple[Any, Tensor, Tensor] | None = None  # the last message that was laid out, as a row, and its square
    _rows: list[Any] = field(default_factory=list)  # four numbers each; on an accelerator they stay there until all are asked for
    _waiting: list[tuple[int, list[Tensor], Any]] = field(default_factory=list)
    _numbers: int = 0  # of those that wait

    def take(self, form: Form, answer: Any, message: Any) -> None:
        """Measure one answer against what its sender was sent, now or with those that follow."""
        if self._view is None:
            self._view = view_of(form, message)
        leaves = trees.leaves(answer)
        self._waiting.append((len(self._rows), leaves, message))
        self._numbers += sum(map(Tensor.numel, leaves))
        self.skip()
        if self._numbers > TOGETHER:
            self._measure()

    def skip(self) -> None:
        """Note an answer that cannot be measured."""
        self._rows.append((0.0, 0.0, 0.0, 0.0))
        self.sketches.append(None)

    def _measure(self) -> None:
        """Measure those that wait, each a row."""
        waiting, view = self._waiting, self._view
        self._waiting, self._numbers = [], 0
        if not waiting or view is None:
            return
        none = torch.zeros(len(waiting), device=waiting[0][1][0].device) if waiting[0][1] else torch.zeros(len(waiting))
        length = along = sent = new = none
        if view.moved:
            base, sent = self._laid(view, [message for _, _, message in waiting])
            update = _rows([[leaves[place] for place, _ in view.moved] for _, leaves, _ in waiting])
            update = update.sub_(base) if update.dtype is base.dtype else update - base
            length, along = _dots(update, update), _dots(update, base)
            if self.sketched:
                for (place, _, _), row in zip(waiting, _sketched(update), strict=True):
                    self.sketches[place] = row
        if view.new:
            own = _rows([[leaves[place] for place in view.new] for _, leaves, _ in waiting])
            new = _dots(own, own)
        found = torch.stack([each.double().expand(len(waiting)) for each in (length, along, sent, new)], 1)
        for (place, _, _), row in zip(waiting, found.tolist() if found.device.type == "cpu" else found, strict=True):
            self._rows[place] = row

    def _laid(self, view: View, messages: Sequence[Any]) -> tuple[Tensor, Tensor]:
        """Return the moved leaves of messages as rows, and their squares; a message to everybody is one row, laid out once."""
        first = messages[0]
        if any(message is not first for message in messages):
            base = _rows([[trees.leaves(message)[place] for _, place in view.moved] for message in messages])
            return base, _dots(base, base)
        if self._sent is None or self._sent[0] is not first:
            downs = trees.leaves(first)
            base = _rows([[downs[place] for _, place in view.moved]])
            self._sent = first, base, _dots(base, base)
        return self._sent[1], self._sent[2]

    def exact(self, place: int, form: Form, answer: Any, message: Any) -> Measured:
        """Measure an answer once more in double precision: squares of large numbers overflow in single."""
        wide = Measures(_view=self._view)
        double = [trees.map(lambda leaf: leaf.double() if leaf.is_floating_point() else leaf, tree) for tree in (answer, message)]
        wide.take(form, *double)
        (found,) = wide.found()
        self._rows[place] = wide._rows[0]
        return found

    def found(self) -> list[Measured]:
        """Return the numbers of all answers, in the order in which they came."""
        self._measure()
        return [_found(*map(float, row)) for row in self._rows]


def _found(length: float, along: float, sent: float, new: float) -> Measured:
    size = max(0.0, length + 2 * along + sent)
    kept = 1.0
    if sent > 0:
        kept = (along + sent) / (size * sent) ** 0.5 if size > 0 else 0.0
    return Measured(length**0.5, sent**0.5, kept, size**0.5, new**0.5)


def _rows(leaves: Sequence[Sequence[Tensor]]) -> Tensor:
    """Return the leaves of each as a row of a new matrix, of at least single precision."""
    made = torch.cat([leaf.reshape(-1) for own in leaves for leaf in own]).view(len(leaves), -1)
    return made if made.element_size() >= 4 else made.float()


def _dots(one: Tensor, other: Tensor) -> Tensor:
    """Return the inner products of rows; ``other`` may be one row for all."""
    if len(one) == 1:
        return one[0].dot(other[0].to(one.dtype))[None]
    if one is not other and len(other) == 1:
        return one @ other[0].to(one.dtype)
    return (one * other).sum(1)


_SIGNS: dict[tuple[int, str, torch.dtype], Tensor] = {}  # random signs for vectors of a length, the same in every process


def _sketched(updates: Tensor) -> Tensor:
    """Return short rows whose inner products are, up to a few hundredths, those of the updates; which are used up."""
    count = updates.shape[1]
    where = (count, str(updates.device), updates.dtype)
    if where not in _SIGNS:
        _SIGNS.clear()
        _SIGNS[where] = ((keys.bits(keys.key(0, "sketch"), count) & 1) * 2 - 1).to(updates)
    signed = updates.mul_(_SIGNS[where])
    if count <= SKETCH:
        return signed
    whole = count - count % SKETCH
    made = signed[:, :whole].reshape(len(updates), -1, SKETCH).sum(1)
    made[:, : count - whole] += signed[:, whole:]
    return made
