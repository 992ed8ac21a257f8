"""The server's side of a deployment: ask who is there, run the loop, keep a checkpoint after every round."""

import hashlib
import json
import logging
import os
import platform
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .. import __version__
from .. import settings as setting
from ..build import method_of, task_of
from ..errors import InputError, RunError, WireError, suggest
from ..experiment import Run, finish
from ..federation import Federation
from ..files import writing
from ..job import OnRound
from ..record import Lines, fingerprint, get_json, load_state, put_json, put_yaml, save_state
from ..rounds import Protocol, line_of, rounds
from ..settings import Settings
from ..transport import Private, Site, Store
from ..transport.flower import Answer, Ask, Flower, Plan
from ..transport.flower.exchange import Carrier, Exchange, Patience
from ..transport.flower.grid import Known, check
from ..trees import Tree

log = logging.getLogger("perfed.flower")

AGREED = ("classes", "shape", "dtype", "words")  # what the silos' data must have in common


@dataclass(frozen=True, kw_only=True)
class Terms:
    """How a deployment runs: its silos, how long a round may take, and how many answers it needs."""

    silos: int
    deadline: float = 600.0  # seconds until a round closes with whoever answered
    least: int = 1  # answers without which a round cannot close
    poll: float = 0.25
    again: float = 3.0
    seeded_private: bool = False  # private parts from the public seed: comparisons only

    @staticmethod
    def load(path: Path) -> "Terms":
        """Return the terms in a YAML file."""
        found = setting.read_yaml(path)
        for name in found:
            if name not in Terms.__dataclass_fields__:
                raise suggest(f"entry in '{path}'", str(name), Terms.__dataclass_fields__)
        terms: Terms = setting.record(Terms, found, "")
        if terms.silos < 1 or not 1 <= terms.least <= terms.silos or terms.deadline <= 0:
            raise InputError(f"'{path}': silos and least must be at least 1, least at most silos, deadline positive")
        return terms


class Saved(NamedTuple):
    """What a checkpoint holds: the server's state, and which version of every silo's private state goes with it."""

    server: Tree
    versions: Tensor
    sizes: Tensor
    digests: Tensor


