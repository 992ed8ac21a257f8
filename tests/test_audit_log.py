"""An audit log holds or does not: changes, deletions, moves and truncations, kills, the node's key and somebody else's."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("cryptography")

from perfed.errors import RunError
from perfed.silos.audit import HEAD, LOG, Audit, Key, examine, examined
from perfed.silos.flower import certificates, signing


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("silo-0")
    certificates.node(folder)
    return folder


def written(folder: Path, key: Key | None, count: int = 10) -> Audit:
    log = Audit(folder, key)
    for number in range(count):
        log.note(("ask", "answer", "refusal", "decision")[number % 4], client=number % 3, train=number, why="because")
    return log


def test_a_log_is_proved_by_the_public_half_of_the_nodes_key(node: Path, tmp_path: Path) -> None:
    written(tmp_path, signing.own(node))
    found = examined(tmp_path, signing.public(node / "node.pub"))
    assert (found.state, found.lines) == ("proved", 11)  # with the one that says that it began
    lines = [json.loads(line) for line in (tmp_path / LOG).read_text().splitlines()]
    assert [line["what"] for line in lines[:3]] == ["begin", "ask", "answer"] and lines[2]["train"] == 1
    other = tmp_path / "other"
    other.mkdir()
    certificates.node(other)
    assert "not signed by this node's key" in examined(tmp_path, signing.public(other / "node.pub")).said
    assert oct((tmp_path / LOG).stat().st_mode)[-3:] == "600"


def test_the_servers_key_signs_as_well(tmp_path: Path) -> None:
    (tmp_path / "ca").mkdir()
    certificates.authority(tmp_path / "ca")
    certificates.server(tmp_path / "ca", tmp_path, ["127.0.0.1"])
    written(tmp_path / "audit", signing.own(tmp_path), 2)
    assert examined(tmp_path / "audit", signing.public(tmp_path / "server.crt")).state == "proved"


def _flip(draw: random.Random, lines: list[bytes]) -> bytes:
    whole = b"".join(lines)
    at = draw.randrange(len(whole))
    return whole[:at] + bytes([(whole[at] + draw.randrange(1, 256)) % 256]) + whole[at + 1 :]


def _dropped(draw: random.Random, lines: list[bytes]) -> bytes:
    first = draw.randrange(len(lines))
    return b"".join(lines[:first] + lines[first + draw.randrange(1, 4) :])


def _moved(draw: random.Random, lines: list[bytes]) -> bytes:
    mixed = list(lines)
    while mixed == lines:
        draw.shuffle(mixed)
    return b"".join(mixed)


def _cut(draw: random.Random, lines: list[bytes]) -> bytes:
    """At a line's end every other time: a shorter log that is a chain in itself."""
    whole = b"".join(lines)
    return b"".join(lines[: draw.randrange(len(lines))]) if draw.random() < 0.5 else whole[: draw.randrange(len(whole))]


CHANGES: list[Callable[[random.Random, list[bytes]], bytes]] = [_flip, _dropped, _moved, _cut]


def test_of_ten_thousand_changes_all_are_detected(node: Path, tmp_path: Path) -> None:
    written(tmp_path, signing.own(node), 7)
    whole, head, key = (tmp_path / LOG).read_bytes(), (tmp_path / HEAD).read_bytes(), signing.public(node / "node.pub")
    assert examine(tmp_path / LOG, whole, head, key).state == "proved"
    lines, draw = whole.splitlines(keepends=True), random.Random(3)
    states: dict[str, int] = {}
    for number in range(10_000):
        found = examine(tmp_path / LOG, CHANGES[number % 4](draw, lines), head, key)
        states[found.state] = states.get(found.state, 0) + 1
    assert states == {"disproved": 10_000}


