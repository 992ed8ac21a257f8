"""What a silo does with a request: check it against its own policy, load its own data, score, train, answer."""

import hashlib
import json
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
import yaml

from .. import __version__
from .. import settings as setting
from ..build import federation_of, method_of, split_of, task_of
from ..data import Samples
from ..data import load as load_samples
from ..data.text import Vocabulary
from ..errors import InputError, PerfedError, WireError, suggest
from ..evaluate.scores import Score
from ..face import PersonalModel
from ..federation import Federation
from ..partition import Iid
from ..partition import split as make_split
from ..record import fingerprint
from ..settings import Choice, Settings
from ..transport import Private, Site, one_thread
from ..transport.flower import Answer, Ask, Policy, States
from ..transport.flower.messages import pack, unpack
from ..trees import Tree
from ..wire import decode, encode

log = logging.getLogger("perfed.silo")


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where a silo finds the data behind a name: the whole of it, or this client's rows of the experiment's split."""

    source: Choice
    rows: str = "all"  # "all" of it is this silo's; "split": the experiment's split says which
    classes: tuple[str, ...] = ()  # the common list of labels, where this silo has not all of them


@dataclass(frozen=True, kw_only=True)
class Config:
    """A silo's own configuration file."""

    folder: Path
    client: int
    data: Mapping[str, Source]
    policy: Path = Path("policy.yaml")
    state: Path = Path("state")
    device: str = "cpu"
    weights: str | None = None  # a file, where a model starts from weights that the server names

    @staticmethod
    def load(path: Path) -> "Config":
        """Return the configuration in a YAML file; paths in it are relative to its folder."""
        try:
            found = yaml.safe_load(path.read_text(encoding="utf-8"))
        except (OSError, yaml.YAMLError, UnicodeDecodeError) as wrong:
            raise InputError(f"cannot read the silo's configuration '{path}': {wrong}") from wrong
        known = Config.__dataclass_fields__.keys() - {"folder"}
        if not isinstance(found, dict) or not isinstance(found.get("data"), dict) or type(found.get("client")) is not int:
            raise InputError(f"'{path}' needs `client: NUMBER` and `data: {{NAME: SOURCE}}`")
        for name in found:
            if name not in known:
                raise suggest(f"entry in '{path}'", str(name), known)
        folder = path.resolve().parent
        data = {str(name): _source(entry, folder) for name, entry in found.pop("data").items()}
        for name in ("policy", "state"):
            found[name] = folder / str(found.get(name, getattr(Config, name)))
        return Config(folder=folder, data=data, **found)


def _source(entry: Any, folder: Path) -> Source:
    entry = {"name": entry} if isinstance(entry, str) else dict(entry)
    rows, classes = entry.pop("rows", "all"), tuple(entry.pop("classes", ()))
    if rows not in ("all", "split"):
        raise InputError(f"rows must be all (the whole source is this silo's) or split, got '{rows}'")
    scheme, mark, rest = str(entry.get("name")).partition(":")
    if mark:
        entry["name"] = f"{scheme}:{folder / rest}"
    return Source(source=Choice.model_validate(entry), rows=rows, classes=classes)


@dataclass(frozen=True)
class Job:
    """Everything a request needs: the method on this silo's data, and the states it starts from."""

    site: Site
    server: Tree  # the server's first state: the shape of what it sends
    first: Private
    facts: dict[str, Any] = field(default_factory=dict)
    words: tuple[str, ...] = ()  # of the common vocabulary, for texts


