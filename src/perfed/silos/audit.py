"""Who did what, provably: a log of asks, answers, refusals and decisions, chained by hashes, its head signed by the node's key.

A line that is changed, dropped, added or moved breaks the chain; a log that is cut short does not reach its signed head. Who
holds the key can write another log: whoever must not be able to needs the head from somewhere else, or the other side's log.
"""

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from .. import __version__, chain, disk
from ..errors import RunError
from . import keep
from .exchange import Carrier, Place, Reply
from .messages import Ask

LOG, HEAD = "log.jsonl", "head.json"
UNSIGNED = "unsigned"
_PURPOSE = b"perfed audit log 1\n"  # so that no other signature of this key is taken for one of a log


class Key(NamedTuple):
    """A node's key as a log uses it; who only reads has nothing to sign with."""

    name: str  # a hash of the public half
    holds: Callable[[bytes, bytes], bool]  # signature, text
    sign: Callable[[bytes], bytes] | None = None


@dataclass(frozen=True)
class Examined:
    """What could be proved of a log."""

    path: Path
    state: Literal["proved", "prefix", "unsigned", "disproved"]
    said: str
    lines: int = 0
    head: str = ""

    def plain(self) -> dict[str, Any]:
        """Return it as JSON holds it."""
        return self.__dict__ | {"path": str(self.path)}


BEGINS = chain.seal({"audit": 1})  # what the first line of a log follows from


class Audit:
    """A node's own log; several processes of the node may write to it."""

    def __init__(self, folder: Path, key: Key | None) -> None:
        self.path, self.head, self.key = folder / LOG, folder / HEAD, key
        self._at: tuple[int, int, str] | None = None  # bytes, lines and the last hash, as this process left them

    def note(self, what: str, **said: Any) -> None:
        """Write one record: an ``ask``, an ``answer``, a ``refusal`` or a ``decision``."""
        self.notes([(what, said)])

    def notes(self, records: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
        """Write records; they are on the disk, and the head is signed, before this returns."""
        told = list(records)
        if not told:
            return
        with keep.locked(self.path.with_name("lock")):
            size, lines, last = self._opened()
            text = b""
            for what, said in told:
                line, last = chain.add(last, {"time": _now(), "what": what, **said})
                text, lines = text + line, lines + 1
            with disk.writing(self.path), open(self.path, "ab", opener=_own) as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())  # a line that was told is on the disk
            disk.put(self.head, _signed(lines, last, self.key), private=True, synced=False)  # an older head is a prefix
            self._at = size + len(text), lines, last

    def _opened(self) -> tuple[int, int, str]:
        """Return how long the log is and what it ends in; what a killed process left is mended and said."""
        there = self.path.stat().st_size if self.path.exists() else 0
        if self._at is not None and self._at[0] == there:
            return self._at
        text = self.path.read_bytes() if there else b""
        links = list(chain.follow(text, BEGINS, self.path))
        end, last = (links[-1].end, links[-1].chain) if links else (0, BEGINS)
        count = len(links)
        known = _reached(self.head)
        if known > count:
            raise RunError(
                f"'{self.path}' ends after line {count}, and its signed head names {known}: it was cut short; "
                "move the folder away, as evidence, and a new log is begun"
            )
        if end < len(text):
            os.truncate(self.path, end)  # a line that was cut off while it was written never was
        said = {"perfed": __version__, "pid": os.getpid()}
        if torn := len(text) - end:
            said["torn"] = torn
        if count > known:
            said[UNSIGNED] = count - known  # these were written and not signed: a process ended in between
        if self._at is not None and len(said) == 2:  # another process of this node wrote, and all is well
            return end, count, last
        line, last = chain.add(last, {"time": _now(), "what": "begin", **said})
        with disk.writing(self.path), open(self.path, "ab", opener=_own) as file:
            file.write(line)
        return end + len(line), count + 1, last