def test_a_changed_head_is_detected_and_a_forged_one_needs_the_key(node: Path, tmp_path: Path) -> None:
    written(tmp_path, signing.own(node), 5)
    text, key, draw = (tmp_path / LOG).read_bytes(), signing.public(node / "node.pub"), random.Random(4)
    head = (tmp_path / HEAD).read_bytes()
    for _ in range(300):
        changed = _flip(draw, [head])
        try:
            same = json.loads(changed) == json.loads(head)
        except ValueError:
            same = False
        assert same or examine(tmp_path / LOG, text, changed, key).state == "disproved", changed
    cut = text.splitlines(keepends=True)[:3]
    forged = json.loads(head) | {"lines": 3, "chain": json.loads(cut[-1])["chain"]}
    assert "not signed" in examine(tmp_path / LOG, b"".join(cut), json.dumps(forged).encode(), key).said
    assert "no signed head" in examine(tmp_path / LOG, text, None, key).said


def test_a_log_that_was_cut_short_is_not_written_on(node: Path, tmp_path: Path) -> None:
    written(tmp_path, signing.own(node), 5)
    lines = (tmp_path / LOG).read_bytes().splitlines(keepends=True)
    (tmp_path / LOG).write_bytes(b"".join(lines[:4]))
    with pytest.raises(RunError, match="ends after line 4, and its signed head names 6"):
        Audit(tmp_path, signing.own(node)).note("ask")


def test_what_was_not_signed_when_a_process_ended_is_said_for_good(node: Path, tmp_path: Path) -> None:
    log, key = written(tmp_path, signing.own(node), 2), signing.public(node / "node.pub")
    head = (tmp_path / HEAD).read_bytes()
    log.note("answer", train=9)
    (tmp_path / HEAD).write_bytes(head)  # as if the process had ended between the line and the head
    assert examined(tmp_path, key).said.startswith("proved to line 3; 1 lines after it are chained and not signed")
    with (tmp_path / LOG).open("ab") as file:
        file.write(b'{"time": "2026')
    Audit(tmp_path, signing.own(node)).note("ask", train=10)
    assert examined(tmp_path, key).state == "proved"
    began = json.loads((tmp_path / LOG).read_text().splitlines()[4])
    assert (began["what"], began["unsigned"], began["torn"]) == ("begin", 1, 14)


def test_two_processes_of_a_node_share_a_log(node: Path, tmp_path: Path) -> None:
    one, other = Audit(tmp_path, signing.own(node)), Audit(tmp_path, signing.own(node))
    for number in range(4):
        (one if number % 2 else other).note("ask", train=number)
    assert examined(tmp_path, signing.public(node / "node.pub")).said.startswith("proved, 6 lines")


WRITER = """
import sys
from pathlib import Path
from perfed.silos.audit import Audit
from perfed.silos.flower import signing
log, number = Audit(Path(sys.argv[2]), signing.own(Path(sys.argv[1]))), 0
while True:
    log.note("ask", train=number)
    number += 1
"""


def test_after_a_kill_a_valid_prefix_is_left_and_the_log_goes_on(node: Path, tmp_path: Path) -> None:
    key, draw, before = signing.public(node / "node.pub"), random.Random(5), 0
    for _ in range(3):
        process = subprocess.Popen([sys.executable, "-c", WRITER, str(node), str(tmp_path)], env=os.environ)
        while _lines(tmp_path) < before + draw.randrange(3, 30):
            assert process.poll() is None
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
        process.wait()
        found = examined(tmp_path, key)
        assert found.state in ("proved", "prefix") and found.lines > before, found.said
        before = _lines(tmp_path)
    Audit(tmp_path, signing.own(node)).note("ask")
    assert examined(tmp_path, key).state == "proved"


def _lines(folder: Path) -> int:
    return (folder / LOG).read_bytes().count(b"\n") if (folder / LOG).exists() else 0


def test_a_node_without_a_key_chains_and_says_that_nothing_is_signed(tmp_path: Path) -> None:
    written(tmp_path, None, 3)
    assert examined(tmp_path, None).state == "unsigned"
    assert examined(tmp_path / "nowhere", None).said == "there is no log: nothing was asked yet"
    (tmp_path / LOG).unlink()
    assert examined(tmp_path, None).state == "disproved"
