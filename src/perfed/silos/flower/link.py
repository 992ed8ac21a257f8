"""The link's process: the engine's own SuperLink, in memory, behind perfed's gate; it knows the keys in the server's folder."""

import logging
import sys
from pathlib import Path
from typing import Any

from ...errors import RunError
from .address import address
from .certificates import pem_of
from .gate import Gate

log = logging.getLogger("perfed.link")


class Doorkeeper:
    """Keeps the link's list of nodes equal to the keys in a folder: a new file is let in, a removed one is not."""

    def __init__(self, state: Any, keys: Path) -> None:
        self.state, self.keys = state, keys
        self._known: dict[bytes, int] = {}
        self._read: list[tuple[str, int]] = []

    def __call__(self) -> None:
        from flwr.common.constant import HEARTBEAT_DEFAULT_INTERVAL, NOOP_ACCOUNT_NAME, NOOP_FLWR_AID

        files = sorted(self.keys.glob("silo-*.pub"))
        read = [(file.name, file.stat().st_mtime_ns) for file in files]
        if read == self._read:
            return
        wanted = {}
        for file in files:
            try:
                wanted[pem_of(file)] = file.stem
            except ValueError as wrong:
                log.warning("%s", wrong)
        for key in self._known.keys() - wanted.keys():
            self.state.delete_node(NOOP_FLWR_AID, self._known.pop(key))
            log.warning("a key was taken away: its node is not let in any more")
        for key in wanted.keys() - self._known.keys():
            self._known[key] = self.state.create_node(
                NOOP_FLWR_AID, NOOP_ACCOUNT_NAME, key, HEARTBEAT_DEFAULT_INTERVAL, name=wanted[key]
            )
        self._read = read


def application(server: Path) -> tuple[Gate, dict[str, Any]]:
    """Return the engine's application behind the gate, and how uvicorn serves it."""
    from flwr.supercore.constant import FLWR_IN_MEMORY_DB_NAME
    from flwr.superlink.cli.flower_superlink import SuperLinkLifespan
    from flwr.superlink.config_loader import SuperLinkLifespanConfig, load_control_authn_plugin
    from flwr.superlink.main import create_app

    where = address(server)
    tls = {name: str(server / name) for name in ("ca.crt", "server.crt", "server.key")}
    config = SuperLinkLifespanConfig(
        control_address="",
        health_server_address=None,
        host=str(where.get("listen", "127.0.0.1")),
        port=where["port"],
        insecure=False,
        certificates=tuple(Path(path).read_bytes() for path in tls.values()),  # type: ignore[arg-type]
        superexec_auth_secret=None,
        authn_plugin=load_control_authn_plugin(),
        event_log_plugin=None,
        fleet_event_log_plugin=None,
        enable_event_log=False,
        artifact_provider=None,
        enable_supernode_auth=True,
        fleet_api_type="grpc-rere",
        fleet_api_address=None,
        simulation=False,
        ssl_ca_certfile=tls["ca.crt"],
        ssl_certfile=tls["server.crt"],
        ssl_keyfile=tls["server.key"],
        database=FLWR_IN_MEMORY_DB_NAME,  # what a restart loses, the server sends again by its versions
        isolation="process",  # and no executor: the engine starts nothing here
        runtime_dependency_install=False,
    )
    app = create_app(config, SuperLinkLifespan)
    state = app.state.linkstate_factory.state()
    served = {"host": config.host, "port": config.port, "ssl_certfile": tls["server.crt"], "ssl_keyfile": tls["server.key"]}
    return Gate(app, credential(server), Doorkeeper(state, server / "keys"), state.object_store.delete), served


def credential(server: Path) -> str:
    """Return the operator's credential: who cannot read this file cannot control the link."""
    path = server / "operator.key"
    try:
        found = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as wrong:
        raise RunError(f"cannot read the operator's credential '{path}': {wrong}") from wrong
    if len(found) < 32:
        raise RunError(f"the operator's credential '{path}' is too short; `perfed deploy init` writes one")
    return found


def main(server: Path) -> None:
    """Serve until a signal ends it."""
    told = logging.StreamHandler()
    told.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log.addHandler(told)
    import uvicorn

    from .patience import Patient

    gate, served = application(server.resolve())
    logging.getLogger("flwr").setLevel(logging.INFO)  # its own handler shows no more, but pays for every line
    uvicorn.run(
        gate,
        **served,
        http=Patient,
        access_log=False,
        log_level="warning",
        workers=1,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=1,
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
