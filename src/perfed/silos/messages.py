"""What a server asks a silo and what the silo answers: a JSON head, and tensors as the codec's bytes."""

import json
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from ..errors import WireError

FORMAT = 2


@dataclass(frozen=True, kw_only=True)
class Ask:
    """One request: score the model that would be served, train it, or both, on a named version of the private state."""

    verb: str  # "hello": what is there; "work": score and train
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
    body: bytes = b""  # what the server tells the client


@dataclass(frozen=True, kw_only=True)
class SiloAnswer:
    """What a silo answers; ``refused`` says why it did not do what it was asked."""

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


def pack(message: Ask | SiloAnswer) -> tuple[str, bytes]:
    """Return a message as a JSON head and the codec's bytes."""
    head = {k: v for k, v in asdict(message).items() if k != "body"}
    return json.dumps({"format": FORMAT, **head}, allow_nan=False, default=str), message.body


def unpack(kind: type[M], head: str, body: bytes) -> M:
    """Return the message in a head and bytes; anything but the fields of ``kind`` is refused."""
    try:
        found = json.loads(head)
    except json.JSONDecodeError as broken:
        raise WireError(f"a message's head is not JSON: {broken}") from broken
    known = kind.__dataclass_fields__
    if not isinstance(found, dict) or found.pop("format", None) != FORMAT:
        raise WireError(f"a message is not of format {FORMAT}: the other side runs another perfed")
    if found.keys() != known.keys() - {"body"}:
        raise WireError(f"a message's head has the wrong fields: {sorted(found.keys() ^ (known.keys() - {'body'}))}")
    _check(found)
    for name in ("parts", "scores"):
        if name in found:
            found[name] = tuple(found[name])
    return kind(**found, body=body)


_KINDS: dict[str, tuple[type, ...]] = {
    "base": (int,),
    "client": (int,),
    "clients": (int,),
    "digest": (str,),
    "experiment": (str,),
    "facts": (dict,),
    "parts": (list,),
    "refused": (str,),
    "score": (int, type(None)),
    "scores": (list,),
    "seconds": (dict,),
    "seed": (int,),
    "settings": (dict,),
    "train": (int, type(None)),
    "verb": (str,),
    "version": (str,),
}


def _check(found: dict[str, Any]) -> None:
    for name, kinds in _KINDS.items():
        if name in found and (not isinstance(found[name], kinds) or isinstance(found[name], bool)):
            raise WireError(f"a message's {name} should be {kinds[0].__name__}, not {type(found[name]).__name__}")
    after = found.get("after") or None  # a request says whether, an answer what
    for row in [*found.get("scores", ()), *([] if after in (None, True) else [after])]:
        fine = isinstance(row, dict) and type(row.get("count")) is int and row["count"] >= 0
        if not fine or not all(_measured(value) for value in row.values()) or not 0 <= (row.get("accuracy") or 0) <= 1:
            raise WireError(f"a score should be a count and numbers by name, not {row!r}")


def _measured(value: Any) -> bool:
    """Whether a value is what a metric gives: a number, nothing, or a list of such."""
    if isinstance(value, list):
        return all(map(_measured, value))
    return value is None or (isinstance(value, float | int) and not isinstance(value, bool))
