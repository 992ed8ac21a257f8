"""Small Ray clusters on loopback, from Ray's own test utilities; nothing of them is left behind."""

import os
import random
import signal
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from perfed.cluster import LOOPBACK, QUIET

os.environ.update(QUIET)
os.environ.setdefault("RAY_worker_niceness", "0")  # Ray's workers give way to everybody, and on a busy machine they never begin
STORE = 80 << 20  # bytes of a node's object store
PATIENCE = 600.0  # seconds for what comes sooner or later on any machine; only a test that hangs waits for so long


class Nodes:
    """A cluster whose nodes come and go; CPUs and memory are what is declared, not what there is."""

    def __init__(self, *cpus: int) -> None:
        from ray.cluster_utils import Cluster

        head = {"num_cpus": 0, "object_store_memory": STORE, "include_dashboard": False, "node_ip_address": LOOPBACK}
        self.cluster = Cluster(initialize_head=True, head_node_args=head)
        self.address = self.cluster.address
        self.workers: list[Any] = []
        for count in cpus:
            self.add(count)

    def add(self, cpus: int) -> None:
        from ray._private.services import wait_for_node

        size = {"num_cpus": cpus, "object_store_memory": STORE, "memory": 8 << 30}
        node = self.cluster.add_node(wait=False, node_ip_address=LOOPBACK, **size)
        wait_for_node(node.gcs_address, node.plasma_store_socket_name, PATIENCE)
        self.workers.append(node)

    def kill(self, node: Any) -> None:
        """End a node at once, with no time to say good-bye; its workers find out by themselves, a little later."""
        self.cluster.remove_node(node, allow_graceful=False)
        self.workers.remove(node)

    def strike(self, drawn: random.Random, whole: bool) -> bool:
        """Kill a node in the midst of a cell, drawn among those that train one now; return whether there was one.

        A ``whole`` node dies with its worker, as a machine does. Else the worker lives on for a moment and may end its cell.
        """
        for node in drawn.sample(self.workers, len(self.workers)):
            for pid, folder in _trains(node.all_processes["raylet"][0].process.pid):
                with _stopped(pid):
                    if folder.is_dir() and not (folder / "final.json").exists():  # and it cannot tell of its end any more
                        self.kill(node)
                        if whole:
                            os.kill(pid, signal.SIGKILL)
                        return True
        return False

    def close(self) -> None:
        import ray

        ray.shutdown()
        self.cluster.shutdown()


def _state(path: Path) -> list[str]:
    """Return what the system says of a process after its name: its state, its parent, and more."""
    return path.read_text().rpartition(")")[2].split()


def _moves(path: Path) -> bool:
    """Return whether a thread is neither stopped nor gone."""
    try:
        return _state(path)[0] not in "TZX"
    except OSError:
        return False


@contextmanager
def _stopped(pid: int) -> Iterator[None]:
    """Stop a process for a while; it goes on after it, and may then live on for a moment."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
    while any(map(_moves, Path(f"/proc/{pid}/task").glob("*/stat"))):  # its threads stop in turn
        time.sleep(0.001)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def _trains(raylet: int) -> list[tuple[int, Path]]:
    """Return the workers of a node that hold the folder of a cell, and the folders."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # a process, or what it had open, may be gone meanwhile
            if int(_state(process / "stat")[1]) == raylet:
                held = [path.readlink() for path in (process / "fd").iterdir()]
                found += [(int(process.name), path.parent) for path in held if path.match("seed-*/lock")]
    return found


@pytest.fixture
def nodes() -> Iterator[Any]:
    made: list[Nodes] = []

    def make(*cpus: int) -> Nodes:
        made.append(Nodes(*cpus))
        return made[-1]

    yield make
    for own in made:
        own.close()


@pytest.fixture(scope="session")
def reference(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """The digests of 24 cells as processes of this machine train them."""
    from study import digests, lineup

    from perfed.runs import compare

    return digests(compare.run(lineup(tmp_path_factory.mktemp("processes"), workers=2)).path)


def processes() -> dict[int, str]:
    """Return the commands of Ray's processes that are alive, by number."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            said = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            state = _state(path.parent / "stat")[0]
        except OSError:
            continue
        if state != "Z" and ("raylet" in said or "gcs_server" in said or said.startswith("ray::")):
            found[int(path.parent.name)] = said[:100]
    return found


def left_behind() -> list[str]:
    """Return the commands of Ray's processes that are alive."""
    return list(processes().values())


def spoken_to(pids: Iterable[int]) -> set[str]:
    """Return the addresses that some processes have a connection to, or try to have."""
    sockets = set()
    for pid in pids:
        with suppress(OSError):  # a process, or what it had open, may be gone meanwhile
            for path in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(OSError):
                    sockets.add(str(path.readlink()))
    found = set()
    for name, family, size in (("tcp", socket.AF_INET, 4), ("tcp6", socket.AF_INET6, 16)):
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
            _, _, other, state, *_, inode = line.split()[:10]
            if f"socket:[{inode}]" in sockets and state != "0A":  # who listens has spoken to nobody
                words = bytes.fromhex(other.partition(":")[0])
                found.add(socket.inet_ntop(family, b"".join(words[at : at + 4][::-1] for at in range(0, size, 4))))
    return found