def examine(path: Path, text: bytes, head: bytes | None, key: Key | None) -> Examined:
    """Return what can be proved of a log's bytes by its head's, with the public half of the node's key."""
    try:
        links = list(chain.follow(text, BEGINS, path))
        if head is None:
            raise RunError(f"the log '{path}' has no signed head beside it: it was removed, or nothing was ever signed")
        lines, last, signature, name = _read(head, path)
        if not 0 < lines <= len(links):
            raise RunError(f"'{path}' ends after line {len(links)}, and its signed head names {lines}: it was cut short")
        if links[lines - 1].chain != last:
            raise RunError(f"line {lines} of '{path}' is not the one that its signed head names: {chain.CHANGED}")
        if name != (key.name if key else UNSIGNED) or (key and not key.holds(signature, _text(lines, last))):
            raise RunError(f"the head of '{path}' is not signed by this node's key")
    except RunError as wrong:
        return Examined(path, "disproved", str(wrong))
    more, torn = len(links) - lines, len(text) - links[-1].end
    if key is None:
        return Examined(path, "unsigned", f"{lines} lines are chained; this node has no key, so nothing is signed", lines, last)
    if more or torn:
        rest = f"{more} lines after it are chained and not signed" if more else "after it stands a line without an end"
        return Examined(path, "prefix", f"proved to line {lines}; {rest}: a process ended while it wrote", lines, last)
    return Examined(path, "proved", f"proved, {lines} lines, signed by {key.name[:16]}", lines, last)


def examined(folder: Path, key: Key | None) -> Examined:
    """Return what can be proved of the log in a folder."""
    log, head = folder / LOG, folder / HEAD
    if not log.is_file():
        said = "its log is gone, and its signed head is there" if head.exists() else "there is no log: nothing was asked yet"
        return Examined(log, "disproved" if head.exists() else "prefix", said)
    found = head.read_bytes() if head.is_file() else None  # before the log, which is written first
    return examine(log, log.read_bytes(), found, key)


class Audited:
    """A carrier that writes down every request and every reply."""

    def __init__(self, carrier: Carrier, audit: Audit) -> None:
        self.carrier, self.audit = carrier, audit

    def nodes(self) -> dict[int, Place]:
        return self.carrier.nodes()

    def push(self, asks: Sequence[tuple[Place, Ask]], seconds: float) -> list[str | None]:
        self.audit.notes([("ask", {"node": str(place.node)} | told(ask)) for place, ask in asks])
        return self.carrier.push(asks, seconds)

    def pull(self, messages: Sequence[str], wait: float) -> list[Reply]:
        found = self.carrier.pull(messages, wait)
        self.audit.notes([("answer", _replied(reply)) for reply in found])
        return found


def told(ask: Ask) -> dict[str, Any]:
    """Return what a log says of a request; of its content a hash."""
    return {
        "verb": ask.verb,
        "experiment": ask.experiment,
        "client": ask.client,
        "base": ask.base,
        "train": ask.train,
        "score": ask.score,
        "settings": chain.seal(ask.settings),
        **sized(ask.body),
    }


def sized(body: bytes) -> dict[str, Any]:
    """Return the length and the hash of what was sent."""
    return {"bytes": len(body), "sha256": hashlib.sha256(body).hexdigest()}


def _replied(reply: Reply) -> dict[str, Any]:
    if reply.answer is None:
        return {"message": reply.message, "none": (reply.wrong or reply.error)[:300]}
    own = reply.answer
    who = {"experiment": own.experiment, "client": own.client, "train": own.train, "score": own.score, "refused": own.refused}
    return {"message": reply.message} | who | sized(own.body)


def _signed(lines: int, last: str, key: Key | None) -> bytes:
    signature = key.sign(_text(lines, last)).hex() if key is not None and key.sign is not None else ""
    name = key.name if key is not None else UNSIGNED
    return (json.dumps({"lines": lines, chain.FIELD: last, "key": name, "signature": signature}) + "\n").encode()


def _text(lines: int, last: str) -> bytes:
    return _PURPOSE + f"{lines} {last}".encode()


def _read(head: bytes, path: Path) -> tuple[int, str, bytes, str]:
    """Return the lines, the last hash, the signature and the key's name in a head."""
    try:
        found = json.loads(head)
        lines, last, signature = found["lines"], found[chain.FIELD], bytes.fromhex(found["signature"])
        name = str(found["key"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise RunError(f"the head of '{path}' is damaged: {type(error).__name__}") from error
    if type(lines) is not int or not isinstance(last, str) or found["signature"] != signature.hex():
        raise RunError(f"the head of '{path}' is damaged: it has another form")
    return lines, last, signature, name


def _reached(head: Path) -> int:
    return _read(head.read_bytes(), head)[0] if head.is_file() else 0


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")


def _own(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
