"""A folder on a worker's own disk for a cell that travels; what a killed worker left there goes with the next cell."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

from ...disk import locked
from ...errors import RunError

PREFIX = "perfed-cell-"
HELD = ".held"  # locked by the process that a folder belongs to, for as long as it lives


@contextmanager
def scratch() -> Iterator[Path]:
    """Yield an empty folder; folders of processes that are dead are removed before."""
    _sweep(Path(gettempdir()))
    with TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True) as made:
        new = Path(made, "new")
        with locked(new):
            new.rename(Path(made, HELD))  # under this name it was never without its lock
            yield Path(made)


def _sweep(folder: Path) -> None:
    """Remove folders that nobody holds any more; those of other users are left to them."""
    if os.name != "posix":  # nothing is locked there
        return
    for mark in folder.glob(f"{PREFIX}*/{HELD}"):
        with suppress(OSError, RunError), locked(mark) as free:
            if free:
                shutil.rmtree(mark.parent, ignore_errors=True)