class Silo:
    """Answers requests; whatever goes wrong is an answer that says so, and a line in the silo's own log."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self._last: tuple[str, Job] | None = None  # data and network stay loaded between messages

    def answer(self, ask: Ask) -> Answer:
        """Return the answer to a request."""
        plain = Answer(experiment=ask.experiment, client=ask.client, base=ask.base, train=ask.train, score=ask.score)
        try:
            with one_thread():
                return self._answer(ask, plain)
        except PerfedError as refused:
            self._log(ask, str(refused))
            return replace(plain, refused=str(refused))
        except Exception as failed:
            log.exception("a request failed")
            self._log(ask, f"{type(failed).__name__}: {failed}")
            return replace(plain, refused=f"the silo failed: {type(failed).__name__}")  # details stay at home

    def _answer(self, ask: Ask, plain: Answer) -> Answer:
        if ask.client != self.config.client:
            raise InputError(f"this is client {self.config.client}, the message is for client {ask.client}")
        if ask.version != __version__:
            raise InputError(f"the server runs perfed {ask.version}, this silo {__version__}")
        policy, states = Policy.load(self.config.policy), States(self.config.state, ask.experiment)
        with states.locked():
            request = _request(ask)
            again = ask.train is not None and states.answer(ask.train, request) is not None
            if refused := policy.refusal(ask, trained=states.trained - again):
                raise InputError(refused)
            job = self.job(ask, policy, states)
            if ask.verb == "hello":
                return replace(plain, facts=job.facts)
            if ask.verb != "work" or (ask.train is not None and ask.train <= ask.base):
                raise InputError(f"cannot {ask.verb} for round {ask.train} on version {ask.base}")
            return self._work(ask, plain, job, policy, states, request)

    def _work(self, ask: Ask, plain: Answer, job: Job, policy: Policy, states: States, request: str) -> Answer:
        private = self._private(ask, job, states)
        site = job.site
        down = _opened(ask.body, job)
        states.serve(*pack(ask))
        began, spent = time.perf_counter(), {}
        scores: list[Score] = []
        if ask.score is not None and policy.metrics:
            scores = site.score(0, down, private, ask.score, ask.parts)
        spent["test"], began = time.perf_counter() - began, time.perf_counter()
        body, after = b"", None
        if ask.train is not None:
            if (known := states.answer(ask.train, request)) is not None:
                body, after = known[0], known[1].get("after")
                private = states.load(ask.train, job.first, site.withheld)
            else:
                up, private, whole = site.train(0, down, private, ask.train)
                if ask.after and policy.metrics:
                    after = site.after(0, down, whole, private.mine, ask.train).plain()
                body = encode(up, site.withheld)
                states.put(ask.train, private, base=ask.base, request=request, body=body, extra={"after": after})
            states.settle(ask.base)
        spent["train"] = time.perf_counter() - began
        return replace(
            plain,
            facts=job.facts,
            scores=tuple(s.plain() for s in scores),
            after=after,
            digest=fingerprint(private).hex() if ask.seeded else "",
            seconds={k: round(v, 4) for k, v in spent.items()} | {"cpu": round(time.process_time(), 3)},
            body=body,
        )

    def _private(self, ask: Ask, job: Job, states: States) -> Private:
        if ask.base == 0 and not states.versions():
            states.put(0, job.first, base=0, request="", body=b"", extra={})
        return states.load(ask.base, job.first, job.site.withheld)

    def model(self) -> tuple[PersonalModel, Job, Ask]:
        """Return the model that this silo serves after the server's last message, and what it was made of."""
        there = sorted(self.config.state.glob("*/served"), key=lambda path: path.stat().st_mtime)
        if not there:
            raise InputError(f"no model in '{self.config.state}' yet: the server has sent none")
        states = States(self.config.state, there[-1].parent.name)
        with states.locked(), one_thread():
            ask = unpack(Ask, *states.served())
            job = self.job(ask, Policy.load(self.config.policy), states)
            private = states.load(ask.base, job.first, job.site.withheld)
            number = ask.base if ask.score is None else ask.score
            return PersonalModel(job.site, _opened(ask.body, job), private, 0, number), job, ask

    def job(self, ask: Ask, policy: Policy, states: States) -> Job:
        """Return the method on this silo's data; unless seeded, order of visits and private parts are this silo's own."""
        decisive = [vars(self.config), policy, ask.experiment, ask.clients, ask.seed, ask.seeded, ask.settings]
        same = hashlib.sha256(repr(decisive).encode()).hexdigest()
        if self._last is not None and self._last[0] == same:
            return self._last[1]
        settings, samples, source = self._settings(ask)
        vocabulary, own = self._federation(settings, samples, source, ask)
        task = task_of(settings, own, ask.seed, vocabulary)
        method = method_of(settings)
        server, mine = method.init(task, ask.clients)
        if not ask.seeded:
            secret = states.secret()
            own = replace(own, seed=secret)
            _, mine = method.init(task_of(settings, own, secret, vocabulary), ask.clients)
        site, _, _ = Site.of(method, task, own, (*settings.metrics, settings.choose))
        words = () if vocabulary is None else vocabulary.words
        job = Job(site, server, Private(mine, {}), _facts(own, samples, policy, vocabulary), words)
        self._last = (same, job)
        return job

    def _settings(self, ask: Ask) -> tuple[Settings, Samples, Source]:
        """Return the request's settings with everything that names a place replaced by this silo's own."""
        raw = {k: v for k, v in ask.settings.items() if k not in ("split", "out", "name", "device", "transport")}
        asked = setting.build(raw)
        if asked.data.name not in self.config.data:
            raise suggest("data at this silo", asked.data.name, self.config.data)
        source = self.config.data[asked.data.name]
        changed: dict[str, Any] = {"data": source.source, "device": self.config.device}
        if "weights" in asked.model.options:
            if self.config.weights is None:
                raise InputError("the model starts from a file of weights; name this silo's copy with `weights:`")
            path = str(self.config.folder / self.config.weights)
            changed["model"] = asked.model.model_copy(update={"options": asked.model.options | {"weights": path}})
        settings = asked.model_copy(update=changed)
        samples = load_samples(settings.data.name, **settings.data.options)
        return settings, _relabelled(samples, source.classes), source

    def _federation(self, settings: Settings, samples: Samples, source: Source, ask: Ask) -> tuple[Vocabulary | None, Federation]:
        """Return the vocabulary, if any, and this silo as a federation of one that draws as client ``ask.client``."""
        if source.rows == "split":
            split = split_of(settings, samples, ask.seed)
            if split.clients != ask.clients:
                raise InputError(f"the experiment's split has {split.clients} clients, the deployment {ask.clients}")
            whole, vocabulary = federation_of(settings, samples, split, ask.seed)
            at = ask.client
        else:
            if samples.texts is not None:
                raise InputError("texts of one silo alone give a vocabulary of its own; only rows: split has a common one")
            split = make_split(samples, Iid(), 1, ask.seed, settings.validation, settings.test)
            whole, vocabulary = federation_of(settings, samples, split, ask.seed)
            at = 0
        parts = {part: (getattr(whole, part)[at],) for part in ("train", "validation", "test")}
        return vocabulary, replace(
            whole,
            **parts,  # type: ignore[arg-type]
            names=(whole.names[at],),
            numbers=(ask.client,),
        )

    def _log(self, ask: Ask, why: str) -> None:
        log.warning("refused: %s", why)
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "experiment": ask.experiment,
            "client": ask.client,
            "round": ask.train,
            "why": why,
        }
        self.config.state.mkdir(parents=True, exist_ok=True)
        with (self.config.state / "refused.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


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
    ]
    head = json.dumps(decisive, sort_keys=True, default=str).encode()
    return hashlib.sha256(head + hashlib.sha256(ask.body).digest()).hexdigest()


