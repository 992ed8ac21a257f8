"""Files that a silo or a server keeps for itself: readable by their owner, held by one process."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .. import disk


def put(path: Path, content: bytes) -> None:
    """Write a file that nobody else may read; it is the old one or the new one, whatever happens."""
    disk.put(path, content, private=True)


def note(path: Path, **line: Any) -> None:
    """Append a line of JSON that begins with the time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"time": time.strftime("%Y-%m-%dT%H:%M:%S%z"), **line}) + "\n")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Wait for a lock and hold it; it ends with the process."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with disk.locked(path, wait=True):
        yield


@contextmanager
def alone(server: Path, patience: float = 2.0) -> Iterator[bool]:
    """Hold the server's lock for as long as this process conducts its experiment; say whether it could be had."""
    end = time.monotonic() + patience  # who only looks holds it for a moment
    while True:
        with disk.locked(server / "lock") as held:
            if held or time.monotonic() >= end:
                yield held
                return
        time.sleep(0.05)


def busy(server: Path) -> bool:
    """Whether a process conducts the server's experiment now."""
    with alone(server, 0.0) as free:
        return not free
