"""A deployment's folder: the authority, the server's part, and one part per silo that can be carried away alone."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ...errors import InputError, RunError
from ...evaluate.metrics import chosen_by
from ...runs import parse
from ...runs.assemble import method_of
from ...runs.choice import name_of
from ...runs.experiment import Experiment
from .. import keep, start
from ..policy import passes
from ..terms import Terms
from . import certificates

_SCRIPT = """\
#!/bin/sh
# {what}
exec perfed deploy {command} "$(dirname "$0")"
"""

_POLICY = """\
# What this site will do, whatever the server says. Anything that is not allowed here is refused and noted in
# state/refused.jsonl.
"""

_SILO = """\
# This silo's own configuration. `data` maps a name that the server may ask for to where the samples are:
#   xray: folder:/srv/xray              all of it is this silo's (also npz:, csv:, or a named set)
#   digits: {name: digits, rows: split}   this client's rows of the experiment's own split, for studies
"""


@dataclass(frozen=True, kw_only=True)
class Address:
    """Where the server listens, and under which name the silos reach it."""

    host: str = "127.0.0.1"
    port: int = 8443
    listen: str = "127.0.0.1"

    @property
    def link(self) -> str:
        return f"{self.host}:{self.port}"


def init(
    folder: Path,
    silos: int,
    address: Address,
    overrides: Sequence[str] = (),
    file: Path | None = None,
    terms: dict[str, Any] | None = None,
    allowed: dict[str, bool] | None = None,
) -> list[Path]:
    """Write a deployment; return its files. ``allowed`` is what the silos' policies permit beyond the experiment itself."""
    if folder.exists() and any(folder.iterdir()):
        raise RunError(f"'{folder}' is not empty; a deployment's keys are never overwritten")
    if silos < 1:
        raise InputError(f"a deployment needs at least one silo, got {silos}")
    settings = parse.load(file, [*overrides, f"clients={silos}"], elsewhere=True)
    server = folder / "server"
    (server / "keys").mkdir(parents=True)
    (folder / "ca").mkdir(mode=0o700)
    certificates.authority(folder / "ca")
    keep.put(folder / "ca" / start.FILE, f"{secrets.token_hex(32)}\n".encode())
    certificates.server(folder / "ca", server, [address.host, "localhost", "127.0.0.1"])
    (server / "ca.crt").write_bytes((folder / "ca" / "ca.crt").read_bytes())
    keep.put(server / "operator.key", f"{secrets.token_hex(32)}\n".encode())
    plain = {k: v for k, v in settings.plain().items() if v != Experiment().plain()[k] or k in _ALWAYS}
    _yaml(server / "experiment.yaml", plain)
    _yaml(server / "server.yaml", {"silos": silos, "deadline": 600, "least": silos, **(terms or {})})
    _yaml(server / "address.yaml", {"host": address.host, "port": address.port, "listen": address.listen})
    _script(server / "start.sh", "The link that silos connect to.", "link")
    _script(server / "run.sh", "Runs the experiment; again after a stop: goes on.", "run")
    for i in range(silos):
        _silo(folder, i, settings, address, {"seeded_private": bool((terms or {}).get("seeded_private"))} | (allowed or {}))
    return sorted(p for p in folder.rglob("*") if p.is_file())


_ALWAYS = ("method", "model", "data", "clients", "rounds", "budget", "seeds")


def limits(settings: Experiment) -> dict[str, Any]:
    """Return a policy that allows an experiment and no more: nothing of scores or labels leaves."""
    count = passes(method_of(settings))
    return {
        "methods": [settings.method.name],
        "data": [settings.data.name],
        "epochs": count,
        "steps": 10_000 * count,
        "parameters": 10_000_000,
        "rounds": settings.rounds,
        "daily": 2 * settings.rounds * len(settings.seeds),
        "scores": False,
        "fewest": 10,
        "labels": False,
        "sums": False,
        "privacy": "required" if settings.privacy.on else "allowed",
        "epsilon": 0.0,
        "delta": settings.privacy.delta,
        "seeded_private": False,
    }


def _silo(folder: Path, number: int, settings: Experiment, address: Address, allowed: dict[str, bool]) -> None:
    name, options = settings.data.name, settings.data.options
    whole = ":" in name
    entry = {"name": name, **options} | ({} if whole else {"rows": "split"})
    write_silo(folder, number, {"client": number, "data": {name: entry}}, permits(settings, allowed), address)


def permits(settings: Experiment, allowed: Mapping[str, Any]) -> dict[str, Any]:
    """Return a policy that allows an experiment and what is said; scores are allowed by the names of those it measures."""
    task = str(settings.data.options.get("task", "classification"))
    named = [chosen_by(name_of(metric), task) for metric in settings.metrics]
    return limits(settings) | dict(allowed) | ({"scores": named} if allowed.get("scores") is True else {})


def write_silo(folder: Path, number: int, config: dict[str, Any], policy: dict[str, Any], address: Address) -> Path:
    """Write a silo's part: its key, configuration and policy; the server is given the public half of the key last."""
    own = folder / f"silo-{number}"
    own.mkdir(mode=0o700)
    public = certificates.node(own)
    (own / "ca.crt").write_bytes((folder / "server" / "ca.crt").read_bytes())
    _yaml(own / "silo.yaml", config, _SILO)
    _yaml(own / "policy.yaml", policy, _POLICY)
    link = {"host": address.host, "port": address.port, "runtime": address.port + 1 + number}
    _yaml(own / "address.yaml", link)
    if common := _common(folder):
        keep.put(own / start.FILE, f"{common}\n".encode())
    _script(own / "start.sh", "This silo's node; it comes back by itself when the link was away.", "silo")
    (folder / "server" / "keys" / f"silo-{number}.pub").write_bytes(public)
    return own


def _common(folder: Path) -> str:
    """Return the silos' common secret: the authority's copy, or that of a silo whose part is still here."""
    return next((found for place in (folder / "ca", *silos_of(folder)) if (found := start.read(place))), "")


def _yaml(path: Path, content: dict[str, Any], head: str = "") -> None:
    path.write_text(head + yaml.safe_dump(content, sort_keys=False), encoding="utf-8")


def _script(path: Path, what: str, command: str) -> None:
    path.write_text(_SCRIPT.format(what=what, command=command), encoding="utf-8")
    path.chmod(0o755)


def silos_of(folder: Path) -> list[Path]:
    """Return the silos' parts that are in a deployment's folder, without those that left."""
    terms = folder / "server" / "server.yaml"
    gone = Terms.load(terms).removed if terms.is_file() else ()
    return sorted((p for p in folder.glob("silo-*") if int(p.name[5:]) not in gone), key=lambda p: int(p.name[5:]))