def _opened(body: bytes, job: Job) -> Tree:
    """Return what the server tells, in any form that the method's messages take over a run."""
    wrong: list[WireError] = []
    for like in job.site.method.forms(job.server):
        try:
            return decode(body, like, job.site.withheld)
        except WireError as other:
            wrong.append(other)
    raise wrong[0]


def _facts(own: Federation, samples: Samples, policy: Policy, vocabulary: Vocabulary | None) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "sizes": [len(getattr(own, part)[0]) for part in ("train", "validation", "test")],
        "classes": list(samples.classes),
        "shape": list(own.inputs(own.x[:1], None).shape[1:]),
        "dtype": str(own.inputs(own.x[:1], None).dtype).removeprefix("torch."),
        "words": None if vocabulary is None else len(vocabulary),
        "name": own.names[0],
        "torch": version("torch"),
    }
    if policy.metrics:
        correct, count = own.majority()
        facts |= {"labels": own.counts()[0].tolist(), "majority": [correct[0], count[0]]}
    return facts


def _relabelled(samples: Samples, classes: tuple[str, ...]) -> Samples:
    """Return samples whose labels are positions in the common list ``classes``."""
    if not classes or classes == samples.classes:
        return samples
    for name in samples.classes:
        if name not in classes:
            raise suggest("class in this silo's list", name, classes)
    places = torch.tensor([classes.index(name) for name in samples.classes])
    return replace(samples, y=places[samples.y], classes=classes)
