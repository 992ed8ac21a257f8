"""A data set in memory: inputs, labels, and who or what each sample came from."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import DataError, InputError, suggest
from . import mapped
from .frames import is_frame
from .items import columns
from .pixels import pixels, plain
from .sheet import Sheet
from .targets import fits, of_arrays

KINDS = {  # kind: dtype of x, allowed dimensions, what it looks like
    "features": (torch.float32, (2,), "float32 N×F"),
    "image": (torch.uint8, (4,), "uint8 N×C×H×W"),
    "signal": (torch.float32, (3, 4), "float32 N×C×T or N×C×1×T"),
    "tokens": (torch.int32, (2,), "int32 N×L"),
}


@dataclass(frozen=True, eq=False)
class Samples:
    """A data set, once: every client of a split is a list of positions in it.

    ``Samples.of`` makes one of arrays, texts or a torch dataset; it is the easier way.

    Args:
        x: The inputs, as they are stored: uint8 for images, int32 for tokens, else float32.
        y: The labels, as positions in ``classes``.
        classes: The labels' names.
        group: The domain, subject or writer of each sample, as a position in ``groups``.
        groups: The groups' names.
        test: Which samples are the official test part.
        kind: ``image``, ``features``, ``signal`` or ``tokens``.
        name: What the data set is called in tables.
        texts: The raw texts of a ``tokens`` set; ``x`` is empty until a vocabulary exists.
        sheet: The typed columns of a table with gaps, categories or a scale; ``x`` is empty until training rows have decided.
        task: ``classification``, ``multilabel``, ``regression`` or ``survival``; what ``y`` holds follows from it.

    Raises:
        DataError: If the parts do not fit together, or a value is no finite number.
        InputError: If there is no such kind.

    Example:
        >>> import torch
        >>> from perfed import Samples
        >>> samples = Samples(torch.rand(4, 3), torch.tensor([0, 1, 1, 0]), ("sick", "well"), kind="features")
        >>> len(samples), samples.shape
        (4, (3,))
    """

    x: Tensor
    y: Tensor
    classes: tuple[str, ...]
    group: Tensor | None = None  # domain, subject or writer of each sample
    groups: tuple[str, ...] = ()
    test: Tensor | None = None  # the official test part
    kind: str = "image"
    name: str = "own"
    texts: tuple[str, ...] | None = None  # raw texts of a "tokens" set; x is N×0 until a vocabulary exists
    sheet: Sheet | None = None  # typed columns of a table; x is N×0 until training rows have decided what they become
    task: str = "classification"  # what y holds

    def __post_init__(self) -> None:
        check(self)

    def __len__(self) -> int:
        return len(self.y)

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of one input."""
        return tuple(self.x.shape[1:])

    @property
    def strata(self) -> Tensor:
        """Return by what samples are shared out evenly: their class, or nothing where labels are no classes."""
        return self.y if self.task == "classification" else self.y.new_zeros(len(self), dtype=torch.int64)

    def digest(self) -> str:
        """Return a hash of the contents; the name does not count, nor do tokens made from ``texts``.

        Returns:
            A SHA-256. Equal digests are equal samples.

        Example:
            >>> from perfed import Samples
            >>> mine, yours = (Samples.of([[1.0], [2.0]], [0, 1], name=name) for name in ("mine", "yours"))
            >>> mine.digest() == yours.digest()
            True
        """
        known: str | None = self.__dict__.get("_digest")
        if known is None:
            known = contents(self)
            object.__setattr__(self, "_digest", known)
        return known

    def take(self, positions: Tensor | np.ndarray[Any, Any] | Sequence[int]) -> Samples:
        """Return some of the samples.

        Args:
            positions: Which ones, in the order that they shall have.

        Returns:
            A data set of these samples; classes and groups stay.

        Example:
            >>> from perfed import Samples
            >>> samples = Samples.of([[1.0], [2.0], [3.0]], ["no", "yes", "no"])
            >>> samples.take([2, 1]).x.tolist()
            [[3.0], [2.0]]
        """
        chosen = torch.as_tensor(positions, dtype=torch.int64)
        return replace(
            self,
            x=mapped.chosen(self.x, chosen),
            y=self.y[chosen],
            group=None if self.group is None else self.group[chosen],
            test=None if self.test is None else self.test[chosen],
            texts=None if self.texts is None else tuple(self.texts[i] for i in chosen.tolist()),
            sheet=None if self.sheet is None else self.sheet.take(chosen.numpy()),
        )

    @staticmethod
    def of(
        x: Any,
        y: Any = None,
        *,
        classes: Iterable[str] | None = None,
        group: Any = None,
        groups: Iterable[str] | None = None,
        test: Any = None,
        kind: str | None = None,
        name: str = "own",
        task: str = "classification",
        **table: Any,
    ) -> Samples:
        """Return your own arrays, texts, a data frame, a map-style or Hugging Face dataset as samples.

        Of a data frame, ``y``, ``group`` and ``test`` may name columns, of dicts ``y`` a key; a column or key called ``label`` or
        ``target`` need not be named.

        Args:
            x: The inputs, one per sample; or the dataset, which brings its labels along.
            y: The labels, as names or numbers.
            classes: The labels' names in order; by default the distinct labels, sorted.
            group: The domain, subject or writer of each sample, as a name or number.
            groups: The groups' names in order; by default the distinct groups, sorted.
            test: For each sample, whether it belongs to the official test part.
            kind: ``image``, ``features``, ``signal`` or ``tokens``; by default told from dtype and dimensions.
            name: What the data set is called in tables.
            task: ``classification``; ``regression`` for numbers as labels; ``multilabel`` for N×L zeros and ones, or columns
                ``"cough,fever"``; ``survival`` for a time and whether the event was seen, or columns ``"days,died"``.
            table: Of a data frame or a table of Hugging Face, what ``csv:`` takes too: ``drop``, ``categories``, ``missing``,
                ``scale``, ``columns``, ``text``.

        Returns:
            The data set, for `federate`.

        Raises:
            DataError: If the parts do not fit together, or the kind cannot be told.
            InputError: If a label, a group or the kind is not among those there are.

        Example:
            >>> from perfed import Samples
            >>> samples = Samples.of([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], ["well", "sick", "well"])
            >>> samples.kind, samples.classes, samples.y.tolist()
            ('features', ('sick', 'well'), [1, 0, 1])
        """
        if type(x).__module__.partition(".")[0] == "datasets":  # of Hugging Face
            from .hub import HubColumns, of

            if classes is not None or groups is not None or kind is not None:
                raise InputError("classes, groups and kind of a Hugging Face data set follow from its features; leave them out")
            return of(x, HubColumns(y, group, test, task=task, table=table), name)
        if is_frame(x):
            from .tabular import of_frame

            x, y, names, group, test, kind = of_frame(x, y, group, test, {"task": task} | table)
            classes = names or classes
        elif table:
            raise InputError(f"{', '.join(table)}: options of data frames and tables, and this is a {type(x).__name__}")
        elif y is None or isinstance(y, str):
            x, y = columns(x, y)
        sheet = x if isinstance(x, Sheet) else None
        texts = tuple(x) if sheet is None and len(x) and isinstance(x[0], str) else None
        if sheet is not None:
            inputs, kind = torch.zeros(len(sheet), 0), "features"
        elif texts is not None:
            inputs, kind = torch.zeros(len(texts), 0, dtype=torch.int32), "tokens"
        else:
            inputs, kind = inputs_of(x, kind)
        labels, called = (
            coded(y, classes, "label")
            if task == "classification"
            else of_arrays(y, None if classes is None else tuple(classes), task)
        )
        belongs, owners = (None, ()) if group is None else coded(group, groups, "group")
        part = None if test is None else mask(test)
        return Samples(inputs, labels, called, belongs, owners, part, kind, name, texts, sheet, task)


