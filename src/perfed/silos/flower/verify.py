"""What can be proved of a deployment: the audit logs of its parts by their keys, the server's runs by their chains."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...errors import InputError
from ...shelf import proofs
from ..audit import Key, examined
from . import signing


def verify(folder: Path) -> list[dict[str, Any]]:
    """Return what can be proved of a deployment, or of one part of it."""
    parts = list(_parts(folder))
    if not parts:
        raise InputError(f"'{folder}' is no deployment and no part of one: it has no server.yaml and no silo.yaml")
    found: list[dict[str, Any]] = []
    for part in parts:
        log = examined(part / "audit", _key(part))
        found.append({"part": part.name, "what": "audit log", **log.plain()})
        if (part / "runs").is_dir():
            found += [{"part": part.name, "what": own.path.name, **own.plain()} for own in proofs(part / "runs")]
    return found


def _parts(folder: Path) -> Iterator[Path]:
    if any((folder / name).is_file() for name in ("server.yaml", "silo.yaml")):
        yield folder
        return
    if (folder / "server" / "server.yaml").is_file():
        yield folder / "server"
    yield from sorted(path.parent for path in folder.glob("silo-*/silo.yaml"))


def _key(part: Path) -> Key | None:
    """Return the public key of a part: for a silo the one that the server knows, where its folder is beside."""
    known = part.parent / "server" / "keys" / f"{part.name}.pub"
    for path in (known, part / "node.pub", part / "server.crt"):
        if path.is_file():
            return signing.public(path)
    own = signing.own(part)  # a site that made its key itself
    return own._replace(sign=None) if own else None
