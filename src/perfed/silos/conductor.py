"""The server's side of a deployment: ask who is there, run the loop, keep a checkpoint after every round."""

import hashlib
import json
import logging
import os
import platform
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from .. import __version__
from .. import settings as setting
from ..build import method_of
from ..errors import InputError, RunError
from ..experiment import Run, finish
from ..files import writing
from ..job import OnRound
from ..record import fingerprint, get_json, put_json, put_yaml
from . import keep
from .exchange import Carrier, Exchange, Patience
from .facts import agreed, checked
from .messages import Ask, SiloAnswer
from .remote import Ahead, Remote, check
from .seed import SeedAtServer
from .terms import Terms

log = logging.getLogger("perfed.silos")


class Conductor:
    """One experiment of a deployment; a new start with the same experiment goes on where the last one was."""

    def __init__(self, folder: Path, carrier: Carrier, on_round: OnRound | None = None) -> None:
        self.settings = setting.load(folder / "experiment.yaml")
        self.terms = Terms.load(folder / "server.yaml")
        self.carrier, self.on_round = carrier, on_round
        self.patience = Patience(deadline=self.terms.deadline, poll=self.terms.poll, again=self.terms.again, gone=self.terms.gone)
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
        job = SeedAtServer(self.settings, self.terms, seed, folder, silos)
        job.restore()
        ahead = Ahead(job.participants, self.settings.rounds, self.settings.after, self.terms.least)
        work = Ask(**{**vars(ask), "verb": "work"})
        transport = Remote(self.carrier, job.site, job.first, job.known, ahead, work, self.patience)
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

        def accept(asked: Ask, answer: SiloAnswer) -> dict[str, Any]:
            check(asked, answer, {})
            return checked(answer.facts)

        said: list[str] = []

        def refuse(client: int, why: str) -> None:
            said.append(f"; silo {client}: {why}")
            log.warning("client %d takes no part: %s", client, why)
            keep.note(folder / "refused.jsonl", round=0, client=client, why=why)

        patient = replace(self.patience, gone=self.patience.deadline)  # for the first time everybody is waited for
        asks = {i: Ask(**{**vars(ask), "client": i}) for i in range(self.terms.silos)}
        found = agreed(Exchange(self.carrier, asks, accept, patient, refuse).run(), refuse)
        if len(found) < self.terms.least:
            raise RunError(
                f"{len(found)} of {self.terms.silos} silos are there after {self.terms.deadline:g} s, "
                f"at least {self.terms.least} must be{''.join(said[:1])}"
            )
        silos = [found.get(i) for i in range(self.terms.silos)]
        put_json(path, silos)
        put_json(folder / "clients.json", _clients(silos))
        return silos


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
