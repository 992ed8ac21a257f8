"""A deployment on loopback for tests: link and silos stay up, experiments come and go, faults strike."""

import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from perfed.runs import parse as setting
from perfed.silos.flower import layout, operate
from perfed.silos.flower.processes import Child, end_all, marked

HOOK = """
import os, sys

def _watch(event, arguments):
    if event == "socket.connect" and isinstance(arguments[1], tuple):
        host = arguments[1][0]
    elif event == "socket.getaddrinfo" and arguments[0]:
        host = arguments[0] if isinstance(arguments[0], str) else arguments[0].decode()
    else:
        return
    with open(os.environ["PERFED_WATCH"], "a") as file:
        file.write(f"{host}\\n")

if "PERFED_WATCH" in os.environ:
    sys.addaudithook(_watch)
"""


def free_port(count: int) -> int:
    """Return the first of ``count`` ports in a row that nobody listens on."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])  # each has ports of its own
    begin = 20000 + 3000 * (worker % 4)
    for first in range(begin + os.getpid() % 1000, begin + 2900, count):
        taken = []
        try:
            for port in range(first, first + count):
                taken.append(socket.socket())
                taken[-1].bind(("127.0.0.1", port))
            return first
        except OSError:
            continue
        finally:
            for one in taken:
                one.close()
    raise OSError("no ports are free")


class Loopback:
    """A deployment whose processes a test can reach."""

    def __init__(self, folder: Path, silos: int, deadline: float = 300.0, ordinary: bool = False) -> None:
        self.folder, self.mark, self.silos, self.ordinary = folder, operate.fresh_mark(), silos, ordinary
        terms = {"deadline": deadline, "least": 1, "gone": 200, "seeded_private": True}
        layout.init(folder, silos, layout.Address(port=free_port(silos + 2)), ["data.fraction=0.3"], terms=terms)
        self.server = folder / "server"
        self.children: list[Child] = []
        self.watched = folder / "watched.txt"
        (folder / "hook").mkdir()
        (folder / "hook" / "sitecustomize.py").write_text(HOOK)
        source = Path(operate.__file__).parents[3]
        os.environ["PERFED_WATCH"] = str(self.watched)
        os.environ["PYTHONPATH"] = f"{folder / 'hook'}:{source}"

    def start(self) -> None:
        self.children += operate.link(self.server, self.mark)
        for i in range(self.silos):
            self.children += operate.silo(self.folder / f"silo-{i}", self.mark, self.ordinary)
        for child in self.children:
            child.start()
        operate.until_healthy(self.server, self.children, 120.0)

    def stop(self) -> None:
        end_all(self.children, self.mark)
        os.environ.pop("PERFED_WATCH", None)

    def child(self, name: str) -> Child:
        return next(c for c in self.children if c.name == name)

    def experiment(self, **settings: Any) -> None:
        """Make this the deployment's experiment; the silos allow it."""
        base = {
            "data": {"name": "digits", "fraction": 0.3},
            "model": {"name": "mlp", "hidden": 16},
            "clients": self.silos,
            "rounds": 2,
            "budget": {"epochs": 1, "batch_size": 32, "lr": 0.05},
        }
        whole = base | settings
        (self.server / "experiment.yaml").write_text(yaml.safe_dump(whole))
        allowed = {"daily": 10_000, "scores": True, "labels": True, "seeded_private": True}
        limits = layout.limits(setting.build(whole)) | allowed
        for i in range(self.silos):
            (self.folder / f"silo-{i}" / "policy.yaml").write_text(yaml.safe_dump(limits))

    def run(self, strike: dict[int, Callable[[], None]] | None = None) -> Path:
        """Run the experiment; ``strike`` does something right after a round's line was written."""
        left = dict(strike or {})

        def on_line(seed: int, line: dict[str, Any]) -> None:
            if line["round"] in left:
                left.pop(line["round"])()

        found = operate.follow(self.server, self.mark, self.children, on_line)
        assert not left, f"the faults of rounds {sorted(left)} never struck"
        return found / f"seed-{yaml.safe_load((found / 'settings.yaml').read_text())['seeds'][0]}"

    def processes(self, word: str) -> list[int]:
        """Return the running processes of this deployment whose command line has ``word``."""
        found = []
        for pid in marked(self.mark):
            try:
                text = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if word in text:
                found.append(pid)
        return found

    def wait_for(self, word: str, seconds: float = 60.0) -> list[int]:
        end = time.monotonic() + seconds
        while not (found := self.processes(word)):
            if time.monotonic() > end:
                raise TimeoutError(f"no process {word}")
            time.sleep(0.02)
        return found

    def kill(self, word: str) -> None:
        for pid in self.wait_for(word):
            os.kill(pid, signal.SIGKILL)


@contextmanager
def lying(place: Loopback, client: int) -> Iterator[None]:
    """Put a node that changes its answers in the place of a silo's own; the rest of the way is the engine's."""
    folder, names = place.folder / f"silo-{client}", (f"silo-{client}", f"silo-{client} worker")
    own = [child for child in place.children if child.name in names]
    for child in own:
        child.end()
    liar = operate.silo(folder, place.mark)[0]
    liar.command = [sys.executable, str(Path(__file__).with_name("liar.py")), str(folder)]
    place.children.append(liar)
    liar.start()
    try:
        yield
    finally:
        place.children.remove(liar)
        liar.end()
        for child in own:
            child.kept = True
            child.start()


def strangers(watched: Path) -> set[str]:
    """Return the hosts that were contacted or looked up and are not this machine."""
    hosts = set(watched.read_text().split()) if watched.exists() else set()
    return {h for h in hosts if h not in ("localhost", "0.0.0.0", "::", "::1") and not h.startswith("127.")}
