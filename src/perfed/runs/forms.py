"""The forms of a record's notes: what has another one is damage, and is said in a sentence before anybody reads it."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..disk import get_object
from ..errors import RunError

Form = Callable[[Any], bool]


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63


def _list(of: Form) -> Form:
    return lambda value: isinstance(value, list) and all(map(of, value))


def _map(of: Form) -> Form:
    return lambda value: isinstance(value, dict) and all(map(of, value.values()))


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _earlier(value: Any) -> bool:
    return isinstance(value, dict) and _text(value.get("settings"))


def _scores(value: Any) -> bool:
    return value is None or _map(lambda each: isinstance(each, list))(value)


MANIFEST: Mapping[str, Form] = {"settings": _text, "data": _text, "splits": _map(_text), "earlier": _list(_earlier)}
CLIENTS: Mapping[str, Form] = {
    "names": _list(_text),
    "classes": _list(_text),
    **dict.fromkeys(("train", "validation", "test"), _list(_count)),
    "labels": _list(_list(_count)),
    "majority": _map(lambda value: isinstance(value, list)),
}
FINAL: Mapping[str, Form] = {"rounds": _count, "digest": _text, "seconds": _number}
LINE: Mapping[str, Form] = {
    "round": _count,
    "participants": _list(_count),
    **dict.fromkeys(("seconds", "seconds_train", "seconds_test"), _number),
    **dict.fromkeys(("bytes_up", "bytes_down"), _count),
    **dict.fromkeys(("up", "down"), _map(_count)),
    **dict.fromkeys(("test", "validation", "after"), _scores),
}


def formed(path: Path, forms: Mapping[str, Form], needed: str = "") -> dict[str, Any]:
    """Return the object in a JSON file whose entries have the forms that are known for them, ``needed`` among them."""
    found = get_object(path)
    if needed and needed not in found:
        raise RunError(f"'{path}' is damaged: it has no '{needed}'")
    if wrong := odd(found, forms):
        raise RunError(f"'{path}' is damaged: its '{wrong}' has another form")
    return found


def odd(found: Mapping[str, Any], forms: Mapping[str, Form]) -> str:
    """Return the first entry that has another form than is known, or nothing."""
    return next((name for name, form in forms.items() if name in found and not form(found[name])), "")
