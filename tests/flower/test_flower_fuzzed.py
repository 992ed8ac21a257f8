"""Two thousand fuzzed requests at the link while an honest experiment runs: none is accepted, nothing changes, nothing runs."""

import os
import random
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("flwr")

from faraway import final, serial
from loopback import Loopback

from perfed.silos.flower.address import address
from perfed.silos.flower.gate import FLEET

pytestmark = pytest.mark.flower

COUNT = 2_000
HOOK = """
def _ran(event, arguments):
    if event in ("os.system", "os.exec", "os.posix_spawn", "pickle.find_class", "subprocess.Popen", "ctypes.dlopen.foreign"):
        with open(os.environ["PERFED_RAN"], "a") as file:
            file.write(f"{event} {str(arguments)[:200]}\\n")

if "PERFED_RAN" in os.environ:
    sys.addaudithook(_ran)
"""
PICKLE = b"cos\nsystem\n(S'touch ran-from-a-pickle'\ntR."


def body(draw: random.Random) -> bytes:
    """Return bytes that might be a message: noise, a pickle, lengths that lie, text nested deeply."""
    kind = draw.randrange(5)
    if kind == 0:
        return draw.randbytes(draw.randint(0, 2000))
    if kind == 1:
        return PICKLE * draw.randint(1, 20)
    if kind == 2:
        return b"\x0a\xff\xff\xff\xff\x0f" + draw.randbytes(50)  # a field that says it has four gigabytes
    if kind == 3:
        return b"[" * draw.randint(1, 20_000)
    return bytes([draw.randrange(1, 16) << 3 | draw.randrange(6), draw.randrange(256)]) * draw.randint(1, 300)


def resident(pid: int) -> int:
    text = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in text.splitlines() if line.startswith("VmRSS")).split()[1]) << 10


def test_two_thousand_fuzzed_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import httpx

    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    monkeypatch.setenv("PERFED_RAN", str(tmp_path / "ran.txt"))
    place = Loopback(tmp_path / "d", 2)
    hook = place.folder / "hook" / "sitecustomize.py"
    hook.write_text(hook.read_text() + HOOK)
    said: Counter[int] = Counter()
    broken: list[str] = []

    def fuzz() -> None:
        draw, where, routes = random.Random(0), address(place.server), sorted(FLEET)
        with httpx.Client(verify=str(place.server / "ca.crt"), trust_env=False, timeout=30) as caller:
            for _ in range(COUNT):
                head = {"content-type": "application/protobuf" if draw.random() < 0.9 else "text/plain"}
                if draw.random() < 0.3:
                    head |= {"flwr-public-key": draw.randbytes(30).hex(), "flwr-signature": draw.randbytes(30).hex()}
                url = f"https://{where['host']}:{where['port']}{draw.choice(routes)}"
                try:
                    said[caller.post(url, content=body(draw), headers=head).status_code] += 1
                except httpx.HTTPError as wrong:
                    broken.append(repr(wrong))

    try:
        place.start()
        place.experiment(method="fedavg", rounds=5)
        process = place.children[0].process  # the link
        assert process is not None
        link = process.pid
        caller = threading.Thread(target=fuzz)
        caller.start()
        seed = place.run()
        between = resident(link)
        caller.join()
        after = resident(link)
    finally:
        place.stop()
    sys.stdout.write(f"answers {dict(said)}, broken {len(broken)}, link {between >> 20} → {after >> 20} MiB\n")
    assert sum(said.values()) + len(broken) == COUNT and said[200] == 0 and not broken, (said, broken[:3])
    assert final(seed)["digest"] == final(serial(place.folder, tmp_path / "runs"))["digest"]
    assert after < between + (64 << 20)
    ran = (tmp_path / "ran.txt").read_text() if (tmp_path / "ran.txt").exists() else ""
    assert "ran-from-a-pickle" not in ran and "pickle.find_class" not in ran and not list(Path.cwd().glob("ran-from-*"))
