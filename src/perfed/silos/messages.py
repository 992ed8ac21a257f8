"""What a server asks a silo and what the silo answers: a JSON head, and tensors as the codec's bytes."""

import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from ..errors import WireError
from .refusals import CODES

FORMAT = 2


@dataclass(frozen=True, kw_only=True)
class Ask:
    """One request: score the model that would be served, train it, or both, on a named version of the private state."""

    verb: str  # "columns": sums over a table's columns; "hello": what is there; "work": score and train; "join"
    experiment: str  # names the private states at the silo
    client: int
    clients: int
    seed: int
    settings: dict[str, Any]
    version: str  # of perfed
    seeded: bool = False  # private parts from the public seed, for comparisons only
    base: int = 0  # the version of the private state to build on
    train: int | None = None  # the round to train
    score: int | None = None  # the round to score
    parts: tuple[str, ...] = ()
    after: bool = False  # also score right after training
    columns: list[dict[str, Any]] | None = None  # how rows of tables are coded, where the silos agreed on it by sums
    body: bytes = b""  # what the server tells the client


@dataclass(frozen=True, kw_only=True)
class SiloAnswer:
    """What a silo answers; ``refused`` is the code of why it did not do what it was asked."""

    experiment: str
    client: int
    base: int
    train: int | None = None
    score: int | None = None
    refused: str = ""
    facts: dict[str, Any] = field(default_factory=dict)  # sizes, classes, shape of the inputs, versions
    scores: tuple[dict[str, Any], ...] = ()  # for each part the count and, by name, what was measured
    after: dict[str, Any] | None = None
    digest: str = ""  # of the private state, where the silo's policy lets it be known
    seconds: dict[str, float] = field(default_factory=dict)  # spent at the silo
    body: bytes = b""  # what the client answers


M = TypeVar("M", Ask, SiloAnswer)

HEAD = 1 << 20  # most characters of a head
COUNT = 10**9  # most samples, rounds, clients; more is a mistake or a lie


def pack(message: Ask | SiloAnswer) -> tuple[str, bytes]:
    """Return a message as a JSON head and the codec's bytes."""
    head = {k: v for k, v in asdict(message).items() if k != "body"}
    return json.dumps({"format": FORMAT, **head}, allow_nan=False, default=str), message.body


def unpack(kind: type[M], head: str, body: bytes) -> M:
    """Return the message in a head and bytes; whatever is not of the form of ``kind`` is refused."""
    found = parsed(head)
    known = kind.__dataclass_fields__
    if not isinstance(found, dict) or found.pop("format", None) != FORMAT:
        raise WireError(f"a message is not of format {FORMAT}: the other side runs another perfed")
    if kind is Ask:
        found.setdefault("columns", None)  # a silo keeps the last message, which may be older than this
    if found.keys() != known.keys() - {"body"}:
        raise WireError(f"a message's head has the wrong fields: {sorted(found.keys() ^ (known.keys() - {'body'}))}"[:300])
    for name, value in found.items():
        fine, said = _after(kind) if name == "after" else _FORMS[name]
        if not fine(value):
            raise WireError(f"a message's {name} should be {said}, not {brief(value)}")
    for name in ("parts", "scores"):
        if name in found:
            found[name] = tuple(found[name])
    return kind(**found, body=body)


def parsed(head: str) -> Any:
    """Return the values in JSON text; what is too long, too deep or no number is refused."""
    if len(head) > HEAD:
        raise WireError(f"a message's head has {len(head)} characters, at most {HEAD} are read")
    try:
        return json.loads(head, parse_int=_whole, parse_constant=_no_number)
    except RecursionError as deep:
        raise WireError("a message's head is nested too deeply") from deep
    except ValueError as broken:
        raise WireError(f"a message's head is not JSON: {broken}") from broken


def brief(value: Any) -> str:
    """Return a value from outside as a few plain characters."""
    try:
        text = repr(value)
    except (RecursionError, ValueError):
        text = type(value).__name__
    return text if len(text) <= 60 else f"{text[:60]}…"


def _whole(text: str) -> int:
    if len(text) > 19:
        raise WireError(f"a message's head has a number of {len(text)} digits")
    return int(text)


def _no_number(text: str) -> float:
    raise WireError(f"a message's head has {text}, which is no number")


def is_count(value: Any, least: int = 0) -> bool:
    """Whether a value from outside can be a number of things."""
    return type(value) is int and least <= value <= COUNT


def is_text(value: Any, most: int = 200) -> bool:
    """Whether a value from outside is a short text in one line."""
    return isinstance(value, str) and len(value) <= most and value.isprintable()


def _is_finite(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < 1e300


def is_score(row: Any) -> bool:
    """Whether a value from outside is a count and what was measured, by name."""
    if not isinstance(row, dict) or not is_count(row.get("count")) or len(row) > 32:
        return False
    accuracy = row.get("accuracy")
    if accuracy is not None and not (_is_finite(accuracy) and 0 <= accuracy <= 1):
        return False
    return all(is_text(name, 60) and _is_measured(value) for name, value in row.items())


def _is_measured(value: Any, depth: int = 2) -> bool:
    """Whether a value is what a metric gives: a number, nothing, or a list or matrix of such."""
    if isinstance(value, list):
        return depth > 0 and len(value) <= 10_000 and all(_is_measured(each, depth - 1) for each in value)
    return value is None or _is_finite(value)


def _is_digest(value: Any) -> bool:
    return value == "" or (isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) is not None)


def _is_spent(value: Any) -> bool:
    return isinstance(value, dict) and len(value) <= 8 and all(is_text(k, 20) and _is_finite(v) for k, v in value.items())


def _after(kind: type) -> tuple[Callable[[Any], bool], str]:
    if kind is Ask:
        return (lambda v: isinstance(v, bool)), "true or false"
    return (lambda v: v is None or is_score(v)), "a count and numbers by name"


Form = tuple[Callable[[Any], bool], str]  # whether a value is right, and what it should be
_NUMBER: Form = (lambda v: type(v) is int and -1 <= v <= COUNT), "a count"
_ROUND: Form = (lambda v: v is None or is_count(v)), "a round or null"
_FORMS: dict[str, Form] = {
    "base": _NUMBER,
    "client": _NUMBER,
    "clients": _NUMBER,
    "columns": ((lambda v: v is None or (isinstance(v, list) and all(isinstance(c, dict) for c in v))), "columns or null"),
    "digest": (_is_digest, "64 hexadecimal digits or nothing"),
    "experiment": (is_text, "a short text"),
    "facts": ((lambda v: isinstance(v, dict) and len(v) <= 32), "a few facts"),
    "parts": ((lambda v: isinstance(v, list) and all(p in ("test", "validation") for p in v)), "parts of the data"),
    "refused": ((lambda v: v == "" or (isinstance(v, str) and v in CODES)), "one of the known codes"),
    "score": _ROUND,
    "scores": ((lambda v: isinstance(v, list) and len(v) <= 2 and all(map(is_score, v))), "a score for each part"),
    "seconds": (_is_spent, "seconds by name"),
    "seed": ((lambda v: type(v) is int), "a whole number"),
    "seeded": ((lambda v: isinstance(v, bool)), "true or false"),
    "settings": ((lambda v: isinstance(v, dict)), "settings"),
    "train": _ROUND,
    "verb": (is_text, "a short text"),
    "version": (is_text, "a short text"),
}
