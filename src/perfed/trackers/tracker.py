"""What a tracker is: something that begins with a run, hears numbers round by round, and ends."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

from ..evaluate.scores import PARTS
from ..evaluate.summary import figures


@dataclass(frozen=True)
class About:
    """Which seed of which run is tracked."""

    folder: Path  # of the seed; a tracker that writes files writes them below it
    run: str
    seed: int
    settings: Mapping[str, Any] = field(default_factory=dict)  # as key=value has them
    group: str = ""  # the comparison that the run belongs to
    first: int = 0  # the round after which it goes on; 0 from the start

    @property
    def name(self) -> str:
        """What the tracker calls it."""
        return f"{self.group}/{self.run} seed {self.seed}" if self.group else f"{self.run} seed {self.seed}"

    @property
    def id(self) -> str:
        """What tells it from all others, the same when it goes on."""
        return sha256(f"{self.folder.resolve()}".encode()).hexdigest()[:16]


class Tracker(Protocol):
    """Hears of a seed's rounds."""

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        """Take the numbers of a round."""

    def close(self) -> None:
        """Write what is still to be written."""


def values(line: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of a round by name, such as ``test/accuracy``; what is no finite number is left out."""
    found: dict[str, Any] = {
        "bytes/up": line["bytes_up"],
        "bytes/down": line["bytes_down"],
        "participants": len(line["participants"]),
        "seconds/train": line.get("seconds_train"),
        "seconds/test": line.get("seconds_test"),
    }
    for part in PARTS:
        scores = line.get(part) or {}
        for metric in scores:
            if metric == "count" or any(isinstance(value, list) for value in scores[metric]):
                continue
            own = figures(scores, metric) or {}
            found |= {f"{part}/{metric}": own.get("weighted")}
            found |= {f"{part}/{metric}_{figure}": own.get(figure) for figure in ("mean", "std")}
    return {name: float(value) for name, value in found.items() if value is not None and math.isfinite(value)}
