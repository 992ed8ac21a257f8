"""Processes that Flower consists of: started in groups of their own, restarted, and ended without a rest."""

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from ...errors import MissingExtra, install

MARK = "PERFED_DEPLOY"  # in the environment of everything that was started, so that nothing is left behind


def program(name: str) -> str:
    """Return the path of one of Flower's programs."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if not found:
        raise MissingExtra(f"{name} is not installed; {install('flower')}")
    return found


def environment(home: Path, mark: str, hosts: Sequence[str] = ()) -> dict[str, str]:
    """Return the environment of every process: nothing phones home, nothing is installed, no proxy on the way."""
    away = ",".join(dict.fromkeys(["127.0.0.1", "localhost", *hosts]))
    return os.environ | {
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.2",
        "UV_OFFLINE": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "OMP_NUM_THREADS": "1",
        "NO_COLOR": "1",
        "NO_PROXY": away,
        "no_proxy": away,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
        MARK: mark,
    }


class Child:
    """One process with what it starts, in a group of its own; ``kept`` ones come back after they ended."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        env: Mapping[str, str],
        log: Path,
        kept: bool = False,
        back: float = 5.0,  # seconds before it is started again
    ) -> None:
        self.name, self.command, self.env, self.log, self.kept = name, list(command), dict(env), log, kept
        self.back = back
        self.process: subprocess.Popen[bytes] | None = None
        self.starts = 0
        self._due = 0.0

    def start(self) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(
                self.command,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                preexec_fn=_end_with_parent if sys.platform == "linux" else None,
            )
        self.starts += 1

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def tend(self) -> None:
        """Start again what ended and should not have, after a pause: the link locks out a lost node for a minute."""
        if not self.kept or self.alive:
            return
        if not self._due:
            self._due = time.monotonic() + self.back
            self.signal(signal.SIGKILL)  # what it had started, if that is still there
        elif time.monotonic() >= self._due:
            self._due = 0.0
            self.start()

    def signal(self, number: int) -> None:
        """Send a signal to the whole group."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, number)

    def end(self, patience: float = 8.0) -> None:
        """End the process and everything it started."""
        self.kept = False
        self.signal(signal.SIGTERM)
        if self.process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(patience)
        self.signal(signal.SIGKILL)
        if self.process is not None:
            self.process.wait()


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


def end_all(children: Sequence[Child], mark: str) -> None:
    """End every child at once, then whatever else carries the mark."""
    for child in children:
        child.kept = False
        child.signal(signal.SIGTERM)
    for child in children:
        child.end()
    for pid in marked(mark):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def marked(mark: str) -> list[int]:
    """Return the processes whose environment carries the mark, this one aside (Linux; elsewhere none)."""
    found = []
    wanted = f"{MARK}={mark}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if wanted in (folder / "environ").read_bytes().split(b"\0") and int(folder.name) != os.getpid():
                found.append(int(folder.name))
    return found
