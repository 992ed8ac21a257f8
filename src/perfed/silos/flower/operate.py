"""Starting, following and ending a deployment: the link, the silos, and the process that conducts the experiment."""

import os
import signal
import ssl
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from ...disk import get_yaml
from ...errors import InputError, RunError, extra, install
from ...runs import parse
from ...runs.experiment import Experiment
from ...runs.folder import RunFolder
from ..keep import busy
from .address import address
from .engine import misfit
from .layout import silos_of
from .processes import Child, end_all, environment, program

Say = Callable[[str], None]
OnLine = Callable[[int, dict[str, Any]], None]  # seed, a line of rounds.jsonl

_TRIES = 3  # starts of a run whose server's part ended without a word


def _env(folder: Path, mark: str) -> dict[str, str]:
    home = folder.resolve() / "flower"
    home.mkdir(exist_ok=True, mode=0o700)
    return environment(home, mark, [address(folder)["host"]])


def link(server: Path, mark: str) -> list[Child]:
    """Return the link: the engine's SuperLink behind perfed's gate."""
    extra("flwr", "flower")
    if why := misfit():
        raise RunError(f"the link's control routes cannot be closed: {why}; {install('flower')}")
    server = server.resolve()
    command = [sys.executable, "-m", "perfed.silos.flower.link", str(server)]
    return [Child("link", command, _env(server, mark), server / "logs" / "link.log", kept=True, back=0.5)]


def silo(folder: Path, mark: str, ordinary: bool = False) -> list[Child]:
    """Return a silo's process; ``ordinary``, a resident worker and the engine's own SuperNode."""
    extra("flwr", "flower")
    folder = folder.resolve()
    if not ordinary:
        command = [sys.executable, "-m", "perfed.silos.flower.node", str(folder)]
        return [Child(folder.name, command, _env(folder, mark), folder / "logs" / "node.log", kept=True, back=0.5)]
    from .pinned import programs

    where, env = address(folder), _env(folder, mark)
    socket = folder / "flower" / "worker"
    env["PATH"] = os.pathsep.join([str(programs(folder / "flower" / "bin")), env["PATH"]])
    command = [
        program("flower-supernode"),
        *("--root-certificates", str(folder / "ca.crt")),
        *("--auth-supernode-private-key", str(folder / "node.key")),
        *("--superlink", f"{where['host']}:{where['port']}"),
        *("--host", "127.0.0.1", "--port", str(where.get("runtime", 9094))),
        *("--node-config", f"silo='{folder / 'silo.yaml'}'"),
    ]
    node = Child(folder.name, command, env, folder / "logs" / "node.log", kept=True)
    if len(str(socket)) > 100:  # longer than a socket's path may be: every message loads torch and the data anew
        return [node]
    node.env["PERFED_WORKER"] = str(socket)
    serve = [sys.executable, "-m", "perfed.silos.flower.resident", str(folder / "silo.yaml"), str(socket)]
    return [Child(f"{folder.name} worker", serve, env, folder / "logs" / "worker.log", kept=True, back=0.5), node]


def nursery(folders: Sequence[Path], mark: str) -> Child:
    """Return one process for the silos of this machine, which loads once and has a process of its own for each."""
    extra("flwr", "flower")
    command = [sys.executable, "-m", "perfed.silos.flower.node", *(str(folder.resolve()) for folder in folders)]
    env = _env(folders[0], mark)
    return Child("silos", command, env, folders[0].resolve().parent / "logs" / "silos.log", kept=True, back=0.5)


def healthy(server: Path) -> bool:
    """Whether the link answers with the certificate it should have."""
    where = address(server)
    context = ssl.create_default_context(cafile=str(server / "ca.crt"))
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    try:
        with opener.open(f"https://{where['host']}:{where['port']}/health", timeout=2) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False


def until_healthy(server: Path, children: Sequence[Child], seconds: float = 60.0) -> None:
    """Wait for the link."""
    end = time.monotonic() + seconds
    while not healthy(server):
        gone = [child for child in children if child.name == "link" and not child.alive]
        if gone or time.monotonic() > end:
            raise RunError(f"the link does not answer; see '{server / 'logs' / 'link.log'}'")
        time.sleep(0.2)


def conduct(server: Path, mark: str) -> Child:
    """Return the process that conducts the server's experiment."""
    server = server.resolve()
    command = [sys.executable, "-m", "perfed.silos.flower.conduct", str(server)]
    return Child("conductor", command, _env(server, mark), server / "logs" / "conductor.log")


