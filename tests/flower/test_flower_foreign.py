"""Foreign code: an app submitted with the link's address and the public certificate runs nowhere, whoever submits it."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("flwr")

from faraway import final, serial
from loopback import Loopback

from perfed.errors import RunError
from perfed.silos.flower.address import address
from perfed.silos.flower.link import credential

APP = """\
[project]
name = "stranger"
version = "1.0.0"
description = "Writes a file wherever it runs"
license = "Apache-2.0"
dependencies = []

[tool.flwr.app]
publisher = "stranger"

[tool.flwr.app.components]
serverapp = "stranger:server"
clientapp = "stranger:client"
"""
CODE = """\
import os
from pathlib import Path
Path({mark!r}, f"ran-{{os.getpid()}}").write_text("here")
from flwr.app import Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
server = ServerApp()
client = ClientApp()
@server.main()
def main(grid, context):
    grid.send_and_receive([Message(RecordDict(), node, "query") for node in grid.get_node_ids()], timeout=20)
@client.query()
def query(message, context):
    return Message(RecordDict(), reply_to=message)
"""


@pytest.fixture(scope="module", params=[False, pytest.param(True, marks=pytest.mark.flower)], ids=["quick", "supernode"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loopback]:
    before = os.environ.get("PYTHONPATH")
    made = Loopback(tmp_path_factory.mktemp("foreign") / "d", 2, ordinary=request.param)
    try:
        made.start()
        yield made
    finally:
        made.stop()
        if before is not None:
            os.environ["PYTHONPATH"] = before


def stranger(place: Loopback, own: Path) -> Path:
    """Write the app and the engine's configuration as somebody would who has the address and ca.crt."""
    (own / "app").mkdir(parents=True)
    (own / "ran").mkdir()
    (own / "app" / "pyproject.toml").write_text(APP)
    (own / "app" / "stranger.py").write_text(CODE.format(mark=str(own / "ran")))
    where = address(place.server)
    (own / "config.toml").write_text(
        f'[superlink]\ndefault = "it"\n\n[superlink.it]\naddress = "{where["host"]}:{where["port"]}"\n'
        f'root-certificates = "{place.folder / "silo-0" / "ca.crt"}"\n'
    )
    return own


def test_an_app_of_a_stranger_is_refused_at_the_link_and_runs_nowhere(place: Loopback, tmp_path: Path) -> None:
    own = stranger(place, tmp_path / "own")
    place.experiment(method="fedrep")
    env = os.environ | {"FLWR_HOME": str(own), "FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
    submit = [str(Path(sys.executable).with_name("flwr")), "run", str(own / "app"), "it"]
    said = subprocess.run(submit, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert said.returncode != 0, said.stdout
    assert "refused /v1/control/start-run from 127.0.0.1" in (place.server / "logs" / "link.log").read_text(), said
    seed = place.run()
    assert final(seed)["digest"] == final(serial(place.folder, tmp_path / "runs"))["digest"]
    assert list((own / "ran").iterdir()) == []


def test_even_with_the_operators_credential_no_code_runs_at_the_server_or_a_silo(place: Loopback, tmp_path: Path) -> None:
    """A link in wrong hands: the app is accepted and its messages are delivered; nobody executes it."""
    from flwr.app import Message, RecordDict
    from flwr.cli.build import build_fab_from_files
    from flwr.proto.runtime_pb2 import GetNodesRequest, PushAppMessagesRequest

    from perfed.silos.flower import session as module

    own = stranger(place, tmp_path / "own")
    files = {"pyproject.toml": APP.encode(), "stranger.py": (own / "app" / "stranger.py").read_bytes()}
    bundle = build_fab_from_files(files)[0]
    told: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("flwr.cli.build.build_fab_from_files", lambda given: (bundle, None))
        foreign = module.Session(place.server)
    try:
        end = time.monotonic() + 120
        while len(nodes := foreign.client.GetNodes(GetNodesRequest()).nodes) < 2 and time.monotonic() < end:
            time.sleep(0.2)
        for node in nodes:
            message = Message(RecordDict(), node.node_id, "query", ttl=60.0)

            def announce(protos: list[object], trees: list[object]) -> object:
                return foreign.client.PushMessages(PushAppMessagesRequest(messages_list=protos, message_object_trees=trees))

            told.append(foreign.objects.put(message, announce, lambda node=node: foreign.headers.ring(str(node.node_id))))
        assert len(told) == 2
        logs = [place.folder / f"silo-{i}" / "logs" / ("worker.log" if place.ordinary else "node.log") for i in range(2)]
        end = time.monotonic() + 120
        while time.monotonic() < end and not all("none of perfed's" in log.read_text() for log in logs if log.exists()):
            time.sleep(0.2)
        assert all("refused a message that is none of perfed's" in log.read_text() for log in logs)
    finally:
        foreign.close(done=True)
    assert list((own / "ran").iterdir()) == []


@pytest.mark.parametrize(
    "path", ["/v1/control/start-run", "/v1/runtime/acquire-task", "/v1/fleet/register-node", "/docs", "/openapi.json"]
)
def test_every_route_but_the_fleets_is_closed(place: Loopback, path: str) -> None:
    import httpx

    where = address(place.server)
    with httpx.Client(verify=str(place.server / "ca.crt"), trust_env=False) as browser:
        for given in ({}, {"x-perfed-operator": ""}, {"x-perfed-operator": "0" * 64}):
            assert browser.post(f"https://{where['host']}:{where['port']}{path}", headers=given).status_code == 403


def test_without_the_credentials_file_nothing_is_controlled(place: Loopback, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="cannot read the operator's credential"):
        credential(tmp_path)
    assert (place.server / "operator.key").stat().st_mode & 0o077 == 0
