"""Silos that come and go: a newcomer's folder and key, a leaver's key taken away, and a retraining without one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from ...disk import get_json, get_yaml, put_json, put_yaml
from ...errors import InputError, RunError, suggest
from ...runs import parse
from ...runs.experiment import Experiment
from ...runs.folder import RunFolder, SeedFolder
from ...runs.states import read_state
from ..audit import Audit
from ..conductor import Conductor, described
from ..facts import AGREED
from ..keep import busy
from ..seed import Saved, SeedAtServer
from ..terms import Terms
from . import signing
from .address import address
from .layout import Address, permits, write_silo


def add(folder: Path, name: str, source: dict[str, Any] | None = None, allowed: dict[str, bool] | None = None) -> Path:
    """Make the folder of a silo that comes later and let the link know its key; return the folder.

    Args:
        folder: the deployment.
        name: what the silo is called.
        source: where its data are; by default as the experiment's, where that is a path of each silo's own.
        allowed: what its policy permits beyond the experiment itself.
    """
    server, terms, settings = _opened(folder)
    if name in _names(server, terms) or name.startswith("silo-") or not (name.strip() and name.isprintable()):
        raise InputError(f"'{name}' cannot name a new silo: it is empty, taken, or looks like a number; choose another")
    if source is None and ":" not in settings.data.name:
        raise InputError(
            f"say where {name}'s data are, such as data=csv:/srv/oslo.csv: {settings.data.name} is shared out already"
        )
    number, where = terms.silos + terms.added, address(server)
    own = source or {"name": settings.data.name, **settings.data.options}
    classes = next((facts["classes"] for seed in _seeds(server) for facts in _facts(seed) if facts), None)
    passes = settings.join.epochs
    policy = permits(settings, {"seeded_private": terms.seeded_private} | (allowed or {}))
    policy |= {"epochs": max(policy["epochs"], passes), "steps": max(policy["steps"], 10_000 * passes)}
    config = {"client": number, "called": name, "data": {settings.data.name: own | ({"classes": classes} if classes else {})}}
    made = write_silo(folder, number, config, policy, Address(host=where["host"], port=where["port"]))
    _put(server, terms, added=terms.added + 1, names=terms.names | {name: number})
    Audit(server / "audit", signing.own(server)).note("decision", added=number, name=name)
    return made


def remove(folder: Path, name: str) -> dict[str, Any]:
    """Take a silo's key away; return what of it remains, and how to be rid of that."""
    server, terms, _ = _opened(folder)
    number = _number(server, terms, name)
    left = [i for i in terms.numbers if i != number]
    if not left:
        raise InputError(f"{name} is the last silo of this deployment; without it there is none")
    _put(server, terms, removed=[*terms.removed, number], least=min(terms.least, len(left)))
    (server / "keys" / f"silo-{number}.pub").unlink(missing_ok=True)
    Audit(server / "audit", signing.own(server)).note("decision", removed=number, name=name)
    runs = {run.path.name: _part(run, number) for run in RunFolder.inside(server / "runs")}
    inside = {run: rounds for run, rounds in runs.items() if rounds}
    return {"silo": number, "name": name, "left": left, "runs": inside, "remains": _remains(name, inside, folder)}


def retrain(folder: Path, name: str) -> dict[str, Any]:
    """Prepare the experiment without a silo that left, from the last state that was kept from before it came.

    The next start of the deployment runs it, beside the run that the silo had a part in. Private parts begin anew: those of
    the others have learned from a common model that the silo had a part in.
    """
    server, terms, settings = _opened(folder)
    number = _number(server, terms, name)
    if number not in terms.removed:
        raise InputError(f"{name} takes part; `perfed deploy remove {folder} {name}` takes its key away first")
    if busy(server):
        raise RunError(f"'{server}' runs an experiment now; retrain when it is over or stopped")
    former = Conductor(server, _Nowhere()).run
    without = f"-without-silo-{number}"
    new = former.path.name if without in former.path.name else f"{former.path.name}{without}"
    if (server / "runs" / new).exists():
        raise RunError(f"'{server / 'runs' / new}' is there already; `perfed deploy run {server}` goes on with it")
    if not any(number < len(_facts(former.seed(seed))) for seed in settings.seeds):
        raise InputError(f"{name} had no part in '{former.path}': there is nothing to retrain")
    raw = get_yaml(server / "experiment.yaml")
    put_yaml(server / "experiment.yaml", raw | {"name": new})
    run = Conductor(server, _Nowhere()).run
    begins = {seed: _begin(former.seed(seed), run.seed(seed), number, settings, terms, seed) for seed in settings.seeds}
    return {"run": str(run.path), "former": str(former.path), "rounds": begins}


