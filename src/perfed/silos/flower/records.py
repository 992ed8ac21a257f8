"""A head and bytes as Flower's records and back; without torch, so that a short-lived process stays light."""

from collections.abc import Mapping
from typing import Any

from ...errors import WireError

_SMALL = 1 << 16  # bytes up to which a body travels beside its head; a larger one is an object that many messages share


def record(head: str, body: bytes) -> Any:
    """Return a message's two halves as Flower's RecordDict."""
    from flwr.app import ConfigRecord, RecordDict

    if len(body) <= _SMALL:
        return RecordDict({"message": ConfigRecord({"head": head, "body": body})})
    return RecordDict({"head": ConfigRecord({"head": head}), "body": ConfigRecord({"body": body})})


def halves(found: Any) -> tuple[str, bytes]:
    """Return the two halves in Flower's RecordDict."""
    try:
        return joined(list(found.values()))
    except AttributeError as missing:
        raise WireError(f"a message does not carry perfed's records: {missing}") from missing


def joined(records: list[Any]) -> tuple[str, bytes]:
    """Return the two halves in a message's records, which may be one or two."""
    whole: dict[str, Any] = {}
    for one in records:
        if not isinstance(one, Mapping):
            raise WireError(f"a message carries {type(one).__name__}, not perfed's records")
        whole |= dict(one)
    head, body = whole.get("head"), whole.get("body")
    if whole.keys() != {"head", "body"} or not isinstance(head, str) or not isinstance(body, bytes):
        raise WireError("a message does not carry perfed's head and body")
    return head, body
