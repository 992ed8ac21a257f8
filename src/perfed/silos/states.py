"""A silo's private states on its own disk, one version per trained round, and the answers that belong to them."""

import hashlib
import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import RunError, WireError
from ..transport.site import Private
from ..wire import Withheld, decode, encode
from . import keep

_NAME = re.compile(r"[0-9a-f]{8,64}(-[0-9]{1,19})?")


class States:
    """The versions of one experiment's private state.

    A version is there when its note is: tensors and answer are written first. Version 0 is the start. The version that
    the server builds on and the one before it are kept, so that a server which lost its last round can go back.
    """

    def __init__(self, folder: Path, experiment: str) -> None:
        if not _NAME.fullmatch(experiment):  # it becomes a folder's name, and it comes from outside
            raise RunError(f"'{experiment[:80]}' cannot name an experiment: hexadecimal digits, maybe - and the seed")
        self.folder = folder / experiment

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Let one process at a time work on this experiment; the lock ends with the process."""
        with keep.locked(self.folder / "lock"):
            yield

    def secret(self) -> int:
        """Return this experiment's own seed, drawn once from the operating system's entropy."""
        path = self.folder / "secret"
        if not path.exists():
            self._put("secret", str(int.from_bytes(os.urandom(8), "little") >> 1).encode())
        return int(path.read_text())

    def versions(self) -> list[int]:
        """Return the versions that are there, in order."""
        return sorted(int(p.stem[8:]) for p in self.folder.glob("version-*.json"))

    @property
    def trained(self) -> int:
        """How many different trainings this experiment has had."""
        return int(self._counted()[0])

    def _counted(self) -> list[str]:
        """Return how many trainings were counted, and the request of the last one."""
        path = self.folder / "trained"
        return [*path.read_text().split(), ""] if path.exists() else ["0", ""]

    @property
    def today(self) -> int:
        """How many trainings all experiments together have had today."""
        return _today(self.folder.parent / "trainings.json")

    def load(self, version: int, like: Private, withheld: Withheld) -> Private:
        """Return a version; one that is missing or damaged is an error, never a fresh start."""
        note = self._note(version)
        path = self.folder / f"version-{version}.state"
        if note is None or not path.is_file():
            there = ", ".join(map(str, self.versions())) or "none"
            raise RunError(f"version {version} of the private state is missing here (there is {there})")
        unknown = [name for name in note["kept"] if name not in withheld.start]
        if unknown:
            raise RunError(f"version {version} of the private state does not fit: unknown {unknown}")
        kept = {name: withheld.start[name] for name in note["kept"]}
        try:
            return decode(path.read_bytes(), Private(like.mine, kept), finite=False)
        except WireError as damaged:
            raise RunError(f"version {version} of the private state is damaged: {damaged}") from damaged

    def answer(self, version: int, request: str) -> tuple[bytes, dict[str, Any]] | None:
        """Return what was answered to the same request before, or nothing."""
        note = self._note(version)
        path = self.folder / f"version-{version}.answer"
        if note is None or note["request"] != request or not path.is_file():
            return None
        body = path.read_bytes()
        return (body, note["extra"]) if hashlib.sha256(body).hexdigest() == note["answer"] else None

    def put(self, version: int, private: Private, *, base: int, request: str, body: bytes, extra: dict[str, Any]) -> None:
        """Write a version with the answer that goes with it; the note comes last."""
        (self.folder / f"version-{version}.json").unlink(missing_ok=True)
        self._put(f"version-{version}.state", encode(private))
        self._put(f"version-{version}.answer", body)
        if version:
            self._count(request)
        note = {
            "base": base,
            "request": request,
            "answer": hashlib.sha256(body).hexdigest(),
            "kept": sorted(private.kept),
            "extra": extra,
        }
        self._put(f"version-{version}.json", json.dumps(note).encode())

    def _count(self, request: str) -> None:
        """Count a training; one that a kill cut short and that is done again is the same one."""
        with keep.locked(self.folder.parent / "trainings.lock"):
            days = self.folder.parent / "trainings.json"
            if _days(days).get("last") != request:
                keep.put(days, json.dumps({time.strftime("%Y-%m-%d"): _today(days) + 1, "last": request}).encode())
        if self._counted()[1] != request:
            self._put("trained", f"{self.trained + 1} {request}".encode())

    def settle(self, base: int) -> None:
        """Forget what is older than the version before ``base``."""
        note = self._note(base)
        if note is None:
            return
        for version in self.versions():
            if version < min(base, note["base"]):
                for suffix in ("json", "answer", "state"):
                    (self.folder / f"version-{version}.{suffix}").unlink(missing_ok=True)

    def serve(self, head: str, body: bytes) -> None:
        """Keep the server's last message: with the version that it names it is the model that this silo serves."""
        self._put("served", len(head.encode()).to_bytes(8, "little") + head.encode() + body)

    def served(self) -> tuple[str, bytes]:
        """Return the server's last message."""
        found = (self.folder / "served").read_bytes()
        end = 8 + int.from_bytes(found[:8], "little")
        return found[8:end].decode(), found[end:]

    def _note(self, version: int) -> dict[str, Any] | None:
        path = self.folder / f"version-{version}.json"
        if not path.is_file():
            return None
        try:
            return dict(json.loads(path.read_text()))
        except (ValueError, TypeError) as damaged:
            raise RunError(f"version {version} of the private state is damaged: {damaged}") from damaged

    def _put(self, name: str, content: bytes) -> None:
        keep.put(self.folder / name, content)


def _days(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError) as damaged:
        raise RunError(f"'{path}' is damaged: {damaged}") from damaged


def _today(path: Path) -> int:
    try:
        return int(_days(path).get(time.strftime("%Y-%m-%d"), 0))
    except (ValueError, TypeError) as damaged:
        raise RunError(f"'{path}' is damaged: {damaged}") from damaged