def check(samples: Samples) -> None:
    """Refuse samples whose parts do not fit together."""
    x, y, name = samples.x, samples.y, samples.name
    if samples.kind not in KINDS:
        raise suggest("kind of samples", samples.kind, KINDS)
    dtype, dimensions, wanted = KINDS[samples.kind]
    if x.dtype != dtype or x.dim() not in dimensions:
        raise DataError(f"{name}: x is {plain(x)}, but '{samples.kind}' samples are {wanted}")
    fits(y, samples.classes, samples.task, name)
    for part, values in (
        ("y", y),
        ("group", samples.group),
        ("test", samples.test),
        ("texts", samples.texts),
        ("sheet", samples.sheet),
    ):
        if values is not None and len(values) != len(x):
            raise DataError(f"{name}: x has {len(x)} samples, but {part} has {len(values)}")
    if len(x) == 0:
        raise DataError(f"{name}: there are no samples")
    if samples.task == "classification":
        within(name, "label", y, samples.classes)
    if samples.group is not None:
        if samples.group.dtype != torch.int64 or samples.group.dim() != 1:
            raise DataError(f"{name}: group is {plain(samples.group)}, but groups are int64, one per sample")
        within(name, "group", samples.group, samples.groups)
    if samples.test is not None and samples.test.dtype != torch.bool:
        raise DataError(f"{name}: test is {plain(samples.test)}, but it is bool, one per sample")
    if x.dtype == torch.float32 and not bool(torch.isfinite(x.sum())):
        bad = mapped.first_bad(x)  # a finite sum can overflow, so look again
        if bad is not None:
            raise DataError(f"{name}: sample {bad} has a value that is not a finite number")


def within(name: str, what: str, values: Tensor, names: tuple[str, ...]) -> None:
    """Refuse values that are no position in ``names``, and names that occur twice."""
    if len(set(names)) != len(names):
        twice = next(n for n in names if names.count(n) > 1)
        raise DataError(f"{name}: the {what} name '{twice}' occurs twice")
    low, high = int(values.min()), int(values.max())
    if low < 0 or high >= len(names):
        wrong = low if low < 0 else high
        at = int(torch.nonzero(values == wrong)[0])
        raise DataError(f"{name}: {what} {wrong} of sample {at} is outside 0..{len(names) - 1}")


