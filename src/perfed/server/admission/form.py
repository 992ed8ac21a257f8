"""What an answer must look like: names, shapes and types of its leaves, and how many samples its sender has."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ... import trees

Form = tuple[tuple[str, tuple[int, ...], str], ...]  # path, shape and type of every leaf, in order


def form_of(answer: Any) -> Form | None:
    """Return the form of an answer, or nothing where it is no tree of tensors."""
    try:
        found = list(trees.named(answer))
    except (TypeError, AttributeError, ValueError, RecursionError):
        return None
    form = []
    for path, leaf in found:
        if not isinstance(path, str) or not isinstance(leaf, Tensor):
            return None
        form.append((path, tuple(leaf.shape), _NAMES.get(leaf.dtype) or _name(leaf.dtype)))
    return tuple(form)


_NAMES: dict[torch.dtype, str] = {}


def _name(kind: torch.dtype) -> str:
    return _NAMES.setdefault(kind, str(kind).removeprefix("torch."))


def differs(found: Form | None, expected: Form) -> str:
    """Return in a few words how a form is not the expected one, or nothing."""
    if found == expected:
        return ""
    if found is None:
        return "it is no tree of tensors"
    own, other = ({path: (shape, kind) for path, shape, kind in form} for form in (found, expected))
    if missing := sorted(other.keys() - own.keys()):
        return f"'{missing[0]}' is missing"
    if unknown := sorted(own.keys() - other.keys()):
        return f"'{unknown[0][:80]}' is not asked for"
    for path, (shape, kind) in own.items():
        if (shape, kind) != other[path]:
            should = other[path]
            return f"'{path}' is {_size(shape)} of {kind}, not {_size(should[0])} of {should[1]}"
    return "its leaves are in another order"


def _size(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape)) or "one number"


def usual(forms: Sequence[Form | None], sent: Sequence[set[str]], known: Mapping[Form, int]) -> Form | None:
    """Return the form that most answers of a round have.

    Of equally many the one that was admitted before, then the one that has more of what was sent, then the first.
    """
    count = Counter(form for form in forms if form is not None)
    if not count:
        return None

    def rank(form: Form) -> tuple[int, int, int, int]:
        place = forms.index(form)
        alike = sum(path.rpartition("/")[2] in sent[place] for path, _, _ in form) if sent else 0
        return count[form], known.get(form, 0), alike, -place

    return max(count, key=rank)


def miscounted(said: int, registered: int) -> str:
    """Return what is wrong with a number of training samples, or nothing: it is the one that was registered."""
    if said == registered:
        return ""
    return f"it says {said} training samples, registered were {registered}"
