"""Data that lies in a file: 20 GB with 2 GiB allowed, `python -m benchmarks.mapped GIGABYTES GIB`."""

import json
import re
import resource
import sys
import tempfile
import threading
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

WIDTH = 1 << 16  # numbers of a sample: 256 KiB


def laid_out(folder: Path, size: float) -> int:
    """Write a sparse ``x.npy`` of so many bytes with its labels and writers; return the number of samples."""
    count = int(size) // (4 * WIDTH)
    np.lib.format.open_memmap(folder / "x.npy", "w+", np.float32, (count, WIDTH))
    random = np.random.default_rng(0)
    np.save(folder / "y.npy", random.integers(0, 10, count))
    np.save(folder / "group.npy", np.arange(count) % 20)
    return count


class Private(threading.Thread):
    """Remembers the most memory that is this process's own: pages of files, which the system takes back, do not count."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.most, self.over = 0, threading.Event()

    def run(self) -> None:
        while not self.over.wait(0.1):
            found = re.search(r"RssAnon:\s+(\d+)", Path("/proc/self/status").read_text())
            self.most = max(self.most, int(found[1]) * 1024 if found else 0)


def main(gigabytes: float, gib: float) -> dict[str, Any]:
    """Train on a set of so many gigabytes with so many GiB of private memory allowed; more would be an error."""
    limit = int(gib * (1 << 30))
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))  # private writable memory; the mapped file is neither
    import perfed

    watch = Private()
    watch.start()
    with tempfile.TemporaryDirectory() as folder:
        count, began = laid_out(Path(folder), gigabytes * 1e9), perf_counter()
        asked = {"model": {"name": "mlp", "hidden": 16}, "transport": "serial", "budget": {"epochs": 1, "batch_size": 50}}
        run = perfed.run(method="fedavg", data=f"npy:{folder}", rounds=1, progress=False, **asked)
        seconds = perf_counter() - began
    watch.over.set()
    watch.join()
    return {"samples": count, "seconds": seconds, "private": watch.most, "clients": len(run.accuracies())}


if __name__ == "__main__":
    print(json.dumps(main(float(sys.argv[1]), float(sys.argv[2]))))