class Follower:
    """Reads the record of a run as it grows."""

    def __init__(self, server: Path, settings: Experiment, on_line: OnLine | None) -> None:
        self.server, self.settings, self.on_line = server, settings, on_line
        self.seen: dict[Path, int] = {}

    @property
    def run(self) -> Path | None:
        """The run's folder, once it is there."""
        if self.settings.name is not None:
            named = RunFolder(self.server / "runs" / self.settings.name)
            return named.path if named.complete else None
        sought = (self.settings.digest(), list(self.settings.seeds))
        for run in RunFolder.inside(self.server / "runs"):
            found = run.manifest if run.complete else {}
            if (found.get("settings"), found.get("seeds")) == sought:
                return run.path
        return None

    def look(self) -> bool:
        """Report new rounds; return whether every seed is finished."""
        run = self.run
        if run is None:
            return False
        places = {seed: RunFolder(run).seed(seed) for seed in self.settings.seeds}
        for seed, place in places.items():
            lines = place.lines.read()
            for line in lines[self.seen.get(place.path, 0) :]:
                if self.on_line:
                    self.on_line(seed, line)
            self.seen[place.path] = len(lines)
        return all(place.finished() for place in places.values())


def follow(server: Path, mark: str, children: Sequence[Child] = (), on_line: OnLine | None = None) -> Path:
    """Run the experiment to its end, tending the children meanwhile; return the run's folder."""
    settings = parse.load(server / "experiment.yaml", elsewhere=True)
    silos = get_yaml(server / "server.yaml").get("silos")
    watch = Follower(server, settings.model_copy(update={"clients": silos}), on_line)
    stopped = server / "stopped.txt"
    for _ in range(_TRIES):
        stopped.unlink(missing_ok=True)
        run = conduct(server, mark)
        run.start()
        try:
            while run.alive or busy(server):  # an earlier conductor may still be at work
                _tend(children, watch)
        finally:
            run.end(1.0)
        if watch.look() and watch.run is not None:
            return watch.run
        if stopped.exists():
            raise RunError(stopped.read_text(encoding="utf-8").strip())
    raise RunError(f"the run ended before its last round; see '{server / 'logs'}', then start it again to go on")


def _tend(children: Sequence[Child], watch: Follower) -> None:
    for child in children:
        child.tend()
    watch.look()
    time.sleep(0.25)


@contextmanager
def ended(children: list[Child], mark: str) -> Iterator[None]:
    """End everything on the way out, also when asked to by a signal."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        again = signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C must not leave half of it running
        end_all(children, mark)
        signal.signal(signal.SIGINT, again)
        signal.signal(signal.SIGTERM, before)


def stay(children: list[Child], mark: str) -> None:
    """Keep processes running until a signal says otherwise."""
    with ended(children, mark):
        for child in children:
            child.start()
        while True:
            for child in children:
                child.tend()
            time.sleep(0.5)


def fresh_mark() -> str:
    """Return a name for everything that one command starts."""
    return os.urandom(8).hex()


def planned(server: Path) -> tuple[int, int]:
    """Return how many rounds a seed has, and how many seeds there are."""
    if not (server / "experiment.yaml").is_file():
        raise InputError(f"'{server}' is no server's part: it has no experiment.yaml; `perfed deploy init` writes one")
    settings = parse.load(server / "experiment.yaml", elsewhere=True)
    return settings.rounds, len(settings.seeds)


def local(
    folder: Path,
    say: Say = lambda text: None,
    on_line: OnLine | None = None,
    mark: str | None = None,
    ordinary: bool = False,
) -> Path:
    """Start link and silos on this machine, run the experiment, and end everything that was started."""
    mark = mark or fresh_mark()
    server, silos = folder / "server", silos_of(folder)
    if not (server / "address.yaml").is_file() or not silos:
        raise InputError(f"'{folder}' is no deployment; `perfed deploy init {folder} --silos 3` makes one")
    for part in (server, *silos):
        if (host := address(part)["host"]) not in ("127.0.0.1", "localhost"):
            raise InputError(f"'{part}' is for {host}; `perfed deploy local` runs on loopback only")
    children: list[Child] = []
    with ended(children, mark):
        children += link(server, mark)
        children += [child for part in silos for child in silo(part, mark, True)] if ordinary else [nursery(silos, mark)]
        for child in children:
            child.start()
        say(f"the link and {len(silos)} silos are starting{' on ordinary SuperNodes' if ordinary else ''}")
        return follow(server, mark, children, on_line)
