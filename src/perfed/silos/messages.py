"""What a server asks a silo and what the silo answers: a JSON head, and tensors as the codec's bytes."""

import json
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from ..errors import WireError

FORMAT = 1


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
    scores: tuple[tuple[int, int, float | None], ...] = ()  # correct, count, loss for each part
    after: tuple[int, int, float | None] | None = None
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
            found[name] = tuple(tuple(v) if isinstance(v, list) else v for v in found[name])
    if found.get("after") and isinstance(found["after"], list):
        found["after"] = tuple(found["after"])
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
    rows = [*found.get("scores", ()), *([found["after"]] if isinstance(found.get("after"), list) else [])]
    for row in rows:
        fine = isinstance(row, list) and len(row) == 3 and all(type(v) is int and v >= 0 for v in row[:2])
        if not fine or not (row[2] is None or isinstance(row[2], float | int)) or row[0] > row[1]:
            raise WireError(f"a score should be correct, count and loss, not {row!r}")
