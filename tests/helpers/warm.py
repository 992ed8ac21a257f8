"""Processes that run perfed without each importing torch: children of one that has, which is otherwise untouched.

They are processes like any other: with an exit code, a working directory and an environment of their own, and to be killed.
"""

import multiprocessing as mp
import os
import runpy
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import wait
from pathlib import Path
from subprocess import CompletedProcess, TimeoutExpired
from tempfile import TemporaryDirectory
from typing import Any

_MODULES = (
    "torch.fx.experimental.symbolic_shapes",
    "torch._dynamo",
    "sklearn.datasets",
    "scipy.stats",
    "matplotlib.figure",
    "pandas",
)
_MODULES += ("rich.table", "rich.progress", "perfed.cli.commands", "perfed.runs.compare", "perfed.report.page", "perfed.results")
_CONTEXT = mp.get_context("forkserver")
_CONTEXT.set_forkserver_preload(list(_MODULES))


def _main(
    words: Sequence[str],
    script: str | None,
    place: str,
    changed: Mapping[str, str | None],
    said: tuple[str, str],
    first: Callable[[], None] | None,
) -> None:
    os.setsid()
    for number, path in zip((1, 2), said, strict=True):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(file, number)
        os.close(file)
    sys.stdout, sys.stderr = (os.fdopen(number, "w", encoding="utf-8", closefd=False) for number in (1, 2))
    sys.stdin = Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a suite in the background of a script ignores it by inheritance
    os.chdir(place)
    for name, value in changed.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    if first is not None:
        first()
    sys.argv = [script or "perfed", *words]
    if script is not None:
        sys.path.insert(0, str(Path(script).parent))
        runpy.run_path(script, run_name="__main__")
        return
    from perfed.cli import main

    main()


class Warm:
    """A perfed command, or a script, under way; it is asked what a `subprocess.Popen` is asked."""

    def __init__(
        self,
        words: Sequence[str],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        script: Path | None = None,
        first: Callable[[], None] | None = None,
    ) -> None:
        """Start it; ``first`` is a module's function that is called before anything else."""
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        self.args = [*([str(script)] if script else ["perfed"]), *words]
        self._files = TemporaryDirectory(prefix="perfed-warm-")
        self._out, self._err = (Path(self._files.name) / name for name in ("out", "err"))
        wanted = dict(env) if env is not None else dict(os.environ)
        changed = wanted | dict.fromkeys(_begun().keys() - wanted.keys())
        self._process = _CONTEXT.Process(
            target=_main,
            args=(list(words), script and str(script), str(cwd or Path.cwd()), changed, (str(self._out), str(self._err)), first),
        )
        self._process.start()
        self.pid = self._process.pid or 0

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    @property
    def stdout(self) -> str:
        return self._read(self._out)

    @property
    def stderr(self) -> str:
        return self._read(self._err)

    def _read(self, path: Path) -> str:
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def poll(self) -> int | None:
        wait([self._process.sentinel], 0)
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            self.kill()
            raise TimeoutExpired(self.args, timeout or 0, self.stdout, self.stderr)
        return self._process.exitcode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        self.wait(timeout)
        return self.stdout, self.stderr

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)
        self._process.join()

    def __enter__(self) -> "Warm":
        return self

    def __exit__(self, *_: Any) -> None:
        self.kill()


_AT_START: dict[str, str] = {}


def _begun() -> Mapping[str, str]:
    """The environment with which the first process was started; children inherit that one."""
    if not _AT_START:
        _AT_START.update(os.environ)
    return _AT_START


def run(
    words: Sequence[str],
    *,
    timeout: float = 900,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    script: Path | None = None,
    first: Callable[[], None] | None = None,
) -> CompletedProcess[str]:
    """Run a command to its end."""
    with Warm(words, cwd=cwd, env=env, script=script, first=first) as process:
        code = process.wait(timeout)
        return CompletedProcess(process.args, code, process.stdout, process.stderr)


def reached(process: Warm, so_far: Callable[[], bool]) -> None:
    """Wait until a process has done its work so far, however long a busy machine takes, or has ended."""
    while process.poll() is None and not so_far():
        time.sleep(0.02)