class Study:
    """One experiment of a deployment; a new start with the same experiment goes on where the last one was."""

    def __init__(self, folder: Path, carrier: Carrier, on_round: OnRound | None = None) -> None:
        self.settings = setting.load(folder / "experiment.yaml")
        self.terms = Terms.load(folder / "server.yaml")
        self.carrier, self.on_round = carrier, on_round
        self.patience = Patience(deadline=self.terms.deadline, poll=self.terms.poll, again=self.terms.again)
        if self.settings.clients not in (None, self.terms.silos):
            raise InputError(f"the experiment has {self.settings.clients} clients, the deployment {self.terms.silos} silos")
        self.settings = self.settings.model_copy(update={"clients": self.terms.silos})
        method_of(self.settings)  # refused here rather than by every silo
        self.run = self._opened(folder)

    def conduct(self) -> Path:
        """Run what is left of every seed; return the run's folder."""
        for seed in self.settings.seeds:
            if not (self.run / f"seed-{seed}" / "final.json").exists():
                self._seed(seed)
        try:
            finish(Run(self.run, self.settings))
        except InputError as unknown:  # no silo lets its metrics be known
            log.warning("no summary: %s", unknown)
        return self.run

    def _opened(self, folder: Path) -> Path:
        """Return the run's folder, made on the first start."""
        s = self.settings
        mark = hashlib.sha256(f"{s.digest()} {s.seeds}".encode()).hexdigest()[:8]
        run = folder / "runs" / (s.name or f"{s.method.name}-{s.data.name.replace('/', '_').replace(':', '_')}-{mark}")
        if (run / "manifest.json").exists():
            found = get_json(run / "manifest.json")
            if found.get("settings") != s.digest() or found.get("seeds") != list(s.seeds):
                raise RunError(f"'{run}' holds another experiment; give this one another name")
            return run
        with writing(run):
            for seed in s.seeds:
                (run / f"seed-{seed}").mkdir(parents=True, exist_ok=True)
        put_yaml(run / "settings.yaml", s.plain())
        put_json(
            run / "manifest.json",
            {
                "began": datetime.now(UTC).isoformat(timespec="seconds"),
                "experiment": os.urandom(16).hex(),  # names the silos' private states: not to be guessed, never reused
                "settings": s.digest(),
                "seeds": list(s.seeds),
                "versions": {"python": platform.python_version(), "perfed": __version__, "torch": torch.__version__},
                "machine": {"system": platform.platform(), "cores": os.cpu_count()},
                "device": s.device,
                "threads": 1,
                "command": "perfed deploy",
            },
        )
        return run

    def _seed(self, seed: int) -> None:
        folder = self.run / f"seed-{seed}"
        ask = Ask(
            verb="hello",
            experiment=f"{get_json(self.run / 'manifest.json')['experiment']}-{seed}",
            client=0,
            clients=self.terms.silos,
            seed=seed,
            settings=json.loads(json.dumps(self.settings.plain(), default=str)),
            version=__version__,
            seeded=self.terms.seeded_private,
        )
        silos = self._silos(folder, ask)
        job = Seed(self.settings, self.terms, seed, folder, silos)
        job.restore()
        plan = Plan(job.participants, self.settings.rounds, self.settings.after, self.terms.least)
        work = Ask(**{**vars(ask), "verb": "work"})
        transport = Flower(self.carrier, job.site, job.first, job.known, plan, work, self.patience)
        put_json(folder / "transport.json", {"name": transport.name, "why": "asked for"})
        began = perf_counter()
        server = job.train(transport, self.on_round)
        whole, private = job.digest(server)
        put_json(
            folder / "final.json",
            {
                "digest": whole,
                "server": fingerprint(server).hex(),
                "private": private,
                "rounds": self.settings.rounds,
                "seconds": round(perf_counter() - began, 3),
            },
        )

    def _silos(self, folder: Path, ask: Ask) -> list[dict[str, Any] | None]:
        """Return what every silo says it has; asked once, at the start of the experiment."""
        path = folder / "silos.json"
        if path.exists():
            return list(get_json(path))
        agreed: dict[str, Any] = {}

        def accept(asked: Ask, answer: Answer) -> dict[str, Any]:
            check(asked, answer, agreed)
            facts = dict(answer.facts)
            if not (isinstance(facts.get("classes"), list) and isinstance(facts.get("shape"), list)):
                raise WireError("the silo does not say its classes and the shape of its inputs")
            agreed.update({k: facts.get(k) for k in AGREED})
            return facts

        said: list[str] = []

        def refuse(client: int, why: str) -> None:
            said.append(f"; silo {client}: {why}")
            log.warning("client %d takes no part: %s", client, why)
            _note_refusal(folder, client, 0, why)

        asks = {i: Ask(**{**vars(ask), "client": i}) for i in range(self.terms.silos)}
        found = Exchange(self.carrier, asks, accept, self.patience, refuse).run()
        if len(found) < self.terms.least:
            raise RunError(
                f"{len(found)} of {self.terms.silos} silos are there after {self.terms.deadline:g} s, "
                f"at least {self.terms.least} must be{''.join(said[:1])}"
            )
        silos = [found.get(i) for i in range(self.terms.silos)]
        put_json(path, silos)
        put_json(folder / "clients.json", _clients(silos))
        return silos


