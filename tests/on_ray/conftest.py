"""Small Ray clusters on loopback, from Ray's own test utilities; nothing of them is left behind."""

import os
import socket
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from perfed.cluster import LOOPBACK, QUIET

os.environ.update(QUIET)
os.environ.setdefault("RAY_worker_niceness", "0")  # Ray's workers give way to everybody, and on a busy machine they never begin
STORE = 80 << 20  # bytes of a node's object store


class Nodes:
    """A cluster whose nodes come and go; CPUs and memory are what is declared, not what there is."""

    def __init__(self, *cpus: int) -> None:
        from ray.cluster_utils import Cluster

        head = {"num_cpus": 0, "object_store_memory": STORE, "include_dashboard": False, "node_ip_address": LOOPBACK}
        self.cluster = Cluster(initialize_head=True, head_node_args=head)
        self.address = self.cluster.address
        self.workers = [self.add(count) for count in cpus]

    def add(self, cpus: int) -> Any:
        return self.cluster.add_node(num_cpus=cpus, object_store_memory=STORE, memory=8 << 30, node_ip_address=LOOPBACK)

    def kill(self, node: Any) -> None:
        """End a node's processes at once, with no time to say good-bye."""
        self.cluster.remove_node(node, allow_graceful=False)

    def close(self) -> None:
        import ray

        ray.shutdown()
        self.cluster.shutdown()


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
            state = (path.parent / "stat").read_text().rpartition(")")[2].split()[0]
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