def contents(samples: Samples) -> str:
    """Return the SHA-256 of everything that a split may depend on."""
    total = hashlib.sha256(b"perfed samples 1")
    # Tokens follow from the texts and a vocabulary: with texts, the digest is the same before and after tokenising.
    inputs = samples.x if samples.texts is None and samples.sheet is None else None
    for label, tensor in (("x", inputs), ("y", samples.y), ("group", samples.group), ("test", samples.test)):
        if tensor is not None:
            total.update(f"|{label} {tensor.dtype} {tuple(tensor.shape)}|".encode())
            total.update(tensor.contiguous().numpy().reshape(-1).view(np.uint8).data)
    for label, words in (("classes", samples.classes), ("groups", samples.groups), ("texts", samples.texts or ())):
        total.update(f"|{label} {len(words)}|".encode())
        for word in words:
            coded = word.encode("utf-8", "surrogatepass")
            total.update(len(coded).to_bytes(8, "little") + coded)
    total.update(samples.kind.encode())
    if samples.sheet is not None:
        samples.sheet.update(total)
    if samples.task != "classification":
        total.update(f"|{samples.task}|".encode())
    return total.hexdigest()


def inputs_of(x: Any, kind: str | None) -> tuple[Tensor, str]:
    """Return ``x`` with the dtype and order of axes of its kind, and the kind; what lies in a file stays there if it fits."""
    tensor = x if isinstance(x, Tensor) else mapped.seen(_numbers(x))
    if kind is None:
        kind = guess(tensor)
    if kind not in KINDS:
        raise suggest("kind of samples", kind, KINDS)
    tensor = pixels(tensor) if kind == "image" else tensor
    dtype = KINDS[kind][0]
    if tensor.dtype == dtype and tensor.is_contiguous():
        return tensor, kind
    made = mapped.changed(tensor, lambda block: block.to(dtype))
    return tensor.to(dtype) if made is None else made, kind


def _numbers(x: Any) -> Any:
    """Refuse an array of what torch has no numbers for."""
    kind = getattr(x, "dtype", None)
    if isinstance(kind, np.dtype) and (kind.kind not in "biufc" or kind.itemsize > 8 * (1 + (kind.kind == "c"))):
        raise DataError(f"x is {kind}, but samples are numbers of at most 64 bits")
    return x


def guess(x: Tensor) -> str:
    """Return the kind that dtype and dimensions speak for."""
    if x.dtype == torch.uint8 and x.dim() in (3, 4):
        return "image"
    if x.is_floating_point() and x.dim() == 2:
        return "features"
    if x.is_floating_point() and x.dim() == 4:
        return "image" if x.shape[1] in (1, 3) and x.shape[2] > 1 else "signal"
    if x.is_floating_point() and x.dim() == 3:
        return "signal"
    raise DataError(f"x is {plain(x)}: say which kind it is with kind=, one of {', '.join(KINDS)}")


def coded(values: Any, names: Iterable[str] | None, what: str) -> tuple[Tensor, tuple[str, ...]]:
    """Return int64 positions and the names they stand for."""
    array = np.asarray(values.tolist() if isinstance(values, Tensor) else values)
    if array.ndim != 1:
        raise DataError(f"{what}s have the shape {array.shape}, but there is one {what} per sample")
    if array.dtype.kind == "f" and np.array_equal(array, np.floor(array)) and bool((np.abs(array) < 2**53).all()):
        array = array.astype(np.int64)
    if names is not None and array.dtype.kind in "iub":
        return torch.from_numpy(array.astype(np.int64)), tuple(str(name) for name in names)
    if array.dtype.kind not in "iubUO":
        advice = "; task=regression predicts numbers" if what == "label" else ""
        raise DataError(f"{what}s are {array.dtype}, but they are whole numbers or names{advice}")
    if names is None:
        distinct, codes = np.unique(array if array.dtype.kind in "iub" else array.astype(str), return_inverse=True)
        return torch.from_numpy(codes.astype(np.int64)), tuple(str(value) for value in distinct.tolist())
    known = {str(name): position for position, name in enumerate(names)}
    missing = sorted(set(array.astype(str).tolist()) - set(known))
    if missing:
        raise suggest(what, missing[0], known)
    return torch.tensor([known[str(value)] for value in array.tolist()], dtype=torch.int64), tuple(known)


def mask(test: Any) -> Tensor:
    """Return a bool tensor from bools or zeros and ones."""
    array = np.asarray(test)
    if array.ndim != 1:
        raise DataError(f"test has the shape {array.shape}, but it says test or not of each sample")
    if array.dtype != np.bool_ and not set(np.unique(array).tolist()) <= {0, 1}:
        raise DataError(f"test is {array.dtype} with values other than 0 and 1, but it says test or not of each sample")
    return torch.from_numpy(array.astype(np.bool_))
