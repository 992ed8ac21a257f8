"""What a silo does with a request: check it against its own policy, score, train, answer."""

import hashlib
import json
import logging
import time
from dataclasses import replace
from typing import Any

from .. import __version__, chain
from ..errors import InputError, PerfedError
from ..evaluate.scores import Score
from ..runs.states import fingerprint
from ..serving.personal import PersonalModel
from ..transport import Private, one_thread
from ..wire import encode
from . import keep, sums
from .assignment import Assignment, assign, column_sums
from .audit import Audit, sized, told
from .config import SiloConfig
from .messages import Ask, SiloAnswer, pack, unpack
from .newcomer import newcomer, opened
from .policy import SitePolicy
from .refusals import Refused, code_of
from .spent import Account, cost_of
from .states import States

log = logging.getLogger("perfed.silo")


class Silo:
    """Answers requests; whatever goes wrong is an answer that says so, and a line in the silo's own log."""

    def __init__(self, config: SiloConfig, audit: Audit | None = None) -> None:
        self.config, self.audit = config, audit
        self._given = 0.0  # ε of all uploads so far, once one was made
        self._last: tuple[str, Assignment] | None = None  # data and network stay loaded between messages

    def answer(self, ask: Ask) -> SiloAnswer:
        """Return the answer to a request."""
        plain = SiloAnswer(experiment=ask.experiment, client=ask.client, base=ask.base, train=ask.train, score=ask.score)
        try:
            self._told("ask", **told(ask))
            with one_thread():
                found = self._answer(ask, plain)
            given = {"epsilon": self._given} if ask.train is not None and self._given else {}
            self._told("answer", train=ask.train, score=ask.score, scored=len(found.scores), **given, **sized(found.body))
            return found
        except PerfedError as refused:
            self._log(ask, str(refused), code_of(refused))
            return replace(plain, refused=code_of(refused))
        except Exception as failed:
            log.exception("a request failed")
            self._log(ask, f"{type(failed).__name__}: {failed}", code_of(failed))
            return replace(plain, refused=code_of(failed))

    def _answer(self, ask: Ask, plain: SiloAnswer) -> SiloAnswer:
        if ask.client != self.config.client:
            raise Refused("client", f"this is client {self.config.client}, the message is for client {ask.client}")
        if ask.version != __version__:
            raise Refused("version", f"the server runs perfed {ask.version}, this silo {__version__}")
        policy, states = SitePolicy.load(self.config.policy), States(self.config.state, ask.experiment)
        with states.locked():
            request = _request(ask)
            if ask.train is not None and states.answer(ask.train, request) is None:
                policy.admit_training(ask.train, states.trained, states.today)
            if ask.verb == "columns":
                body = sums.pack(column_sums(self.config, ask, policy))
                self._told("decision", allowed=True, policy=chain.seal(vars(policy)))
                return replace(plain, body=body)
            job = self._assigned(ask, policy, states)
            self._told("decision", allowed=True, policy=chain.seal(vars(policy)))
            if ask.verb == "hello":
                return replace(plain, facts=job.facts)
            if ask.verb == "join":
                return replace(plain, facts=job.facts, scores=tuple(newcomer(ask, job, policy, states, request)))
            if ask.verb != "work" or (ask.train is not None and ask.train <= ask.base):
                raise InputError(f"cannot {ask.verb} for round {ask.train} on version {ask.base}")
            return self._work(ask, plain, job, policy, states, request)

    def _work(self, ask: Ask, plain: SiloAnswer, job: Assignment, policy: SitePolicy, states: States, request: str) -> SiloAnswer:
        private = self._private(ask, job, states)
        site = job.site
        down = opened(ask.body, job)
        states.serve(*pack(ask))
        began, spent = time.perf_counter(), {}
        scores: list[Score] = []
        if ask.score is not None and policy.scores:
            scores = site.score(0, down, private, ask.score, ask.parts)
        spent["test"], began = time.perf_counter() - began, time.perf_counter()
        body, after = b"", None
        if ask.train is not None:
            if (known := states.answer(ask.train, request)) is not None:
                body, after = known[0], known[1].get("after")
                private = states.load(ask.train, job.first, site.withheld)
            else:
                account, cost = Account(self.config.state), cost_of(site)
                account.admit(policy, cost)
                up, private, whole = site.train(0, down, private, ask.train)
                if ask.after and policy.scores:
                    (after,) = policy.reported([site.after(0, down, whole, private.mine, ask.train)])
                body = encode(up, site.withheld)
                self._given = account.add(policy, request, cost)
                states.put(ask.train, private, base=ask.base, request=request, body=body, extra={"after": after})
            states.settle(ask.base)
        spent["train"] = time.perf_counter() - began
        return replace(
            plain,
            facts=job.facts,
            scores=policy.reported(scores),
            after=after,
            digest=fingerprint(private).hex() if ask.seeded else "",
            seconds={k: round(v, 4) for k, v in spent.items()} | {"cpu": round(time.process_time(), 3)},
            body=body,
        )

    def _private(self, ask: Ask, job: Assignment, states: States) -> Private:
        if ask.base == 0 and not states.versions():
            states.put(0, job.first, base=0, request="", body=b"", extra={})
        return states.load(ask.base, job.first, job.site.withheld)

    def experiments(self) -> list[str]:
        """Return the experiments that the server has sent a model for, the latest last."""
        there = sorted(self.config.state.glob("*/served"), key=lambda path: path.stat().st_mtime)
        return [path.parent.name for path in there]

    def served(self, experiment: str) -> Ask:
        """Return the server's last message of an experiment."""
        return unpack(Ask, *States(self.config.state, experiment).served())

    def model(self, experiment: str | None = None) -> tuple[PersonalModel, Assignment, Ask]:
        """Return the model that this silo serves after the server's last message, or an experiment's; and what it was made of."""
        there = self.experiments()
        if not there:
            raise InputError(f"no model in '{self.config.state}' yet: the server has sent none")
        found = [name for name in there if name.startswith(experiment or there[-1])]
        if len(found) != 1:
            raise InputError(f"{len(found)} experiments here begin with '{experiment}'; there are {', '.join(there)}")
        states = States(self.config.state, found[0])
        with states.locked(), one_thread():
            ask = unpack(Ask, *states.served())
            job = assign(self.config, ask, SitePolicy.load(self.config.policy), states, admitted=True)
            private = states.load(ask.base, job.first, job.site.withheld)
            number = ask.base if ask.score is None else ask.score
            return PersonalModel(job.site, opened(ask.body, job), private, 0, number), job, ask

    def _assigned(self, ask: Ask, policy: SitePolicy, states: States) -> Assignment:
        decisive = [vars(self.config), policy, ask.experiment, ask.clients, ask.seed, ask.seeded, ask.settings, ask.columns]
        same = hashlib.sha256(repr(decisive).encode()).hexdigest()
        if self._last is None or self._last[0] != same:
            self._last = (same, assign(self.config, ask, policy, states))
        return self._last[1]

    def _told(self, what: str, **said: Any) -> None:
        """Write a record of the audit log; without it nothing is done."""
        try:
            if self.audit is not None:
                self.audit.note(what, **said)
        except PerfedError as broken:
            raise Refused("log", str(broken)) from broken

    def _log(self, ask: Ask, why: str, code: str) -> None:
        log.warning("refused: %s", why)
        try:
            self._told("refusal", train=ask.train, score=ask.score, code=code, why=why)
        except Refused as broken:
            log.error("the audit log cannot be written: %s", broken)
        keep.note(self.config.state / "refused.jsonl", experiment=ask.experiment, client=ask.client, round=ask.train, why=why)


def _request(ask: Ask) -> str:
    """Return what makes two trainings the same one."""
    decisive = [
        ask.experiment,
        ask.client,
        ask.clients,
        ask.seed,
        ask.seeded,
        ask.base,
        ask.train,
        ask.after,
        ask.settings,
        *([ask.columns] if ask.columns is not None else []),
    ]
    head = json.dumps(decisive, sort_keys=True, default=str).encode()
    return hashlib.sha256(head + hashlib.sha256(ask.body).digest()).hexdigest()
