"""How an answer stands to what its sender was sent: a few numbers, taken in one pass and without holding it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ... import keys, trees
from .form import Form

SKETCH = 4096  # numbers that stand for an update where directions are compared


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
    """The numbers of a round's answers; they stay where they were computed until all are asked for at once."""

    sketched: bool = False  # whether directions will be compared
    _views: dict[Form, View] = field(default_factory=dict)
    _sent: tuple[Any, View, Tensor, Any] | None = None  # the last message that was laid out
    _rows: list[tuple[Any, Any, Any, Any]] = field(default_factory=list)  # plain numbers, or on an accelerator tensors of one
    sketches: list[Tensor | None] = field(default_factory=list)

    def take(self, form: Form, answer: Any, message: Any) -> None:
        """Measure one answer against what its sender was sent."""
        if form not in self._views:
            self._views[form] = view_of(form, message)
        view, leaves = self._views[form], trees.leaves(answer)
        length = along = sent = new = 0.0
        sketch = None
        if view.moved:
            base, square = self._laid(view, message)
            update = _flat([leaves[place] for place, _ in view.moved])
            update = (update if update.dtype is base.dtype else update.to(base.dtype)).sub_(base)
            length, along, sent = _plain(update.dot(update)), _plain(update.dot(base)), square
            sketch = _sketch(update) if self.sketched else None
        if view.new:
            own = _flat([leaves[place] for place in view.new])
            new = _plain(own.dot(own))
        self._rows.append((length, along, sent, new))
        self.sketches.append(sketch)

    def skip(self) -> None:
        """Note an answer that cannot be measured."""
        self._rows.append((0.0, 0.0, 0.0, 0.0))
        self.sketches.append(None)

    def _laid(self, view: View, message: Any) -> tuple[Tensor, Any]:
        """Return the moved leaves of a message as one vector, and its square; a message to everybody is laid out once."""
        if self._sent is None or self._sent[0] is not message or self._sent[1] is not view:
            downs = trees.leaves(message)
            base = _flat([downs[place] for _, place in view.moved])
            self._sent = message, view, base, _plain(base.dot(base))
        return self._sent[2], self._sent[3]

    def exact(self, place: int, form: Form, answer: Any, message: Any) -> Measured:
        """Measure an answer once more in double precision: squares of large numbers overflow in single."""
        wide = Measures(_views=self._views)
        double = [trees.map(lambda leaf: leaf.double() if leaf.is_floating_point() else leaf, tree) for tree in (answer, message)]
        wide.take(form, *double)
        self._rows[place] = wide._rows[0]
        return wide.found()[0]

    def found(self) -> list[Measured]:
        """Return the numbers of all answers, in the order in which they came."""
        return [_found(*map(float, row)) for row in self._rows]


def _found(length: float, along: float, sent: float, new: float) -> Measured:
    size = max(0.0, length + 2 * along + sent)
    kept = 1.0
    if sent > 0:
        kept = (along + sent) / (size * sent) ** 0.5 if size > 0 else 0.0
    return Measured(length**0.5, sent**0.5, kept, size**0.5, new**0.5)


def _plain(number: Tensor) -> Any:
    """Return a number as it is cheapest: from the processor's memory at once, from an accelerator when all are there."""
    return number.item() if number.device.type == "cpu" else number.double()


def _flat(leaves: Sequence[Tensor]) -> Tensor:
    """Return leaves as one new vector of at least single precision."""
    made = torch.cat([leaf.reshape(-1) for leaf in leaves])
    return made if made.element_size() >= 4 else made.float()


_SIGNS: dict[tuple[int, str], Tensor] = {}  # random signs for vectors of a length, the same in every process


def _sketch(update: Tensor) -> Tensor:
    """Return a short vector whose inner products with others of its kind are, up to a few hundredths, those of the updates."""
    count = update.numel()
    where = (count, str(update.device))
    if where not in _SIGNS:
        _SIGNS.clear()
        _SIGNS[where] = ((keys.bits(keys.key(0, "sketch"), count) & 1) * 2 - 1).to(torch.int8).to(update.device)
    signed = update * _SIGNS[where]
    if count <= SKETCH:
        return signed
    whole = count - count % SKETCH
    made = signed[:whole].view(-1, SKETCH).sum(0)
    made[: count - whole] += signed[whole:]
    return made
