"""The reverse proxy of docs/deploy.md, tried with a real one: only the fleet's routes pass, and the bits are the same."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("flwr")

from faraway import final, serial
from loopback import Loopback

from perfed.silos.flower.address import address
from perfed.silos.flower.link import credential

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
pytestmark = [pytest.mark.flower, pytest.mark.skipif(NGINX is None, reason="needs nginx")]
PAGE = Path(__file__).parents[2] / "docs" / "deploy.md"


def rule(server: Path, port: int, link: int) -> str:
    """Return the page's rule with this test's places in it."""
    (found,) = re.findall(r"```nginx\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    given = {
        "fl.example.org": "localhost",
        "/srv/study/server": str(server),
        "443 ssl": f"127.0.0.1:{port} ssl",
        "8443": str(link),
    }
    for text, own in given.items():
        assert text in found, text
        found = found.replace(text, own)
    return str(found)


@pytest.mark.parametrize("ordinary", [False, True], ids=["quick", "supernode"])
def test_through_the_proxy_only_the_fleets_routes_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ordinary: bool) -> None:
    import httpx

    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    place = Loopback(tmp_path / "d", 2, ordinary=ordinary)
    link = address(place.server)["port"]
    port = link + 50
    own = tmp_path / "nginx"
    own.mkdir()
    (own / "nginx.conf").write_text(
        f"pid {own}/pid;\nerror_log {own}/error.log;\nevents {{}}\nhttp {{\naccess_log off;\n"
        + "".join(f"{name}_temp_path {own}/{name};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        + rule(place.server, port, link)
        + "}\n"
    )
    for i in range(2):
        path = place.folder / f"silo-{i}" / "address.yaml"
        path.write_text(path.read_text().replace(f"port: {link}", f"port: {port}"))
    assert NGINX is not None
    proxy = subprocess.Popen([NGINX, "-e", f"{own}/error.log", "-p", str(own), "-c", f"{own}/nginx.conf", "-g", "daemon off;"])
    try:
        place.experiment(method="fedrep")
        place.start()
        seed = place.run()
        with httpx.Client(verify=str(place.server / "ca.crt"), trust_env=False) as browser:
            given = {"x-perfed-operator": credential(place.server)}
            told = {
                path: browser.post(f"https://localhost:{port}{path}", headers=given).status_code
                for path in ("/v1/control/start-run", "/v1/runtime/acquire-task", "/docs", "/v1/fleet/../control/start-run")
            }
            assert set(told.values()) == {403}, told
            assert browser.get(f"https://localhost:{port}/health").status_code == 200
    finally:
        place.stop()
        proxy.terminate()
        proxy.wait(20)
    assert final(seed)["digest"] == final(serial(place.folder, tmp_path / "runs"))["digest"]
