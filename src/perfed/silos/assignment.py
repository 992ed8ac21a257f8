"""What a request needs at a silo: the method on the silo's own data, and what the silo may say of them."""

import logging
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from typing import Any

import torch

from ..data import Samples
from ..data import load as load_samples
from ..data.columns import ColumnSums
from ..errors import InputError, suggest
from ..evaluate.metrics import MAIN
from ..federation import Federation, guessed
from ..partition import Iid, Split
from ..partition import split as make_split
from ..runs import parse
from ..runs.assemble import assemble, federation_of, split_of
from ..runs.experiment import Experiment
from ..transport import Private, Site
from ..trees import Tree
from . import start
from .columns import columns_of
from .config import DataSource, SiloConfig
from .messages import Ask
from .policy import SitePolicy, steps
from .refusals import Refused
from .states import States
from .sums import coded

log = logging.getLogger("perfed.silo")


@dataclass(frozen=True)
class Assignment:
    """Everything a request needs: the method on this silo's data, and the states it starts from."""

    site: Site
    server: Tree  # the server's first state: the shape of what it sends
    first: Private
    facts: dict[str, Any] = field(default_factory=dict)
    words: tuple[str, ...] = ()  # of the common vocabulary, for texts
    epochs: int = 10  # passes over the data for who joins when the experiment is over


def assign(config: SiloConfig, ask: Ask, policy: SitePolicy, states: States, admitted: bool = False) -> Assignment:
    """Return the method on this silo's data; unless seeded, the order of visits is its own, and so are private parts.

    These begin with the secret that the silos share; a silo that was given none begins with one of its own.
    """
    asked = built(ask.settings)
    if not admitted:
        policy.admit(asked, ask.seeded)
    settings, samples, source = _settings(config, asked)
    own = _federation(settings, samples, source, ask)
    secret = None if ask.seeded else states.secret()
    if secret is not None:
        own = replace(own, seed=secret)
    made = assemble(settings, ask.seed, own, clients=ask.clients)
    if not admitted:
        size = sum(leaf.numel() for leaf in made.site.task.params().values())
        policy.admit_size(size, steps(made.method, len(own.train[0])))
    first, common = made.first, start.seed_of(config.start, ask.experiment) if config.start else secret
    if secret is not None and common is not None:
        first = start.first(made, assemble(settings, common, own, clients=ask.clients))
        if not config.start:
            log.warning("no %s here: private parts begin otherwise than the other silos', which can cost accuracy", start.FILE)
    words = () if own.vocabulary is None else own.vocabulary.words
    features = None if own.columns is None else [[name, "feature"] for name in own.columns[0].names]
    facts = _facts(own, samples, policy) | {"columns": features or columns_of(source)}
    if secret is not None and config.start:
        facts["start"] = start.sign_of(config.start, ask.experiment)
    site = replace(made.site, secret=made.site.privacy.on)  # who knows the seed could take keyed noise off again
    return Assignment(site, made.server, first, facts, words, asked.join.epochs)


def column_sums(config: SiloConfig, ask: Ask, policy: SitePolicy) -> ColumnSums | None:
    """Return the sums over this silo's training rows by which all silos agree on columns, if the policy lets them leave.

    There are none where rows are of a common split, or where a file with decisions is named.
    """
    asked = built(ask.settings)
    policy.admit(asked, ask.seeded)
    settings, samples, source = _settings(config, asked)
    if source.rows == "split" or samples.sheet is None or samples.sheet.given is not None:
        return None
    policy.admit_sums()
    return ColumnSums.of(samples.sheet.take(_own_split(settings, samples, ask).train[0]))


def built(plain: dict[str, Any]) -> Experiment:
    """Return a request's settings, typed, without those that name a place at the server."""
    asked = parse.build({k: v for k, v in plain.items() if k not in ("split", "out", "name", "device", "transport")})
    if asked.own:  # it would be imported here: a silo runs nothing that it is sent
        what = f"{next(iter(asked.own))} is code of somebody's own; a silo takes only what the installed perfed has"
        raise Refused("code", what)
    if asked.attack:
        raise InputError("attack is for simulation; this silo attacks nobody")
    return asked