class Seed:
    """One seed at the server: the method without data, the silos' versions, the record."""

    def __init__(self, settings: Settings, terms: Terms, seed: int, folder: Path, silos: list[dict[str, Any] | None]) -> None:
        self.settings, self.terms, self.seed, self.folder = settings, terms, seed, folder
        facts = next(s for s in silos if s is not None)
        sizes = [s["sizes"][0] if s else 0 for s in silos]
        smallest = min(n for n in sizes if n)
        self.federation = _faraway(facts, [n or smallest for n in sizes], seed)
        self.parts = ("test", "validation") if any(s and s["sizes"][1] for s in silos) else ("test",)
        self.method = method_of(settings)
        task = task_of(settings, self.federation, seed, facts["words"])
        self.method.check(task, self.federation.sizes, settings.sampling.fewest(len(self.federation)))
        self.site, self.server, self.first = Site.of(self.method, task, self.federation, (*settings.metrics, settings.choose))
        agreed = {k: facts[k] for k in AGREED}
        self.known = Known([0] * terms.silos, [""] * terms.silos, sizes, agreed)
        self.lines, self.start = Lines(folder / "rounds.jsonl"), 0

    def participants(self, number: int) -> list[int]:
        return self.settings.sampling.participants(self.seed, number, len(self.federation))

    def restore(self) -> None:
        """Go back to the last checkpoint, or to the start where there is none."""
        if not (self.folder / "checkpoint.json").exists():
            self.lines.path.unlink(missing_ok=True)
            return
        nothing = Private((), {})
        like = self._saved(self.server)
        self.start, found = load_state(self.folder, like, Store(nothing, 0), nothing)
        self.server = found.server
        self.known.versions, self.known.sizes = found.versions.tolist(), found.sizes.tolist()
        digests = [bytes(row.tolist()).hex() for row in found.digests]
        self.known.digests = [d if d.strip("0") else "" for d in digests]
        self.lines.cut(self.start)

    def train(self, transport: Flower, on_round: OnRound | None) -> Tree:
        """Run the rounds that are left; line and checkpoint are on disk before the next round is asked for."""
        s, server, began = self.settings, self.server, perf_counter()
        loop = rounds(
            self.method,
            server,
            transport,
            s.sampling,
            Protocol(s.every, s.after, self.parts),
            seed=self.seed,
            clients=len(self.federation),
            count=s.rounds,
            first=self.start,
        )
        for done in loop:
            server = done.server
            line = line_of(done, perf_counter() - began, len(self.federation))
            if done.number:
                line["absent"] = transport.absent
            line["seconds_silos"] = {str(i): spent for i, spent in transport.seconds.items()}
            self.lines.append(line)
            for client, why in transport.refused:
                _note_refusal(self.folder, client, done.number, why)
            transport.refused.clear()
            if done.number:
                self.lines.sync()
                save_state(self.folder, done.number, self._saved(server), Store(Private((), {}), 0))
            if on_round:
                on_round(self.seed, done)
            began = perf_counter()
        return server

    def _saved(self, server: Tree) -> Saved:
        digests = [list(bytes.fromhex(d or "00" * 32)) for d in self.known.digests]
        return Saved(
            server,
            torch.tensor(self.known.versions),
            torch.tensor(self.known.sizes),
            torch.tensor(digests, dtype=torch.uint8),
        )

    def digest(self, server: Tree) -> tuple[str, list[str] | None]:
        """Return the digest of the server's state, with every private one where the silos let it be known."""
        whole = hashlib.sha256(fingerprint(server))
        if not all(self.known.digests):
            return whole.hexdigest(), None
        for private in self.known.digests:
            whole.update(bytes.fromhex(private))
        return whole.hexdigest(), list(self.known.digests)


def _faraway(facts: dict[str, Any], sizes: list[int], seed: int) -> Federation:
    """Return a federation whose samples are elsewhere: only shapes and sizes are right."""
    kind = getattr(torch, str(facts["dtype"]))
    if not isinstance(kind, torch.dtype):
        raise InputError(f"the silos' inputs have an unknown type {facts['dtype']!r}")
    x = torch.zeros(2, *facts["shape"], dtype=kind)
    rows = tuple(torch.zeros((), dtype=torch.int64).expand(n) for n in sizes)
    none = tuple(torch.zeros(0, dtype=torch.int64) for _ in sizes)
    return Federation(
        x,
        torch.zeros(2, dtype=torch.int64),
        rows,
        none,
        none,
        inputs=lambda x, key: x,
        classes=len(facts["classes"]),
        names=tuple(f"silo {i}" for i in range(len(sizes))),
        seed=seed,
    )


def _clients(silos: list[dict[str, Any] | None]) -> dict[str, Any]:
    """Return who the clients are, as far as they let it be known."""
    classes = next(s["classes"] for s in silos if s)
    sizes = [s["sizes"] if s else [0, 0, 0] for s in silos]
    rows = [(s or {}).get("majority") or [0, 0] for s in silos]
    return {
        "names": [str(s["name"]) if s else f"silo {i}" for i, s in enumerate(silos)],
        **{part: [own[k] for own in sizes] for k, part in enumerate(("train", "validation", "test"))},
        "labels": [(s or {}).get("labels") or [0] * len(classes) for s in silos],
        "classes": classes,
        "majority": {"correct": [r[0] for r in rows], "count": [r[1] for r in rows]},
    }


def _note_refusal(folder: Path, client: int, number: int, why: str) -> None:
    line = {"time": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "round": number, "client": client, "why": why}
    with (folder / "refused.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
