"""Whether a deployment's folder is fit to run: files, keys and their modes, certificates, and what the silos allow."""

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...disk import get_yaml
from ...errors import InputError, PerfedError, extra, install
from ...runs import parse
from .. import start
from . import certificates
from .address import address
from .engine import TRIED, installed
from .layout import silos_of

Finding = dict[str, str]  # what, state (ok, warning, wrong), note


def check(folder: Path) -> list[Finding]:
    """Return findings for a deployment, or for the one part of it that is on this machine."""
    extra("cryptography", "flower")
    parts = [p for p in (folder / "server", *silos_of(folder)) if p.is_dir()] or [folder]
    if not any((p / "address.yaml").is_file() for p in parts):
        raise InputError(f"'{folder}' is no deployment and no part of one; `perfed deploy init {folder}` makes one")
    findings = [_flower()]
    if (folder / "ca" / "ca.key").exists():
        findings.append(_private(folder / "ca" / "ca.key"))
    for part in parts:
        findings += _guarded(_silo if (part / "silo.yaml").exists() else _server, part)
    if (folder / "server").is_dir():
        for part in silos_of(folder):
            findings += _guarded(_known, part)
    return findings


def _guarded(look: Any, part: Path) -> list[Finding]:
    found = []
    try:
        for finding in look(part):
            found.append(finding)
    except (PerfedError, OSError, ValueError) as wrong:
        found.append(_finding(part.name, "wrong", str(wrong)))
    return found


def _finding(what: str, state: str, note: str) -> Finding:
    return {"what": what, "state": state, "note": note}


def _flower() -> Finding:
    found = installed()
    if not found:
        return _finding("flwr", "wrong", f"not installed; {install('flower')}")
    fine = found.split(".")[:2] == TRIED.split(".")
    return _finding("flwr", "ok" if fine else "warning", found if fine else f"{found}; perfed was run with {TRIED}")


def _private(path: Path) -> Finding:
    mode = stat.S_IMODE(path.stat().st_mode)
    fine = not mode & 0o077
    note = "only its owner can read it" if fine else f"mode {mode:03o}: others can read it; chmod 600"
    return _finding(f"{path.parent.name}/{path.name}", "ok" if fine else "wrong", note)


def _dated(path: Path) -> Finding:
    days = certificates.days_left(path)
    what = f"{path.parent.name}/{path.name}"
    if days < 0:
        return _finding(what, "wrong", "not valid today")
    state = "warning" if days < certificates.WARN else "ok"
    return _finding(what, state, f"ends in {days:.0f} days" + ("; make a new one" if state == "warning" else ""))


def _server(part: Path) -> Iterator[Finding]:
    from ..terms import Terms

    host = address(part)["host"]
    yield _private(part / "server.key")
    yield _private(part / "operator.key")
    if (part / start.FILE).exists():
        yield _finding(start.FILE, "wrong", "is the silos' secret and must not be at the server; delete it here")
    yield _dated(part / "ca.crt")
    yield _dated(part / "server.crt")
    if not certificates.signed_by(part / "server.crt", part / "ca.crt"):
        yield _finding("server.crt", "wrong", "was not made by ca.crt's authority")
    elif not certificates.belongs(part / "server.key", part / "server.crt"):
        yield _finding("server.key", "wrong", "is not the key of server.crt")
    elif host not in certificates.hosts_of(part / "server.crt"):
        yield _finding("server.crt", "wrong", f"is not for {host}, but {', '.join(certificates.hosts_of(part / 'server.crt'))}")
    else:
        yield _finding("server.crt", "ok", f"made by this authority, for {host}")
    terms = Terms.load(part / "server.yaml")
    certificates.roster(part, terms.numbers)
    yield _finding("keys", "ok", f"{len(terms.numbers)} different silos are known")
    if terms.seeded_private:
        yield _finding("server.yaml", "warning", "seeded_private: private parts can be guessed; for comparisons only")
    settings = parse.load(part / "experiment.yaml", elsewhere=True)
    yield _finding("experiment.yaml", "ok", f"{settings.method.name} on {settings.data.name}, {settings.rounds} rounds")


def _silo(part: Path) -> Iterator[Finding]:
    from ...data import load
    from ..config import SiloConfig
    from ..policy import SitePolicy

    address(part)
    yield _private(part / "node.key")
    if start.read(part):
        yield _private(part / start.FILE)
    else:
        yield _finding(f"{part.name}/{start.FILE}", "warning", "missing: private parts begin otherwise than the other silos'")
    yield _dated(part / "ca.crt")
    config, policy = SiloConfig.load(part / "silo.yaml"), SitePolicy.load(part / "policy.yaml")
    lacking = [name for name in policy.data if name not in config.data]
    if lacking:
        yield _finding(f"{part.name}/policy.yaml", "warning", f"allows {', '.join(lacking)}, which silo.yaml has not")
    for name, source in config.data.items():
        try:
            samples = load(source.source.name, **source.source.options)
        except PerfedError as wrong:
            yield _finding(f"{part.name}/silo.yaml", "wrong", f"{name}: {wrong}")
        else:
            kind = f"of {len(samples.classes)} classes" if samples.task == "classification" else f"for {samples.task}"
            yield _finding(f"{part.name}: {name}", "ok", f"{len(samples)} samples {kind}")
    yield _finding(part.name, "ok", f"client {config.client}; {', '.join(policy.methods)} on {', '.join(policy.data)}")


def _known(part: Path) -> Iterator[Finding]:
    """The server must know this silo's key, and the silo must allow the experiment."""
    from ..config import SiloConfig
    from ..policy import SitePolicy
    from ..refusals import Refused
    from ..sums import AGREEING

    server = part.parent / "server"
    listed = (server / "keys" / f"{part.name}.pub").read_bytes().split()[:2]
    if certificates.public_of(part / "node.key").split()[:2] != listed:
        yield _finding(f"{part.name}/node.key", "wrong", f"is not the key in server/keys/{part.name}.pub")
    others = {start.read(other) for other in silos_of(part.parent)} - {""}
    if len(others) > 1:
        yield _finding(f"{part.name}/{start.FILE}", "wrong", "the silos' files differ; copy one of them to all")
    settings = parse.load(server / "experiment.yaml", elsewhere=True)
    seeded = bool(get_yaml(server / "server.yaml").get("seeded_private"))
    try:
        policy = SitePolicy.load(part / "policy.yaml")
        policy.admit(settings, seeded)
        source = SiloConfig.load(part / "silo.yaml").data.get(settings.data.name)
        if (
            settings.data.options.get("scale") in AGREEING
            and source
            and source.rows == "all"
            and not source.source.options.get("columns")
        ):
            policy.admit_sums()
    except Refused as refused:
        yield _finding(f"{part.name}/policy.yaml", "wrong", f"would refuse the experiment: {refused}")