def _settings(config: SiloConfig, asked: Experiment) -> tuple[Experiment, Samples, DataSource]:
    """Return the request's settings with everything that names a place replaced by this silo's own."""
    if asked.data.name not in config.data:
        raise suggest("data at this silo", asked.data.name, config.data)
    source = config.data[asked.data.name]
    changed: dict[str, Any] = {"data": source.source, "device": config.device}
    if scale := asked.data.options.get("scale"):  # how all scale is part of the experiment
        changed["data"] = source.source.model_copy(update={"options": source.source.options | {"scale": scale}})
    if "weights" in asked.model.options:
        if config.weights is None:
            raise InputError("the model starts from a file of weights; name this silo's copy with `weights:`")
        path = str(config.folder / config.weights)
        changed["model"] = asked.model.model_copy(update={"options": asked.model.options | {"weights": path}})
    settings = asked.but(**changed)
    samples = load_samples(settings.data.name, **settings.data.options)
    wanted = str(asked.data.options.get("task", "classification"))
    if samples.task != wanted:
        raise Refused("data", f"the experiment is for {wanted}, and '{asked.data.name}' is for {samples.task} here")
    return settings, _relabelled(samples, source.classes), source


def _federation(settings: Experiment, samples: Samples, source: DataSource, ask: Ask) -> Federation:
    """Return this silo as a federation of one that draws as client ``ask.client``."""
    if source.rows == "split":
        split = split_of(settings, samples, ask.seed)
        if split.clients != ask.clients:
            raise InputError(f"the experiment's split has {split.clients} clients, the deployment {ask.clients}")
        whole = federation_of(settings, samples, split, ask.seed)
        at = ask.client
    else:
        if samples.texts is not None:
            raise InputError("texts of one silo alone give a vocabulary of its own; only rows: split has a common one")
        if samples.sheet is not None and samples.sheet.given is None:
            if ask.columns is None:
                why = "a table with gaps, words or a scale is coded as all silos agreed: name the file with `columns:`"
                other = "or say data.scale=federated in the experiment and `sums: true` in the policies"
                raise Refused("data", f"{why}, which `perfed data columns` writes, {other}")
            samples = replace(samples, sheet=coded(samples.sheet, ask.columns, samples.sheet.scale))
        split = _own_split(settings, samples, ask)
        whole = federation_of(settings, samples, split, ask.seed)
        at = 0
    parts = {part: (getattr(whole, part)[at],) for part in ("train", "validation", "test")}
    return replace(
        whole,
        **parts,  # type: ignore[arg-type]
        names=(source.called or whole.names[at],),
        columns=None if whole.columns is None else (whole.columns[at],),
        numbers=(ask.client,),
    )


def _own_split(settings: Experiment, samples: Samples, ask: Ask) -> Split:
    """Return which of this silo's rows are for training, validation and test."""
    return make_split(samples, Iid(), 1, ask.seed, settings.validation, settings.test)


def _facts(own: Federation, samples: Samples, policy: SitePolicy) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "sizes": [len(getattr(own, part)[0]) for part in ("train", "validation", "test")],
        "classes": list(samples.classes),
        "task": samples.task,
        "shape": list(own.inputs(own.x[:1], None).shape[1:]),
        "dtype": str(own.inputs(own.x[:1], None).dtype).removeprefix("torch."),
        "words": None if own.vocabulary is None else len(own.vocabulary),
        "name": own.names[0],
        "torch": version("torch"),
    }
    count = len(own.test[0])
    if policy.reports(MAIN.get(own.goal, "accuracy"), count):  # the score of a guess, which others are compared with
        facts |= {"guess": guessed(own)[0]} if own.goal in MAIN else {"majority": [own.majority()[0][0], count]}
    if policy.labels:
        facts["labels"] = own.counts()[0].tolist()
    return facts


def _relabelled(samples: Samples, classes: tuple[str, ...]) -> Samples:
    """Return samples whose labels are positions in the common list ``classes``."""
    if not classes or classes == samples.classes:
        return samples
    if samples.task != "classification":
        raise InputError(f"classes: is a list of classes, and this data is for {samples.task}")
    for name in samples.classes:
        if name not in classes:
            raise suggest("class in this silo's list", name, classes)
    places = torch.tensor([classes.index(name) for name in samples.classes])
    return replace(samples, y=places[samples.y], classes=classes)
