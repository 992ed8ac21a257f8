"""Answers that wait until a round's verdict is known: in memory up to a limit, beyond it in one file."""

import tempfile
from typing import IO, Any, NamedTuple

import torch
from torch import Tensor

from ... import trees

ROOM = 256 << 20  # bytes of answers that wait in memory; a mean needs none of them again unless one is refused


_NOTHING = torch.empty(0)


class _Away(NamedTuple):
    like: (
        Any  # the answer with one empty tensor for all leaves: new small ones would lie in the holes of the large ones that left
    )
    spots: list[tuple[int, tuple[int, ...], torch.dtype, torch.device]]


class Held:
    """Takes answers one at a time and gives them back by their place, to the bit."""

    def __init__(self, room: int = ROOM) -> None:
        self.room, self._taken = room, 0
        self._all: list[Any] = []
        self._file: IO[bytes] | None = None

    def __len__(self) -> int:
        return len(self._all)

    def put(self, answer: Any) -> None:
        """Keep one more answer."""
        size = sum(leaf.nbytes for leaf in trees.leaves(answer))
        if self._taken + size <= self.room:
            self._taken += size
            self._all.append(answer)
        else:
            self._all.append(self._away(answer))

    def skip(self) -> None:
        """Leave the place of an answer empty: it is no tree, and nobody asks for it again."""
        self._all.append(None)

    def __getitem__(self, place: int) -> Any:
        found = self._all[place]
        if not isinstance(found, _Away):
            return found
        return trees.rebuild(found.like, [self._read(*spot) for spot in found.spots])

    def _away(self, answer: Any) -> _Away:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="perfed-")  # noqa: SIM115  (it ends with the round)
        spots = []
        for leaf in trees.leaves(answer):
            spots.append((self._file.tell(), tuple(leaf.shape), leaf.dtype, leaf.device))
            self._file.write(_bytes(leaf.detach().cpu().contiguous()))
        return _Away(trees.map(lambda leaf: _NOTHING, answer), spots)

    def _read(self, at: int, shape: tuple[int, ...], kind: torch.dtype, device: torch.device) -> Tensor:
        assert self._file is not None
        made = torch.empty(shape, dtype=kind)
        self._file.seek(at)
        if self._file.readinto(_bytes(made)) != made.numel() * made.element_size():  # type: ignore[attr-defined]
            raise OSError("the file of waiting answers is shorter than it was")
        return made.to(device)

    def close(self) -> None:
        """Forget them all."""
        self._all.clear()
        if self._file is not None:
            self._file.close()
            self._file = None


def _bytes(leaf: Tensor) -> Any:
    return leaf.reshape(-1).view(torch.uint8).numpy()  # the same memory, as bytes
