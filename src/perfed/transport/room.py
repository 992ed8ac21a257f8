"""How many clients fit a device at once: by what the first of them were measured to take, and what is free."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import torch

from ..units import weighed

LOGGER = logging.getLogger("perfed")
FEW = 2  # clients that are computed first where nobody knows how much they take
WRONG = 16  # by how much an estimate may be too low before memory is measured with a few clients first
SHARE = 0.5  # of free memory: others want some, and chunks differ a little


class Room:
    """Says how many clients may be computed together, for training and for testing."""

    def __init__(self, device: torch.device, usual: int) -> None:
        self.device, self.usual = device, usual  # bytes on a processor, where more at once is no faster
        self._guessed: dict[str, int] = {}
        self._bound: dict[str, int] = {}

    def most(self, what: str, each: int, clients: int) -> int:
        """Return how many of so many clients to take now; ``each`` is a guess at the bytes of one."""
        self._guessed[what] = each
        wished = min(clients, self.usual // each) if self.device.type == "cpu" else clients
        if what in self._bound:
            return max(1, min(wished, self._bound[what]))
        return max(1, wished if WRONG * each * wished <= free(self.device) else min(wished, FEW))

    @contextmanager
    def measured(self, what: str, count: int) -> Iterator[None]:
        """Measure, the first time, what so many clients take, and decide by it how many come next."""
        if what in self._bound:
            yield
            return
        there, before = free(self.device), _begin(self.device)
        yield
        each = max(self._guessed[what], (_peak(self.device) - before) // count)
        fit = max(1, int(SHARE * there) // each)
        self._bound[what] = 1 << (fit.bit_length() - 1)  # a little more or less free memory changes nothing
        most = self.most(what, self._guessed[what], self._bound[what])
        said = f"one takes {weighed(each)} of {weighed(there)} that are free"
        level = logging.INFO if what == "trains" else logging.DEBUG
        LOGGER.log(level, "transport=stacked %s up to %s clients at once: %s", what, f"{most:,}", said)


def free(device: torch.device) -> int:
    """Return the bytes that may still be taken on a device."""
    if device.type == "cuda":
        there, _ = torch.cuda.mem_get_info(device)
        return int(there + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device))
    told = _figures(Path("/proc/meminfo"))
    return told.get("MemAvailable", 1 << 40)  # where nobody says, what is usual is taken


def _begin(device: torch.device) -> int:
    """Forget the peak so far; return what is taken now."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return int(torch.cuda.memory_allocated(device))
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _figures(Path("/proc/self/status")).get("VmRSS", 0)


def _peak(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    return _figures(Path("/proc/self/status")).get("VmHWM", 0)


def _figures(path: Path) -> dict[str, int]:
    """Return what a file of the system says in kB, as bytes; nothing where there is no such file."""
    try:
        lines = [line.split() for line in path.read_text().splitlines()]
    except OSError:
        return {}
    return {line[0].rstrip(":"): int(line[1]) << 10 for line in lines if line[-1:] == ["kB"]}
