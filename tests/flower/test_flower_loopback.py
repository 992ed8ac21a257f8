"""Three silos on Flower with TLS and node keys: nine methods, faults, strangers, Ctrl-C. Minutes, so by marker only."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from faraway import final, lines, serial
from lies import CHANGES
from loopback import Loopback, lying, strangers

from perfed.rounds import Protocol, Span, rounds
from perfed.runs import parse as setting
from perfed.runs.assemble import assemble
from perfed.runs.seed import Seed
from perfed.runs.states import fingerprint
from perfed.sampling import Sampling
from perfed.silos.flower import certificates, operate
from perfed.silos.flower.address import address
from perfed.silos.flower.processes import Child, marked
from perfed.transport import Serial

pytest.importorskip("flwr")
pytestmark = pytest.mark.flower

METHODS = ("fedavg", "fedrep", "ditto", "fedproto", "fedcp", "fedcac", "gpfl", "dualfed", "fedpick")


def deployed(folder: Path, ordinary: bool) -> Iterator[Loopback]:
    before = os.environ.get("PYTHONPATH")
    made = Loopback(folder, 3, ordinary=ordinary)
    try:
        made.start()
        yield made
    finally:
        made.stop()
        if before is not None:
            os.environ["PYTHONPATH"] = before
    assert made.watched.read_text()
    assert strangers(made.watched) == set()
    assert marked(made.mark) == []


QUICK = pytest.param(False, marks=pytest.mark.xdist_group("quick"), id="quick")  # one deployment each, in one process
ORDINARY = pytest.param(True, marks=pytest.mark.xdist_group("supernode"), id="supernode")
WAYS = [  # the way is the same for every method; the quick silos have them all
    pytest.param(ordinary, method, marks=pytest.mark.xdist_group(name), id=f"{name}-{method}")
    for name, ordinary, methods in (("quick", False, METHODS), ("supernode", True, ("fedavg", "fedcp")))
    for method in methods
]


@pytest.fixture(scope="module", params=[QUICK, ORDINARY])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loopback]:
    yield from deployed(tmp_path_factory.mktemp("flower") / "d", request.param)


def same(place: Loopback, seed: Path, out: Path) -> None:
    reference = serial(place.folder, out).parent / seed.name
    assert final(seed)["digest"] == final(reference)["digest"]
    assert final(seed)["private"] is not None
    assert lines(seed) == lines(reference)


@pytest.mark.parametrize(("place", "method"), WAYS, indirect=["place"])
def test_a_method_gives_the_bits_of_serial(place: Loopback, tmp_path: Path, method: str) -> None:
    large = {"budget": {"batch_size": 100, "lr": 0.05}} if method == "dualfed" else {}  # its projector's BatchNorm needs it
    place.experiment(method=method, **large)
    same(place, place.run(), tmp_path)


def in_a_round(place: Loopback) -> None:
    """Wait until a silo is at work; a quick silo always is while its server waits for it."""
    if place.ordinary:
        place.wait_for("flower.pinned")


def terminate_node(place: Loopback) -> None:
    place.child("silo-1").signal(signal.SIGTERM)


def kill_node(place: Loopback) -> None:
    os.kill(place.child("silo-1").process.pid, signal.SIGKILL)  # type: ignore[union-attr]


def kill_server(place: Loopback) -> None:
    place.kill("flower.conduct")


def kill_link(place: Loopback) -> None:
    os.kill(place.child("link").process.pid, signal.SIGKILL)  # type: ignore[union-attr]


def kill_trainers(place: Loopback) -> None:
    for i in range(3):
        place.child(f"silo-{i} worker" if place.ordinary else f"silo-{i}").signal(signal.SIGKILL)


FAULTS = (terminate_node, kill_node, kill_server, kill_link, kill_trainers)


@pytest.mark.parametrize("number", range(len(FAULTS)), ids=[f.__name__ for f in FAULTS])
def test_a_fault_in_a_round_changes_no_bit(place: Loopback, tmp_path: Path, number: int) -> None:
    place.experiment(method="fedrep", rounds=3 if place.ordinary else 6, seeds=[10 + number])

    def strike() -> None:
        in_a_round(place)
        FAULTS[number](place)

    same(place, place.run({1: strike}), tmp_path)


def test_a_round_closes_at_its_deadline_without_an_absent_silo(place: Loopback, tmp_path: Path) -> None:
    last, deadline = (2, 30.0) if place.ordinary else (3, 12.0)  # a quick silo may have answered twice before it is gone
    place.experiment(method="fedrep", rounds=last, seeds=[20], every=last)
    terms = place.server / "server.yaml"
    before = terms.read_text()
    node = place.child("silo-2")

    def leave() -> None:
        node.kept = False
        node.end()

    try:
        terms.write_text(before.replace("deadline: 300.0", f"deadline: {deadline}"))
        seed = place.run({0: leave})
    finally:
        terms.write_text(before)
        node.kept = True  # the next experiment has it back
    absent = {line["round"]: line.get("absent") for line in map(json.loads, (seed / "rounds.jsonl").read_text().splitlines())}
    assert absent[last] == [2]

    assert final(seed)["server"] == honest(place, tmp_path, lambda n: {0, 1, 2} - set(absent[n] or ()))[1]


def honest(place: Loopback, out: Path, present: Callable[[int], set[int]]) -> tuple[Seed, str]:
    """Run the experiment here with those who are present in each round; return it and the digest of the server."""

    class Those(Sampling):
        def participants(self, seed: int, number: int, clients: int) -> list[int]:
            return sorted(present(number))

    settings = setting.load(place.server / "experiment.yaml", [f"out={out}"])
    seed = settings.seeds[0]
    job = Seed(assemble(settings, seed))
    transport, protocol = Serial(job.made.site, job.store), Protocol(every=settings.rounds)
    loop = rounds(job.made.method, job.server, transport, Those(), protocol, Span(seed, 3, settings.rounds))
    return job, fingerprint([done.server for done in loop][-1]).hex()


def test_answers_that_cannot_be_right_are_refused_and_the_honest_run_is_unchanged(place: Loopback, tmp_path: Path) -> None:
    place.experiment(method="fedavg", rounds=len(CHANGES), seeds=[25], every=len(CHANGES), suspend=0)
    _, digest = honest(place, tmp_path, lambda number: {0, 1})
    with lying(place, 2):
        seed = place.run()
    refused = [json.loads(text) for text in (seed / "refused.jsonl").read_text().splitlines()]
    assert [r["client"] for r in refused] == [2] * len(CHANGES)
    told = zip(refused, CHANGES, strict=True)
    assert all(any(part in r["why"] for part in said.split("|")) for r, (_, _, said) in told), refused
    assert final(seed)["server"] == digest


def unregistered(place: Loopback, own: Path) -> list[str]:
    certificates.node(own)
    return ["--root-certificates", str(own / "ca.crt"), "--auth-supernode-private-key", str(own / "node.key")]


def wrong_authority(place: Loopback, own: Path) -> list[str]:
    certificates.authority(own)
    key = place.folder / "silo-0" / "node.key"
    return ["--root-certificates", str(own / "ca.crt"), "--auth-supernode-private-key", str(key)]


def plaintext(place: Loopback, own: Path) -> list[str]:
    return ["--insecure"]


def test_strangers_are_kept_out_and_the_honest_run_is_unchanged(place: Loopback, tmp_path: Path) -> None:
    where = address(place.server)
    rogues = {}
    for number, how in enumerate((unregistered, wrong_authority, plaintext)):
        own = tmp_path / how.__name__
        own.mkdir()
        (own / "ca.crt").write_bytes((place.server / "ca.crt").read_bytes())
        real = operate.silo(place.folder / "silo-0", place.mark, True)[-1]
        command = [
            real.command[0],
            *how(place, own),
            *("--superlink", f"{where['host']}:{where['port']}", "--max-retries", "1"),
            *("--host", "127.0.0.1", "--port", str(where["port"] + 60 + number)),
        ]
        rogues[how.__name__] = Child(how.__name__, command, real.env | {"FLWR_HOME": str(own)}, own / "node.log")
    place.experiment(method="fedrep", seeds=[30])
    try:
        for rogue in rogues.values():
            rogue.start()
        same(place, place.run(), tmp_path / "runs")
        end = time.monotonic() + 30
        while any(r.alive for r in rogues.values()) and time.monotonic() < end:
            time.sleep(0.2)
        said = {name: rogue.log.read_text() for name, rogue in rogues.items()}
        codes = {name: rogue.process.poll() for name, rogue in rogues.items() if rogue.process}
    finally:
        for rogue in rogues.values():
            rogue.end(1.0)
    assert all("SuperNode ID" not in text for text in said.values()), said
    assert all(code not in (None, 0) for code in codes.values()), (codes, said)
    assert "Attempted to register SuperNode" in (place.server / "logs" / "link.log").read_text()  # the others fail in TLS


def test_ctrl_c_leaves_nothing_behind(tmp_path: Path) -> None:
    folder = tmp_path / "deployment"
    perfed = [sys.executable, "-c", "from perfed.cli import main; main()", "deploy"]
    port = str(__import__("loopback").free_port(4))
    subprocess.run([*perfed, "init", str(folder), "--silos", "2", "--port", port, "rounds=50"], check=True, timeout=60)
    run = subprocess.Popen(
        [*perfed, "local", str(folder)],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # ignored where tests run behind a script's &
    )
    assert run.stderr is not None
    for line in run.stderr:
        if "are starting" in line:
            break
    time.sleep(5)
    assert running(str(folder))
    run.send_signal(signal.SIGINT)
    assert run.wait(60) == 130
    run.stderr.close()
    end = time.monotonic() + 5
    while running(str(folder)) and time.monotonic() < end:
        time.sleep(0.1)
    assert running(str(folder)) == []


def running(text: str) -> list[str]:
    """Return the command lines and environments of processes that mention ``text``, this one aside."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
        except OSError:
            continue
        if text.encode() in words and int(process.name) != os.getpid():
            found.append(words.replace(b"\0", b" ").decode(errors="replace")[:200])
    return found
