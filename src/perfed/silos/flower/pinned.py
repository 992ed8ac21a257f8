"""What an ordinary SuperNode's executor starts at a silo: perfed's own ClientApp, whatever bundle was sent."""

import sys
from pathlib import Path
from typing import Any

_REFUSE = "#!/bin/sh\necho 'perfed: a silo executes nothing that it is sent: {name} was refused' >&2\nexit 1\n"
_OWN = '#!/bin/sh\nexec {python} -m perfed.silos.flower.pinned "$@"\n'


def programs(folder: Path) -> Path:
    """Write programs that stand before the engine's own in a SuperNode's path; return their folder."""
    from flwr.supercore.constant import TASK_TYPE_TO_COMMAND

    folder.mkdir(exist_ok=True, mode=0o700)
    for name in TASK_TYPE_TO_COMMAND.values():
        own = name == "flwr-clientapp"
        (folder / name).write_text(_OWN.format(python=sys.executable) if own else _REFUSE.format(name=name), encoding="utf-8")
        (folder / name).chmod(0o700)
    return folder


def main() -> None:
    """Run the engine's ClientApp process with perfed's app in the place of the bundle's; the bundle is not even unpacked."""
    from flwr.supernode.cli.flwr_clientapp import flwr_clientapp
    from flwr.supernode.runtime import run_clientapp as engine

    def own(*_: Any, **__: Any) -> Any:
        from .clientapp import app

        return lambda *_: app

    for name, instead in (("install_from_fab", lambda *_, **__: None), ("get_load_client_app_fn", own)):
        if not hasattr(engine, name):
            raise SystemExit(f"perfed: this flwr has no {name}; a bundle cannot be kept from running, so nothing runs")
        setattr(engine, name, instead)
    flwr_clientapp()


if __name__ == "__main__":
    main()
