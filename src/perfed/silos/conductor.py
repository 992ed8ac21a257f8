"""The server's side of a deployment: ask who is there, run the loop, keep a checkpoint after every round."""

import hashlib
import json
import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any

from .. import __version__, machine
from ..data.columns import ColumnSums
from ..disk import get_json, put_json
from ..errors import InputError, RunError
from ..evaluate.metrics import MAIN
from ..runs import parse
from ..runs.assemble import method_of
from ..runs.folder import RunFolder, SeedFolder
from ..runs.run import sum_up
from ..runs.seed import OnRound, Stop
from ..runs.states import fingerprint
from . import keep, sums
from .arrivals import Arrivals, Silos, closed, waiting
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
        self.settings = parse.load(folder / "experiment.yaml", elsewhere=True)
        self.folder, self.terms = folder, Terms.load(folder / "server.yaml")
        if self.settings.unseen:
            raise InputError("unseen keeps clients of one machine out of training; a silo comes later by `perfed deploy add`")
        if self.settings.attack:
            raise InputError("attack is for simulation: no silo is asked to attack another; leave it out of experiment.yaml")
        self.carrier, self.on_round = carrier, on_round
        self.patience = Patience(deadline=self.terms.deadline, poll=self.terms.poll, again=self.terms.again, gone=self.terms.gone)
        if self.settings.clients not in (None, self.terms.silos):
            raise InputError(f"the experiment has {self.settings.clients} clients, the deployment {self.terms.silos} silos")
        self.settings = self.settings.but(clients=self.terms.silos)
        method_of(self.settings)  # refused here rather than by every silo
        self.run = self._opened(folder)

    def conduct(self) -> Path:
        """Run what is left of every seed; return the run's folder."""
        for seed in self.settings.seeds:
            if self.terms.later or not self.run.seed(seed).finished():
                self._seed(seed)
        try:
            sum_up(self.run)
        except InputError as unknown:  # no silo lets its metrics be known
            log.warning("no summary: %s", unknown)
        return self.run.path

    def _opened(self, folder: Path) -> RunFolder:
        """Return the run's folder, made on the first start."""
        s = self.settings
        mark = hashlib.sha256(f"{s.digest()} {s.seeds}".encode()).hexdigest()[:8]
        run = RunFolder(folder / "runs" / (s.name or f"{s.method.stem}-{s.data.stem}-{mark}"))
        if run.complete:
            found = run.manifest
            if found.get("settings") != s.digest() or found.get("seeds") != list(s.seeds):
                raise RunError(f"'{run.path}' holds another experiment; give this one another name")
            return run
        for seed in s.seeds:
            run.add_seed(seed)
        run.put_experiment(s)
        run.put_manifest(
            {
                "began": datetime.now(UTC).isoformat(timespec="seconds"),
                "experiment": os.urandom(16).hex(),  # names the silos' private states: not to be guessed, never reused
                "settings": s.digest(),
                "seeds": list(s.seeds),
                **machine.facts(),
                "device": s.device,
                "command": "perfed deploy",
            },
        )
        return run

    def _seed(self, seed: int) -> None:
        folder = self.run.seed(seed)
        ask = Ask(
            verb="hello",
            experiment=f"{self.run.manifest['experiment']}-{seed}",
            client=0,
            clients=self.terms.silos,
            seed=seed,
            settings=json.loads(json.dumps(self.settings.plain(), default=str)),
            version=__version__,
            seeded=self.terms.seeded_private,
        )
        ask = replace(ask, columns=self._columns(folder, ask))
        silos, arrivals, began = (
            self._silos(folder, ask),
            Arrivals(self.carrier, self.patience, folder, ask, self.terms.samples),
            perf_counter(),
        )
        while True:
            silos = silos if folder.finished() else self._let_in(arrivals, seed, silos)
            job = SeedAtServer(self.settings, self.terms, seed, folder, silos)
            job.restore()
            if not folder.finished():
                self._rounds(job, replace(ask, verb="work"), lambda lines: self._news(arrivals, silos, lines))  # noqa: B023
            if job.one.stopped is None:
                break
            log.warning("%s", job.one.stopped["why"])
            self.terms = Terms.load(self.folder / "server.yaml")
        if not folder.finished():
            self._finish(folder, job, perf_counter() - began)
        arrivals.out.clear()
        arrivals.welcome(waiting(self.terms.later, silos), job.made, job.one.server, job.known.facts)

    def _rounds(self, job: SeedAtServer, ask: Ask, stop: Stop) -> None:
        """Run the rounds that are left, or until somebody comes or leaves."""
        ahead = Ahead(job.participants, self.settings.rounds, self.settings.after, self.terms.least, self.terms.removed)
        transport = Remote(self.carrier, job.made.site, job.made.first, job.known, ahead, ask, self.patience)
        job.folder.put_transport({"name": transport.name, "why": "asked for"})
        job.train(transport, self.on_round, stop)

    def _news(self, arrivals: Arrivals, silos: Silos, lines: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
        """Return why the rounds must be taken up anew: a silo has left, or one that came later is there."""
        if lines and lines[-1]["round"] >= self.settings.rounds:
            return None
        now = Terms.load(self.folder / "server.yaml")
        if now.removed != self.terms.removed:
            return {"why": f"silo {sorted(set(now.removed) ^ set(self.terms.removed))[0]} left"}
        new = arrivals.there(waiting(now.later, silos))
        return {"why": f"silo {new[0]} is there and asks to come in"} if new else None

    def _let_in(self, arrivals: Arrivals, seed: int, silos: Silos) -> Silos:
        """Return the silos with those who came later, are there, and may come in; they take part from the next round."""
        new = arrivals.there(waiting(self.terms.later, silos))
        if not new:
            return silos
        if why := closed(SeedAtServer(self.settings, self.terms, seed, arrivals.folder, silos).made):
            for i in new:
                arrivals.refuse(i, why)
            return silos
        grown = arrivals.let_in(new, silos)
        if grown != silos:
            put_json(arrivals.folder.silos, grown)
            arrivals.folder.put_clients(described(grown))
        return grown

    def _finish(self, folder: SeedFolder, job: SeedAtServer, seconds: float) -> None:
        server = job.one.server
        whole, private = job.digest(server)
        folder.put_final(
            {
                "digest": whole,
                "server": fingerprint(server).hex(),
                "private": private,
                "rounds": self.settings.rounds,
                "seconds": round(seconds, 3),
            },
        )

    def _silos(self, folder: SeedFolder, ask: Ask) -> Silos:
        """Return what every silo says it has; asked once, at the start of the experiment."""
        path = folder.silos
        if path.exists():
            return [silo and {"task": "classification"} | silo for silo in get_json(path)]  # which older ones did not say

        def accept(asked: Ask, answer: SiloAnswer) -> dict[str, Any]:
            check(asked, answer, {})
            return checked(answer.facts, self.terms.samples)

        said: list[str] = []
        refuse = self._refusing(folder, said)
        found = agreed(self._asked(ask, accept, refuse), refuse)
        self._enough(len(found), said)
        silos = [found.get(i) for i in range(self.terms.silos)]
        put_json(path, silos)
        folder.put_clients(described(silos))
        return silos

    def _columns(self, folder: SeedFolder, ask: Ask) -> list[dict[str, Any]] | None:
        """Return how rows of the silos' tables are coded, where they agree on it by sums; asked once, before all else."""
        scale = self.settings.data.options.get("scale")
        if scale not in sums.AGREEING:
            return None
        known = folder.columns()
        if known is None and not folder.silos.exists():

            def accept(asked: Ask, answer: SiloAnswer) -> ColumnSums | None:
                check(asked, answer, {})
                return sums.unpack(answer.body)

            said: list[str] = []
            refuse = self._refusing(folder, said)
            found = self._asked(replace(ask, verb="columns"), accept, refuse)
            decided = sums.decided(found, scale, refuse)
            self._enough(len(found), said)
            if decided is not None:
                folder.keep_columns(known := (decided,) * self.terms.silos)
        return None if known is None else known[0].as_json()

    def _asked(self, ask: Ask, accept: Callable[[Ask, SiloAnswer], Any], refuse: Callable[[int, str], None]) -> dict[int, Any]:
        """Return what the silos answer to the first question; everybody is waited for."""
        patient = replace(self.patience, gone=self.patience.deadline)
        asks = {i: replace(ask, client=i) for i in range(self.terms.silos) if i not in self.terms.removed}
        return Exchange(self.carrier, asks, accept, patient, refuse).run()

    def _refusing(self, folder: SeedFolder, said: list[str]) -> Callable[[int, str], None]:
        def refuse(client: int, why: str) -> None:
            said.append(f"; silo {client}: {why}")
            log.warning("client %d takes no part: %s", client, why)
            keep.note(folder.refusals, round=0, client=client, why=why)

        return refuse

    def _enough(self, there: int, said: list[str]) -> None:
        if there < self.terms.least:
            raise RunError(
                f"{there} of {self.terms.silos} silos are there after {self.terms.deadline:g} s, "
                f"at least {self.terms.least} must be{''.join(said[:1])}"
            )


def described(silos: list[dict[str, Any] | None]) -> dict[str, Any]:
    """Return who the clients are, as far as they let it be known."""
    classes, task = next((s["classes"], s["task"]) for s in silos if s)
    sizes = [s["sizes"] if s else [0, 0, 0] for s in silos]
    if task in MAIN:
        told = [(s or {}).get("guess") for s in silos]
        guess = {"count": [own[2] if score is not None else 0 for own, score in zip(sizes, told, strict=True)], MAIN[task]: told}
    else:
        rows = [(s or {}).get("majority") or [0, 0] for s in silos]
        guess = {"correct": [r[0] for r in rows], "count": [r[1] for r in rows]}
    return {
        "names": [str(s["name"]) if s else f"silo {i}" for i, s in enumerate(silos)],
        **{part: [own[k] for own in sizes] for k, part in enumerate(("train", "validation", "test"))},
        "labels": [(s or {}).get("labels") or [0] * len(classes) for s in silos],
        "classes": classes,
        "majority": guess,
    }
