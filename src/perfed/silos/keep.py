"""Files that a silo or a server keeps for itself: written whole or not at all, readable by their owner, held by one process."""

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def put(path: Path, content: bytes) -> None:
    """Write a file that nobody else may read; it is the old one or the new one, whatever happens."""
    half = path.with_name(f"{path.name}.half")
    half.unlink(missing_ok=True)
    with os.fdopen(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    half.replace(path)


def note(path: Path, **line: Any) -> None:
    """Append a line of JSON that begins with the time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"time": time.strftime("%Y-%m-%dT%H:%M:%S%z"), **line}) + "\n")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Wait for a lock and hold it; it ends with the process."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def alone(server: Path, patience: float = 2.0) -> Iterator[bool]:
    """Hold the server's lock for as long as this process conducts its experiment; say whether it could be had."""
    end = time.monotonic() + patience  # who only looks holds it for a moment
    with (server / "lock").open("w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= end:
                    yield False
                    return
                time.sleep(0.05)
        yield True


def busy(server: Path) -> bool:
    """Whether a process conducts the server's experiment now."""
    with alone(server, 0.0) as free:
        return not free
