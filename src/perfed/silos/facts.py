"""What a silo says of its data: the form that it must have, and what the silos of one experiment must agree on."""

import logging
import re
from collections import Counter
from collections.abc import Callable, Mapping
from math import prod
from typing import Any

from ..data.targets import TASKS
from ..errors import WireError
from .messages import brief, is_count, is_text

log = logging.getLogger("perfed.silos")

AGREED = ("task", "classes", "shape", "dtype", "words", "columns")  # what the silos' data must have in common
DTYPES = ("float32", "int32", "int64", "uint8")
CLASSES = 1 << 16
VALUES = 1 << 28  # most values of one sample
WORDS = 1 << 24


def _is_sizes(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 3 and all(map(is_count, value))


def _is_classes(value: Any) -> bool:
    fine = isinstance(value, list) and 1 <= len(value) <= CLASSES and all(map(is_text, value))
    return fine and len(set(value)) == len(value)


def _is_shape(value: Any) -> bool:
    fine = isinstance(value, list) and len(value) <= 8 and all(is_count(n, 1) for n in value)
    return fine and prod(value) <= VALUES


def _is_columns(value: Any) -> bool:
    pairs = isinstance(value, list) and all(isinstance(v, list) and len(v) == 2 for v in value)
    return value is None or (pairs and all(is_text(name) and is_text(kind) for name, kind in value))


def _is_counts(value: Any) -> bool:
    return isinstance(value, list) and len(value) <= CLASSES and all(map(is_count, value))


_FORMS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "sizes": (_is_sizes, "three counts"),
    "task": (lambda v: v in TASKS, f"one of {', '.join(TASKS)}"),
    "classes": (_is_classes, "different names"),
    "shape": (_is_shape, "a few positive numbers"),
    "dtype": (lambda v: v in DTYPES, f"one of {', '.join(DTYPES)}"),
    "words": (lambda v: v is None or (is_count(v, 1) and v <= WORDS), "a number of words or null"),
    "columns": (_is_columns, "names with kinds or null"),
    "name": (is_text, "a short text"),
    "torch": (is_text, "a short text"),
    "labels": (_is_counts, "counts"),
    "start": (lambda v: isinstance(v, str) and re.fullmatch("[0-9a-f]{32}", v) is not None, "32 hexadecimal digits"),
    "guess": (lambda v: type(v) in (int, float) and 0 <= v <= 1, "a share"),
    "majority": (lambda v: _is_counts(v) and len(v) == 2 and v[0] <= v[1], "correct and count"),
}
_OPTIONAL = {"guess", "labels", "majority", "start"}


def checked(facts: Mapping[str, Any], most: int = 0) -> dict[str, Any]:
    """Return a silo's facts, each of the form that it must have; others are refused, as is more to train on than ``most``."""
    if wrong := facts.keys() - _FORMS.keys():
        raise WireError(f"the silo says what nobody asked: {brief(sorted(wrong))}")
    for name, (fine, said) in _FORMS.items():
        if name not in facts and name not in _OPTIONAL:
            raise WireError(f"the silo does not say its {name}")
        if name in facts and not fine(facts[name]):
            raise WireError(f"the silo's {name} should be {said}, not {brief(facts[name])}")
    if "labels" in facts and len(facts["labels"]) != len(facts["classes"]):
        raise WireError(f"the silo counts {len(facts['labels'])} labels and names {len(facts['classes'])} classes")
    said, counted = sum(facts["sizes"]), sum(facts.get("labels", ()))
    if "labels" in facts and facts["task"] == "classification" and counted != said:
        raise WireError(f"the silo says it has {said} samples and counts {counted} labels")
    if most and facts["sizes"][0] > most:
        raise WireError(
            f"the silo says it has {facts['sizes'][0]} training samples, the server takes at most {most} (server.yaml)"
        )
    return dict(facts)


def agreed(silos: Mapping[int, Mapping[str, Any]], refuse: Callable[[int, str], None]) -> dict[int, dict[str, Any]]:
    """Return the silos whose data have the form that most have; the others are refused, with what differs."""
    forms = {i: repr([facts[name] for name in AGREED]) for i, facts in silos.items()}
    if not forms:
        return {}
    most = max(Counter(forms.values()).values())
    chosen = next(i for i in sorted(forms) if Counter(forms.values())[forms[i]] == most)
    for i in sorted(forms):
        if forms[i] != forms[chosen]:
            refuse(i, differs(silos[i], silos[chosen]))
    if len({facts.get("start") for facts in silos.values()}) > 1:
        log.warning("the silos' private parts begin differently, which can cost accuracy: their files start.key are not the same")
    return {i: dict(silos[i]) for i in sorted(forms) if forms[i] == forms[chosen]}


def differs(facts: Mapping[str, Any], others: Mapping[str, Any]) -> str:
    """Return in a sentence what of a silo's data is not as the others' are, or nothing."""
    for name in AGREED:
        if facts.get(name) != others.get(name):
            return f"the silo's {name} is {brief(facts.get(name))}, the others' is {brief(others.get(name))}"
    return ""