def _begin(former: SeedFolder, new: SeedFolder, gone: int, settings: Experiment, terms: Terms, seed: int) -> int:
    """Write a seed's beginning without a silo; return the round after which it begins."""
    silos = _facts(former)
    came = (silos[gone] or {}).get("since", 0) if gone < len(silos) else 0
    at = max((number for number in former.snapshots if 0 < number <= came), default=0)
    if not at:
        return 0
    members = terms.silos + sum(1 for facts in silos[terms.silos :] if facts and facts.get("since", 0) < at)
    there = [None if i == gone else facts for i, facts in enumerate(silos)]
    put_json(new.silos, there)
    new.put_clients(described(there))
    job = SeedAtServer(settings.but(clients=terms.silos), terms, seed, new, there[:members])
    server = read_state(former.snapshots[at], job.made.server, job.one.store, job.made.template)
    nothing = torch.zeros(members, dtype=torch.int64)
    digests = torch.zeros(members, 32, dtype=torch.uint8)
    new.begin()
    for line in former.lines.read():
        if line["round"] <= at:
            new.lines.append(line)
    new.save(at, Saved(server, nothing, torch.tensor(job.known.sizes), digests), job.one.store)
    return at


class _Nowhere:
    """A carrier for looking at a deployment without a link."""

    def nodes(self) -> dict[int, Any]:
        return {}

    def push(self, asks: Any, seconds: float) -> list[Any]:
        raise RunError("there is no link here")

    def pull(self, messages: Any, wait: float) -> list[Any]:
        return []


def _opened(folder: Path) -> tuple[Path, Terms, Experiment]:
    server = folder / "server"
    if not (server / "server.yaml").is_file():
        raise InputError(f"'{folder}' is no deployment; `perfed deploy init {folder} --silos 3` makes one")
    return server, Terms.load(server / "server.yaml"), parse.load(server / "experiment.yaml", elsewhere=True)


def _put(server: Path, terms: Terms, **changed: Any) -> None:
    put_yaml(server / "server.yaml", get_yaml(server / "server.yaml") | changed)
    Terms.load(server / "server.yaml")


def _seeds(server: Path) -> Iterator[SeedFolder]:
    for run in RunFolder.inside(server / "runs"):
        yield from run.seeds.values()


def _facts(seed: SeedFolder) -> list[dict[str, Any] | None]:
    return list(get_json(seed.silos)) if seed.silos.exists() else []


def _names(server: Path, terms: Terms) -> dict[str, int]:
    """Return every name by which a silo is known, with its number."""
    found = {f"silo-{i}": i for i in range(terms.silos + terms.added)}
    for seed in _seeds(server):
        found |= {str(facts["name"]): i for i, facts in enumerate(_facts(seed)) if facts and facts.keys() >= set(AGREED)}
    return found | terms.names


def _number(server: Path, terms: Terms, name: str) -> int:
    known = _names(server, terms)
    if name not in known:
        raise suggest("silo", name, known)
    return known[name]


def _part(run: RunFolder, number: int) -> list[int]:
    """Return the rounds of a run whose common model holds a silo's answers."""
    lines = [line for seed in run.seeds.values() for line in seed.lines.read()]
    return sorted({line["round"] for line in lines if number in line["participants"] and number not in line.get("absent", ())})


def _remains(name: str, runs: dict[str, list[int]], folder: Path) -> str:
    if not runs:
        return f"nothing of {name} is in a common model: it sent no answer; its key is revoked, its private parts never left it"
    said = "; ".join(f"rounds {rounds[0]} to {rounds[-1]} of {run}" for run, rounds in runs.items())
    return (
        f"{name}'s key is revoked and its private parts never left it; its answers are part of the common model ({said}) and "
        f"cannot be taken out of it: `perfed deploy retrain {folder} {name}` trains without it, from before it came"
    )
