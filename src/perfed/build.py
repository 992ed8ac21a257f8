"""From settings to what they name: the method, the data, who has what, the network."""

from dataclasses import fields, replace
from typing import Any

import torch

from . import keys, methods, models
from . import settings as setting
from .data import Samples
from .data import load as load_samples
from .data.inputs import inputs_for
from .data.text import Vocabulary, tokenised
from .errors import InputError
from .federation import Federation
from .method import Method
from .partition import Split
from .partition import build as build_partition
from .partition import split as make_split
from .settings import Settings
from .task import Task


def method_of(settings: Settings) -> Method[Any, Any, Any, Any]:
    """Return the method that the settings name, its fields checked; a schedule's length is the experiment's."""
    kind = methods.find(settings.method.name)
    options = kind.renamed(settings.method.options)
    for taken in ("budget", "norm"):
        if taken in options:
            raise InputError(
                f"method.{taken} is set as {taken}{'.…' if taken == 'budget' else ''}: it is the same for all methods"
            )
    if stretched(settings):
        options["rounds"] = settings.rounds
    if settings.norm is not None:
        options["norm"] = settings.norm
    made: Method[Any, Any, Any, Any] = setting.record(kind, options, "method.")
    return replace(made, budget=settings.budget)


def stretched(settings: Settings) -> bool:
    """Return whether the method takes the length of its schedule from the experiment."""
    kind = methods.find(settings.method.name)
    return "rounds" in {f.name for f in fields(kind)} and "rounds" not in settings.method.options


def samples_of(settings: Settings) -> Samples:
    """Return the data set that the settings name."""
    return load_samples(settings.data.name, **settings.data.options)


def split_of(settings: Settings, samples: Samples, seed: int) -> Split:
    """Return who owns what: the given file, or a fresh split."""
    if settings.split is not None:
        return Split.load(settings.split, samples.digest())
    partition = build_partition(settings.partition.name, **settings.partition.options)
    grouped = settings.partition.name in ("domains", "natural")
    clients = settings.clients if settings.clients is not None or grouped else 20
    owner = seed if settings.split_seed is None else settings.split_seed
    return make_split(samples, partition, clients, owner, settings.validation, settings.test)


def federation_of(settings: Settings, samples: Samples, split: Split, seed: int) -> tuple[Federation, Vocabulary | None]:
    """Return the clients' data ready for training, and the vocabulary of their training texts where there are any."""
    vocabulary = None
    if samples.texts is not None:
        rows = sorted({int(row) for own in split.train for row in own})
        samples, vocabulary = tokenised(samples, rows, **settings.text)
    inputs = inputs_for(samples, augment=settings.augment, **settings.inputs)
    made = Federation.of(samples, split, inputs, seed=seed, augment=settings.augment)
    return made.to(settings.device), vocabulary


def task_of(settings: Settings, federation: Federation, seed: int, vocabulary: Vocabulary | int | None = None) -> Task:
    """Return the network that all clients start from, drawn from the seed."""
    example = federation.inputs(federation.x[:2], None)
    shape = tuple(example.shape[1:])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(keys.seed_of(keys.key(seed, "network")))
        net = models.build(
            settings.model.name,
            shape=shape,
            classes=federation.classes,
            vocabulary=vocabulary,
            **settings.model.options,
        )
    return Task.of(
        net, shape, federation.classes, seed=seed, device=settings.device, example=example, precision=settings.precision
    )
