"""Writing to disk, where it may fail."""

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from .errors import RunError


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what can go wrong while writing into one sentence; what was there before is still there."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        number = error.errno if isinstance(error, OSError) else _number(error)
        reason = "the disk is full" if number == errno.ENOSPC else os.strerror(number) if number else str(error)
        raise RunError(
            f"cannot write '{path}': {reason}; the last checkpoint is intact, and `perfed resume` goes on from it"
        ) from error


def _number(error: SafetensorError) -> int | None:
    """Return the system's error that safetensors only has in its words."""
    found = re.search(r"os error (\d+)", str(error))
    return int(found[1]) if found else None
