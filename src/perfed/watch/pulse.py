"""How far a seed is and whether somebody is at work on it, from the end of its record; nothing is locked or written."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from ..evaluate.scores import current
from ..runs.folder import SeedFolder

TAIL = 1 << 16  # bytes of a record's end that are looked at first
LINES = 10  # rounds from which the pace is taken
QUIET = 30.0  # seconds of silence that mean nothing, whatever the pace
LOCKS = Path("/proc/locks")

State = str  # finished, running, stopped or waiting


@dataclass(frozen=True)
class Pulse:
    """One seed: its state, its last round, and seconds a round takes."""

    seed: int
    state: State
    round: int  # -1 before the first line
    planned: int
    pace: float
    changed: float  # when its record grew, in seconds since the epoch
    last: Mapping[str, Any] = field(default_factory=dict)

    @property
    def left(self) -> int:
        """Rounds to go, the start counted as one."""
        return 0 if self.state == "finished" else self.planned - self.round


def pulse(seed: SeedFolder, planned: int, held: frozenset[int]) -> Pulse:
    """Return how far a seed is; ``held`` are the files that a process of this machine has locked."""
    lines = tail(seed.lines.path)
    changed = _changed(seed.lines.path)
    pace = median(float(line.get("seconds") or 0.0) for line in lines) if lines else 0.0
    reached = int(lines[-1]["round"]) if lines else -1
    final = seed.final
    if final is not None and (reached >= planned or final.get("stopped")):
        state = "finished"
    elif _inode(seed.path / "lock") in held or (lines and time.time() - changed < max(QUIET, 4 * pace)):
        state = "running"
    else:
        state = "stopped" if lines else "waiting"
    return Pulse(seed.number, state, reached, planned, pace, changed, lines[-1] if lines else {})


def tail(path: Path) -> list[dict[str, Any]]:
    """Return the last lines of a record, at most ten; a line without an end is still being written."""
    size = TAIL
    while True:
        try:
            with path.open("rb") as file:
                whole = file.seek(0, 2)
                file.seek(max(0, whole - size))
                text = file.read()
        except OSError:
            return []
        parts = text.split(b"\n")[:-1]
        parts = parts if size >= whole else parts[1:]  # the first was cut
        if parts or size >= whole:
            return [line for part in parts[-LINES:] if (line := _line(part))]
        size *= 4


def held() -> frozenset[int]:
    """Return the inodes of files that are locked for writing on this machine; none where the system does not tell."""
    try:
        rows = [row.split() for row in LOCKS.read_text(encoding="utf-8").splitlines()]
    except OSError:
        return frozenset()
    return frozenset(int(row[5].rpartition(":")[2]) for row in rows if len(row) > 5 and row[1:4:2] == ["FLOCK", "WRITE"])


def _line(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return current(found) if isinstance(found, dict) and isinstance(found.get("round"), int) else {}


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except OSError:
        return -1
