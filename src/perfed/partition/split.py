"""A split says which client owns which sample, as a small file with a hash."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from ..disk import put
from ..errors import DataError, InputError, RunError

Indices = npt.NDArray[np.int64]
PARTS = ("train", "validation", "test")
FORMAT = 1


@dataclass(frozen=True, eq=False)
class Split:
    """Each client's samples, as positions in one data set.

    Args:
        train: For each client, the samples that it trains on.
        validation: For each client, the samples that rounds are chosen on.
        test: For each client, the samples that it is tested on.
        names: The clients' names.
        settings: What made it; they are kept with it.
        data: The digest of the samples it speaks of, as ``Samples.digest()`` gives it.

    Raises:
        InputError: If a part speaks of fewer clients than another, or a position is negative.

    Example:
        >>> from perfed import Split
        >>> split = Split([[0, 1], [2, 3]], [[], []], [[4], [5]], ("Rome", "Oslo"), {"by": "hand"}, "0" * 64)
        >>> split.clients, split.owned(1).tolist()
        (2, [2, 3, 5])
    """

    train: tuple[Indices, ...]
    validation: tuple[Indices, ...]
    test: tuple[Indices, ...]
    names: tuple[str, ...]
    settings: dict[str, Any]  # what made it
    data: str  # the digest of the samples it indexes

    def __post_init__(self) -> None:
        """Freeze the arrays and check that every part speaks of the same clients."""
        for part in PARTS:
            object.__setattr__(self, part, tuple(_frozen(indices) for indices in getattr(self, part)))
        object.__setattr__(self, "names", tuple(self.names))
        counts = {len(self.names), *(len(getattr(self, part)) for part in PARTS)}
        if len(counts) != 1:
            raise InputError(f"a split needs one array per client and part, got {sorted(counts)} of them")

    @property
    def clients(self) -> int:
        """How many clients there are."""
        return len(self.names)

    def owned(self, client: int) -> Indices:
        """Return all samples of one client: training, validation, test.

        Args:
            client: Its number, from 0.

        Returns:
            Positions in the data set.

        Example:
            >>> from perfed import Split
            >>> Split([[0, 1]], [[3]], [[2]], ["Rome"], {}, "").owned(0).tolist()
            [0, 1, 3, 2]
        """
        return np.concatenate([self.train[client], self.validation[client], self.test[client]])

    def sizes(self) -> Indices:
        """Return how many samples each client has.

        Returns:
            A table: a row per client, columns for training, validation and test.

        Example:
            >>> import perfed
            >>> samples, split = perfed.federate("digits", clients=3, partition="iid").source
            >>> split.sizes().tolist()
            [[389, 60, 150], [389, 60, 150], [389, 60, 150]]
        """
        return np.array([[len(indices) for indices in getattr(self, part)] for part in PARTS], dtype=np.int64).T

    def label_counts(self, y: npt.ArrayLike, classes: int) -> Indices:
        """Return how many samples of every class each client has, over all three parts.

        Args:
            y: The data set's labels.
            classes: How many classes there are.

        Returns:
            A table: a row per client, a column per class.

        Example:
            >>> import perfed
            >>> samples, split = perfed.federate("digits", clients=3, partition="iid").source
            >>> split.label_counts(samples.y, 10)[0].tolist()
            [64, 58, 70, 60, 66, 65, 51, 61, 48, 56]
        """
        labels = np.asarray(y)
        rows = [np.bincount(labels[self.owned(client)], minlength=classes) for client in range(self.clients)]
        return np.array(rows, dtype=np.int64).reshape(self.clients, classes)

    def subset(self, ids: Sequence[int]) -> "Split":
        """Return the split of some of the clients alone.

        Args:
            ids: Their numbers, in the order that they shall have.

        Returns:
            A split of so many clients.

        Raises:
            InputError: If a client is named twice or does not exist.

        Example:
            >>> import perfed
            >>> samples, split = perfed.federate("digits", clients=3, partition="iid").source
            >>> split.subset([2, 0]).names
            ('client 2', 'client 0')
        """
        chosen = [int(client) for client in ids]
        if len(set(chosen)) != len(chosen) or not all(0 <= client < self.clients for client in chosen):
            raise InputError(f"a subset takes different clients from 0 to {self.clients - 1}, got {chosen}")
        earlier = self.settings.get("subset", list(range(self.clients)))
        return Split(
            train=tuple(self.train[client] for client in chosen),
            validation=tuple(self.validation[client] for client in chosen),
            test=tuple(self.test[client] for client in chosen),
            names=tuple(self.names[client] for client in chosen),
            settings=self.settings | {"subset": [earlier[client] for client in chosen]},
            data=self.data,
        )

    def digest(self) -> str:
        """Return a hash of everything the split says; splits are equal when their hashes are.

        Returns:
            The SHA-256 over positions, names, settings and the data's digest.

        Example:
            >>> import perfed
            >>> samples, split = perfed.federate("digits", clients=3, partition="iid").source
            >>> split.digest()[:8]
            'e7acb837'
        """
        value = hashlib.sha256(_canonical({"format": FORMAT, **self._words()}))
        for part in PARTS:
            for indices in getattr(self, part):
                value.update(len(indices).to_bytes(8, "little"))
                value.update(indices.astype("<i8").tobytes())
        return value.hexdigest()

    def __eq__(self, other: object) -> bool:
        """Splits are equal when their digests are."""
        return isinstance(other, Split) and self.digest() == other.digest()

    def __hash__(self) -> int:
        """Hash by digest."""
        return hash(self.digest())

    def save(self, path: str | Path) -> None:
        """Write the split to one safetensors file; a reader sees the old file or the whole new one.

        Args:
            path: The file.

        Raises:
            DataError: If it cannot be written.

        Example:
            >>> import perfed, tempfile
            >>> samples, split = perfed.federate("digits", clients=3, partition="iid").source
            >>> split.save(tempfile.mkdtemp() + "/digits.split")
        """
        tensors: dict[str, npt.NDArray[Any]] = {}
        for part in PARTS:
            arrays = getattr(self, part)
            flat = np.concatenate([np.zeros(0, np.int64), *arrays])
            small = flat.size == 0 or flat.max() < 2**31
            tensors[part] = flat.astype(np.int32) if small else flat
            tensors[f"{part}_sizes"] = np.array([len(indices) for indices in arrays], dtype=np.int64)
        header = {"format": FORMAT, "digest": self.digest(), **self._words()}
        # One key only: safetensors writes several in any order, and equal splits should be equal files.
        _write(Path(path), save(tensors, metadata={"perfed.split": _canonical(header).decode()}))

    @classmethod
    def load(cls, path: str | Path, data: str | None = None) -> "Split":
        """Read a split from its file.

        Args:
            path: The file.
            data: The digest of the samples it is for; a split that was made for others is refused.

        Returns:
            The split, as it was saved.

        Raises:
            DataError: If there is no such file, it is damaged or changed, or it was made for other samples.

        Example:
            >>> import perfed, tempfile
            >>> samples, split = perfed.federate("digits", clients=3, partition="iid").source
            >>> file = tempfile.mkdtemp() + "/digits.split"
            >>> split.save(file)
            >>> perfed.Split.load(file, data=samples.digest()) == split
            True
        """
        place = Path(path)
        if not place.is_file():
            raise DataError(f"no split at {place}; `perfed data split out={place}` writes one")
        header, tensors = _read(place)
        try:
            parts = {part: _unflatten(tensors[part], tensors[f"{part}_sizes"]) for part in PARTS}
            split = cls(**parts, names=header["names"], settings=header["settings"], data=header["data"])
            intact = split.digest() == header["digest"]
        except (KeyError, TypeError, ValueError) as problem:
            raise DataError(f"{place} is not a whole split: {problem}; make it again") from problem
        if not intact:
            raise DataError(f"{place} was changed after it was written: it does not match its hash; make it again")
        if data is not None and data != split.data:
            raise DataError(
                f"{place} was made for other samples (digest {split.data[:12]}, these have {data[:12]}); "
                "make the split again or load the data it was made for"
            )
        return split

    def _words(self) -> dict[str, Any]:
        return {"names": list(self.names), "settings": self.settings, "data": self.data}


def _frozen(indices: npt.ArrayLike) -> Indices:
    array = np.array(indices, dtype=np.int64).reshape(-1)
    if array.size and array.min() < 0:
        raise InputError(f"a split holds positions from 0, got {array.min()}")
    array.flags.writeable = False
    return array


def _canonical(words: dict[str, Any]) -> bytes:
    return json.dumps(words, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def _unflatten(flat: npt.NDArray[Any], sizes: npt.NDArray[Any]) -> tuple[Indices, ...]:
    if sizes.ndim != 1 or flat.ndim != 1 or (sizes < 0).any() or sizes.sum() != len(flat):
        raise ValueError(f"its sizes add up to {sizes.sum()}, it holds {flat.size} positions")
    return tuple(np.split(flat.astype(np.int64), np.cumsum(sizes)[:-1])) if len(sizes) else ()


def _read(place: Path) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    try:
        with safe_open(str(place), framework="np") as file:
            header = json.loads((file.metadata() or {}).get("perfed.split", "null"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError, ValueError) as problem:
        raise DataError(f"{place} is damaged or not a split file: {problem}") from problem
    if not isinstance(header, dict):
        raise DataError(f"{place} is a safetensors file but not a split; `perfed data split` writes one")
    if header.get("format") != FORMAT:
        raise DataError(f"{place} has split format {header.get('format')}, this perfed reads {FORMAT}; make it again")
    return header, tensors


def _write(place: Path, contents: bytes) -> None:
    try:
        put(place, contents)
    except RunError as problem:
        raise DataError(f"cannot write the split {place}: {problem}") from problem
