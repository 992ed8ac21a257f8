"""The rounds of one seed on disk, a JSON line each, chained from the hashes of what the seed began with to its final note."""

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from .. import chain
from ..chain import Link
from ..disk import get_object, hash_file, put, sync, writing
from ..errors import RunError
from ..evaluate.scores import current
from .forms import LINE, odd
from .states import GOES_ON

ORIGIN, FINAL, NOTE = "origin.json", "final.json", "checkpoint.json"
_LARGE = 4 << 30  # bytes of lines beyond which a packed record is none


class Lines:
    """The rounds of one seed, a JSON line each.

    Where the folder has an ``origin.json`` the lines are a chain that begins with its hash; without it they were written by
    a version that knew no chains, and are read as they stand.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.packed = path.with_name(path.name + ".gz")  # a record that is kept without states
        self._known: dict[int, str] | None = None  # round → the hash its line ends in, as this process wrote or read it
        self._head = ""

    def read(self, last: int | None = None) -> list[dict[str, Any]]:
        """Return the lines up to round ``last``.

        A line that was cut off while it was written is the last and has no end: it never was. Any other damage is an error,
        and so is a line that does not follow from the one before, or a record that ends before its notes say.
        """
        links = self.links()
        found = [(link.number, link.record) for link in links]
        return [_today(line, number, self.path) for number, line in found if last is None or line["round"] <= last]

    def links(self) -> list[Link]:
        """Return the lines with the hashes they end in (none in old records); what does not fit is refused."""
        notes = self.notes()  # before the lines: these are written first, so that they never lag behind
        found = list(self._links(self._bytes()))
        if self.chained:
            _held(found, notes, self.path)
        return found

    def notes(self) -> dict[str, dict[str, Any]]:
        """Return what the notes beside the lines say, by file."""
        there = [self.path.with_name(name) for name in (FINAL, NOTE)]
        return {path.name: get_object(path) for path in there if path.exists()}

    @property
    def chained(self) -> bool:
        """Whether the lines are a chain."""
        return self.path.with_name(ORIGIN).exists()

    @property
    def origin(self) -> str:
        """What the first line follows from."""
        return hash_file(self.path.with_name(ORIGIN))

    def link(self, number: int) -> str | None:
        """Return the hash that the line of a round ends in; nothing in old records."""
        return self._opened().get(number) if self.chained else None

    @property
    def head(self) -> str:
        """The hash that the last line ends in."""
        self._opened()
        return self._head

    @property
    def count(self) -> int:
        """How many lines there are."""
        return len(self._opened())

    def _opened(self) -> dict[int, str]:
        if self._known is None:
            links = list(self._links(self._bytes()))
            self._known = {link.record["round"]: link.chain for link in links}
            self._head = links[-1].chain if links else self.origin if self.chained else ""
        return self._known

    def _links(self, text: bytes) -> Iterator[Link]:
        if not self.chained:
            if chain.begins(text):
                raise RunError(f"'{self.path.with_name(ORIGIN)}' is missing: the lines of '{self.path.name}' follow from it")
            yield from _plain(text, self.path)
            return
        for link in chain.follow(text, self.origin, self.path):
            _checked(link.record, link.number, self.path)
            yield link

    def _bytes(self) -> bytes:
        if self.path.exists():
            return self.path.read_bytes()
        if not self.packed.exists():
            return b""
        try:
            with gzip.open(self.packed) as file:
                found = file.read(_LARGE + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise RunError(f"'{self.packed}' is damaged: {error}") from error
        if len(found) > _LARGE:
            raise RunError(f"'{self.packed}' is damaged: it unpacks to more than {_LARGE >> 30} GiB")
        return found

    def pack(self, target: "Lines") -> None:
        """Write the lines elsewhere in less room; the same lines give the same bytes."""
        put(target.packed, gzip.compress(self._bytes(), mtime=0))

    def rewrite(self, records: Iterable[Mapping[str, Any]]) -> str:
        """Write packed lines again from what the chain begins with now; return the hash they end in."""
        head, text = self.origin, list[bytes]()
        for record in records:
            line, head = chain.add(head, record)
            text.append(line)
        put(self.packed, gzip.compress(b"".join(text), mtime=0))
        self._known = None
        return head

    def append(self, line: Mapping[str, Any]) -> None:
        text, head = (json.dumps(line, allow_nan=False) + "\n").encode(), ""
        if self.chained:
            text, head = chain.add(self.head, line)
        with writing(self.path, GOES_ON), self.path.open("ab") as file:
            file.write(text)
        if self._known is not None:
            self._known[line["round"]] = self._head = head

    def cut(self, last: int) -> None:
        """Forget the rounds after ``last``; these need not fit, since they come out again."""
        text, kept = self._bytes(), list[Link]()
        for link in self._links(text):
            if link.record["round"] > last:
                break
            kept.append(link)
        if self.chained:
            _held(kept, {name: note for name, note in self.notes().items() if name == NOTE}, self.path)
        put(self.path, text[: kept[-1].end] if kept else b"", kept=GOES_ON)
        self._known = None

    def forget(self) -> None:
        """Forget all rounds."""
        self.path.unlink(missing_ok=True)
        self._known = None

    def sync(self) -> None:
        """See to it that the lines are on the disk."""
        sync(self.path, kept=GOES_ON)


def _plain(text: bytes, path: Path) -> Iterator[Link]:
    """Yield the lines of a record that is no chain."""
    at = 0
    for number, line in enumerate(text.split(b"\n")[:-1], start=1):
        at += len(line) + 1
        yield Link(number, _checked(chain.parsed(line, number, path), number, path), "", at)


def _checked(line: dict[str, Any], number: int, path: Path) -> dict[str, Any]:
    if "round" not in line:
        raise RunError(f"line {number} of '{path}' is damaged: it names no round")
    if wrong := odd(line, LINE):
        raise RunError(f"line {number} of '{path}' is damaged: its '{wrong}' has another form")
    return line


def _today(line: dict[str, Any], number: int, path: Path) -> dict[str, Any]:
    try:
        return current(line)
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(f"line {number} of '{path}' is damaged: its scores have another form ({error})") from error


def _held(links: list[Link], notes: Mapping[str, Mapping[str, Any]], path: Path) -> None:
    """Refuse lines that end before the notes say, or end in other hashes."""
    if (final := notes.get(FINAL)) is not None:
        at, head = final.get("lines"), final.get(chain.FIELD)
        if not isinstance(at, int) or not 1 <= at <= len(links):
            raise RunError(f"'{path}' ends after line {len(links)}, and {FINAL} names {at} lines: {chain.CHANGED}")
        if links[at - 1].chain != head:
            raise RunError(f"line {at} of '{path}' is not the one that {FINAL} names: {chain.CHANGED}")
    if (note := notes.get(NOTE)) is not None:
        found = next((link for link in links if link.record["round"] == note.get("round")), None)
        if found is None:
            raise RunError(f"'{path}' ends after line {len(links)}, before the round that {NOTE} names: {chain.CHANGED}")
        if found.chain != note.get(chain.FIELD):
            raise RunError(f"line {found.number} of '{path}' is not the one that {NOTE} names: {chain.CHANGED}")
