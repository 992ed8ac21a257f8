"""Starting, following and ending a deployment: the link with its executor, the silos' nodes, and a run."""

import json
import os
import signal
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from ...errors import InputError, RunError, extra
from ...runs import parse
from ...runs.experiment import Experiment
from ..keep import busy
from .layout import silos_of
from .processes import Child, end_all, environment, program

Say = Callable[[str], None]
OnLine = Callable[[int, dict[str, Any]], None]  # seed, a line of rounds.jsonl

_TRIES = 3  # starts of a run whose server's part ended without a word


def address(folder: Path) -> dict[str, Any]:
    """Return host, port and what else a part's ``address.yaml`` says."""
    found = parse.read_yaml(folder / "address.yaml")
    if not isinstance(found.get("host"), str) or type(found.get("port")) is not int:
        raise InputError(f"'{folder / 'address.yaml'}' needs `host: NAME` and `port: NUMBER`")
    return found


def _env(folder: Path, mark: str) -> dict[str, str]:
    home = folder.resolve() / "flower"
    home.mkdir(exist_ok=True, mode=0o700)
    return environment(home, mark, [address(folder)["host"]])


def link(server: Path, mark: str) -> list[Child]:
    """Return the SuperLink and, apart from it so that a restart of the link loses no run, the executor."""
    extra("flwr", "flower")
    server = server.resolve()
    where, env = address(server), _env(server, mark)
    superlink = [
        program("flower-superlink"),
        *("--ssl-ca-certfile", str(server / "ca.crt")),
        *("--ssl-certfile", str(server / "server.crt")),
        *("--ssl-keyfile", str(server / "server.key")),
        "--enable-supernode-auth",
        *("--isolation", "process"),
        *("--database", str(server / "link.db")),
        *("--host", str(where.get("listen", "127.0.0.1"))),
        *("--port", str(where["port"])),
        "--disable-runtime-dependency-installation",
    ]
    executor = [
        program("flower-superexec"),
        *("--runtime-api-address", f"{where['host']}:{where['port']}"),
        *("--root-certificates", str(server / "ca.crt")),
    ]
    return [
        Child("link", superlink, env, server / "logs" / "link.log", kept=True),
        Child("executor", executor, env, server / "logs" / "executor.log", kept=True),
    ]


def silo(folder: Path, mark: str) -> list[Child]:
    """Return a silo's resident worker and its SuperNode."""
    extra("flwr", "flower")
    folder = folder.resolve()
    where = address(folder)
    command = [
        program("flower-supernode"),
        *("--root-certificates", str(folder / "ca.crt")),
        *("--auth-supernode-private-key", str(folder / "node.key")),
        *("--superlink", f"{where['host']}:{where['port']}"),
        *("--host", "127.0.0.1", "--port", str(where.get("runtime", 9094))),
        *("--node-config", f"silo='{folder / 'silo.yaml'}'"),
    ]
    env = _env(folder, mark)
    node = Child(folder.name, command, env, folder / "logs" / "node.log", kept=True)
    socket = folder / "flower" / "worker"
    if len(str(socket)) > 100:  # longer than a socket's path may be: every message loads torch and the data anew
        return [node]
    node.env["PERFED_WORKER"] = str(socket)
    serve = [sys.executable, "-m", "perfed.silos.flower.resident", str(folder / "silo.yaml"), str(socket)]
    return [Child(f"{folder.name} worker", serve, env, folder / "logs" / "worker.log", kept=True, back=0.5), node]


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


def register(server: Path, mark: str) -> None:
    """Tell the link which keys may connect; keys it knows already stay as they are."""
    server = server.resolve()
    env, where = _env(server, mark), address(server)
    config = (
        '[superlink]\ndefault = "deployment"\n\n[superlink.deployment]\n'
        f'address = "{where["host"]}:{where["port"]}"\nroot-certificates = "{server / "ca.crt"}"\n'
    )
    (server / "flower" / "config.toml").write_text(config, encoding="utf-8")
    keys = [str(key) for key in sorted((server / "keys").glob("silo-*.pub"))]
    asked = subprocess.run(
        [sys.executable, "-m", "perfed.silos.flower.registrar", *keys],
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if asked.returncode:
        raise RunError(f"a silo's key could not be registered: {' '.join(asked.stderr.split())[:300]}")


def submit(server: Path, mark: str) -> Child:
    """Return the process that starts a run at the link and waits for its end."""
    server = server.resolve()
    command = [program("flwr"), "run", str(server / "app"), "deployment", "--stream"]
    command += ["--run-config", f"folder='{server}'"]
    return Child("run", command, _env(server, mark), server / "logs" / "run.log")


class Follower:
    """Reads the record of a run as it grows."""

    def __init__(self, server: Path, settings: Experiment, on_line: OnLine | None) -> None:
        self.server, self.settings, self.on_line = server, settings, on_line
        self.seen: dict[Path, int] = {}

    @property
    def run(self) -> Path | None:
        """The run's folder, once it is there."""
        sought = (self.settings.digest(), list(self.settings.seeds))
        for manifest in (self.server / "runs").glob("*/manifest.json"):
            found = json.loads(manifest.read_text(encoding="utf-8"))
            if (found.get("settings"), found.get("seeds")) == sought:
                return manifest.parent
        return None

    def look(self) -> bool:
        """Report new rounds; return whether every seed is finished."""
        run = self.run
        if run is None:
            return False
        for seed in self.settings.seeds:
            path = run / f"seed-{seed}" / "rounds.jsonl"
            if path.exists():
                lines = [t for t in path.read_text(encoding="utf-8").splitlines(keepends=True) if t.endswith("\n")]
                for text in lines[self.seen.get(path, 0) :]:
                    if self.on_line:
                        self.on_line(seed, json.loads(text))
                self.seen[path] = len(lines)
        return all((run / f"seed-{seed}" / "final.json").exists() for seed in self.settings.seeds)


def follow(server: Path, mark: str, children: Sequence[Child] = (), on_line: OnLine | None = None) -> Path:
    """Run the experiment to its end, tending the children meanwhile; return the run's folder."""
    settings = parse.load(server / "experiment.yaml")
    silos = parse.read_yaml(server / "server.yaml").get("silos")
    watch = Follower(server, settings.model_copy(update={"clients": silos}), on_line)
    stopped = server / "stopped.txt"
    for _ in range(_TRIES):
        stopped.unlink(missing_ok=True)
        run = submit(server, mark)
        run.start()
        try:
            while run.alive or busy(server):  # who follows is cut off when the link restarts; the run is not
                _tend(children, watch)
        finally:
            run.end(1.0)
        if watch.look() and watch.run is not None:
            return watch.run
        if stopped.exists():
            raise RunError(stopped.read_text(encoding="utf-8").strip())
        end = time.monotonic() + 120.0
        while not healthy(server) and time.monotonic() < end:
            _tend(children, watch)
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


def local(folder: Path, say: Say = lambda text: None, on_line: OnLine | None = None, mark: str | None = None) -> Path:
    """Start link, executor and silos on this machine, run the experiment, and end everything that was started."""
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
        for child in children:
            child.start()
        until_healthy(server, children)
        say("the link is up")
        register(server, mark)
        for part in silos:
            own = silo(part, mark)
            children += own
            for child in own:
                child.start()
        say(f"{len(silos)} silos are starting")
        return follow(server, mark, children, on_line)
