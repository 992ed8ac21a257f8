"""A head and bytes as Flower's records and back; without torch, so that a silo's short-lived process stays light."""

from typing import Any

from ...errors import WireError

_STYPE = "perfed.wire"  # how Flower names the serialisation; it never looks inside


def record(head: str, body: bytes) -> Any:
    """Return a message's two halves as Flower's RecordDict."""
    from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

    array = Array(dtype="uint8", shape=(len(body),), stype=_STYPE, data=body)
    return RecordDict({"head": ConfigRecord({"json": head}), "body": ArrayRecord({"bytes": array})})


def halves(found: Any) -> tuple[str, bytes]:
    """Return the two halves in Flower's RecordDict."""
    try:
        head, array = found["head"]["json"], found["body"]["bytes"]
        if not isinstance(head, str) or array.stype != _STYPE:
            raise WireError("a message does not carry perfed's bytes")
        return head, bytes(array.data)
    except (KeyError, TypeError, AttributeError) as missing:
        raise WireError(f"a message does not carry perfed's records: {missing}") from missing
