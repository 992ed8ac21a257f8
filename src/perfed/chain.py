"""Lines of JSON that are chained by SHA-256: each ends in a hash over itself and the hash of the line before.

Whoever changes, drops, adds or moves a line must compute every later hash anew, and the last one stands elsewhere too.
The bytes of a line are hashed as they are written, so that nothing in it can change unseen.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from .errors import RunError

FIELD = "chain"
CHANGED = "it was changed after it was written"
_END = re.compile(rb', "chain": "([0-9a-f]{64})"\}')
_LONG = len(', "chain": ""}') + 64


class Link(NamedTuple):
    """One line of a chain."""

    number: int  # from 1
    record: dict[str, Any]  # what it says, without the hash
    chain: str  # the hash it ends in
    end: int  # the byte after it


def add(before: str, record: Mapping[str, Any]) -> tuple[bytes, str]:
    """Return a record as the line that follows ``before``, and the hash it ends in."""
    body = json.dumps(record, allow_nan=False).encode()
    if body == b"{}" or FIELD in record:
        raise ValueError(f"a line of a chain says something, and not in '{FIELD}'")
    chain = _hash(before, body)
    return body[:-1] + f', "{FIELD}": "{chain}"}}\n'.encode(), chain


def follow(text: bytes, origin: str, path: Path) -> Iterator[Link]:
    """Yield the lines of a chain; the first that does not follow from the one before is refused by its number.

    What stands after the last line's end was never written to its end, and is passed over.
    """
    before, at, number = origin, 0, 0
    while (end := text.find(b"\n", at)) >= 0:
        number += 1
        line, at = text[at:end], end + 1
        found = _END.fullmatch(line[-_LONG:])
        if not found:
            raise RunError(f"line {number} of '{path}' is not of the chain: {CHANGED}")
        chain = found[1].decode()
        body = line[:-_LONG] + b"}"
        if _hash(before, body) != chain:
            raise RunError(f"line {number} of '{path}' does not follow from {_before(number)}: {CHANGED}")
        yield Link(number, parsed(body, number, path), chain, at)
        before = chain


def parsed(text: bytes, number: int, path: Path) -> dict[str, Any]:
    """Return the object in a line; anything else in it is damage."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RunError(f"line {number} of '{path}' is damaged: {error}") from error
    if not isinstance(found, dict):
        raise RunError(f"line {number} of '{path}' is damaged: it holds no object")
    return found


def begins(text: bytes) -> bool:
    """Return whether the first line is one of a chain."""
    return _END.search(text[: text.find(b"\n") + 1]) is not None


def seal(content: Any) -> str:
    """Return a SHA-256 over a value as JSON holds it, whatever the order of its keys."""
    plain = json.loads(json.dumps(content, default=str))  # keys are texts there, and pairs are lists
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def _hash(before: str, body: bytes) -> str:
    return hashlib.sha256(before.encode() + b"\n" + body).hexdigest()


def _before(number: int) -> str:
    return f"line {number - 1}" if number > 1 else "its beginning"
