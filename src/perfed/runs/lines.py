"""The rounds of one seed on disk, a JSON line each."""

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..disk import put, sync, writing
from ..errors import RunError
from ..evaluate.scores import current
from .states import GOES_ON


class Lines:
    """The rounds of one seed, a JSON line each."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.packed = path.with_name(path.name + ".gz")  # a record that is kept without states

    def read(self, last: int | None = None) -> list[dict[str, Any]]:
        """Return the lines up to round ``last``.

        A line that was cut off while it was written is the last and has no end: it never was. Any other damage is an error.
        """
        lines = []
        for number, text in enumerate(self._bytes().decode(errors="replace").split("\n")[:-1], start=1):
            try:
                lines.append(current(json.loads(text)))
            except (ValueError, RecursionError) as error:
                raise RunError(f"line {number} of '{self.path}' is damaged: {error}") from error
        return [line for line in lines if last is None or line["round"] <= last]

    def _bytes(self) -> bytes:
        if self.path.exists():
            return self.path.read_bytes()
        return gzip.decompress(self.packed.read_bytes()) if self.packed.exists() else b""

    def pack(self, target: "Lines") -> None:
        """Write the lines elsewhere in less room; the same lines give the same bytes."""
        put(target.packed, gzip.compress(self._bytes(), mtime=0))

    def append(self, line: Mapping[str, Any]) -> None:
        with writing(self.path, GOES_ON), self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, allow_nan=False) + "\n")

    def cut(self, last: int) -> None:
        """Forget the rounds after ``last``."""
        kept = self.read(last)
        put(self.path, "".join(json.dumps(line) + "\n" for line in kept).encode(), kept=GOES_ON)

    def forget(self) -> None:
        """Forget all rounds."""
        self.path.unlink(missing_ok=True)

    def sync(self) -> None:
        """See to it that the lines are on the disk."""
        sync(self.path, kept=GOES_ON)
