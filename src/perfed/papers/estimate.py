"""How long an experiment takes on this machine, from one timed step of its network, and how much disk its states fill."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from .. import methods, models, trees
from ..data.catalogue import CATALOGUE
from ..data.facts import facts
from ..data.inputs import channels_last
from ..machine import cores
from ..runs.assemble import method_of
from ..runs.experiment import Experiment
from ..runs.parse import build
from ..task import Task
from . import listing, load
from .paper import nested
from .stand_in import here, sizes

STEP = 10  # samples of a timed step at most; more only cost time in proportion
REPEATS = 2  # the fastest counts: whatever else the machine does only adds
SIZES = (64, 112)  # pixels at which networks for larger pictures are timed
WORDS = 30_000  # of a vocabulary; its size hardly matters for the time of a step


def seconds(settings: Experiment) -> float:
    """Return the seconds of one seed on one core."""
    entry = CATALOGUE.get(settings.data.name)
    if entry is None:
        return float("nan")
    options = {key: value for key, value in settings.model.options.items() if key not in ("projector", "weights")}
    batch = min(STEP, settings.budget.batch_size)
    train, test = per_sample(settings.model.name, tuple(sorted(options.items())), shape_of(settings), entry.classes, batch)
    fitted, tested = samples(settings)
    passes = methods.find(settings.method.name).cost * settings.budget.epochs * settings.sampling.ratio
    return settings.rounds * (fitted * passes * train + tested * test * (2 if settings.after else 1) / settings.every)


def room(settings: Experiment) -> float:
    """Return the bytes of the states that one seed leaves on disk: the last one, and those kept for analyses."""
    entry = CATALOGUE.get(settings.data.name)
    if entry is None:
        return float("nan")
    options = {key: value for key, value in settings.model.options.items() if key != "weights"}
    bare = task_of(settings.model.name, tuple(sorted(options.items())), shape_of(settings), entry.classes)
    task, method = replace(bare, parts={}), method_of(settings)
    clients = clients_of(settings)
    (two, mine), (three, _) = (method.init(task, count) for count in (2, 3))
    more = trees.memory(three) - trees.memory(two)  # some servers keep something of every client
    server = trees.memory(two) + (clients - 2) * more
    own = task.params() | {name: leaf for part in task.parts.values() for name, leaf in part.start.items()}
    private = trees.memory(mine) + trees.memory({name: own[name] for name in task.withheld(method.norm)})
    last = server + clients * private
    if not settings.snapshots:
        return last
    return last + server + settings.rounds // settings.snapshots * last  # at the start no client has any


@cache
def task_of(model: str, options: tuple[tuple[str, Any], ...], shape: tuple[int, ...], classes: int) -> Task:
    """Return the task of a network, without its data."""
    net = network(model, dict(options), shape, classes)
    return Task.of(net, shape, max(2, classes), example=noise(model, 2, shape))


def shape_of(settings: Experiment) -> tuple[int, ...]:
    """Return the shape of an input, whether its data is here or not."""
    return facts(settings.data.name, settings.data.options).shape


def clients_of(settings: Experiment) -> int:
    """Return how many clients take part."""
    return settings.clients or len(CATALOGUE[settings.data.name].groups) or 20


def samples(settings: Experiment) -> tuple[float, float]:
    """Return how many samples all clients together train on and are tested on in a round."""
    entry = CATALOGUE[settings.data.name]
    train, test = sizes(entry)
    part = settings.data.options.get("fraction", 1.0)
    clients = clients_of(settings)
    options = settings.partition.options
    if settings.partition.name.startswith("client_"):
        return clients * options.get("train_size", 500), clients * options.get("test_size", 100)
    if settings.partition.name == "domains":
        asked = clients * (options.get("samples") or 500)
        if not train:  # where the catalogue states no size, about as many are tested as trained on
            return asked * part, asked * part
        return min(train * part, asked), (test or settings.test * train) * part
    pool = train if options.get("pool") == "train" else train + test
    share = clients / options["subset_of"] if options.get("subset_of") else 1.0
    return pool * part * share * (1 - settings.test - settings.validation), pool * part * share * settings.test


def per_sample(
    model: str, options: tuple[tuple[str, Any], ...], shape: tuple[int, ...], classes: int, batch: int
) -> tuple[float, float]:
    """Return the seconds that one sample takes in training and in testing; large pictures from two smaller sizes."""
    if len(shape) != 3 or shape[1] <= SIZES[1] or shape[1] != shape[2]:
        return step(model, options, shape, classes, batch)
    small, large = (step(model, options, (shape[0], side, side), classes, min(batch, 4)) for side in SIZES)
    further = (shape[1] ** 2 - SIZES[0] ** 2) / (SIZES[1] ** 2 - SIZES[0] ** 2)  # time grows with the area
    train, test = (max(b, a + further * (b - a)) for a, b in zip(small, large, strict=True))
    return train, test


def network(model: str, options: dict[str, Any], shape: tuple[int, ...], classes: int) -> nn.Module:
    """Return a network as an experiment has it, from random weights."""
    vocabulary = WORDS if model == "fasttext" else None
    return models.build(model, shape=shape, classes=max(2, classes), vocabulary=vocabulary, seed=0, **options)


def noise(model: str, count: int, shape: tuple[int, ...]) -> Tensor:
    """Return inputs of the right kind."""
    return torch.ones(count, *shape, dtype=torch.int64) if model == "fasttext" else torch.rand(count, *shape)


@cache
def step(
    model: str, options: tuple[tuple[str, Any], ...], shape: tuple[int, ...], classes: int, batch: int
) -> tuple[float, float]:
    """Return the seconds that one sample takes in training and in testing, on one core."""
    net, x = network(model, dict(options), shape, classes), noise(model, batch, shape)
    if x.dim() == 4:
        x = channels_last(x.contiguous(memory_format=torch.channels_last))  # as inputs are laid out
    y = torch.zeros(batch, dtype=torch.int64)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        trained = min(_timed(lambda: _step(net, x, y)) for _ in range(REPEATS))
        net.eval()
        with torch.no_grad():
            tested = min(_timed(lambda: net(x)) for _ in range(REPEATS))
        return trained / batch, tested / batch
    finally:
        torch.set_num_threads(before)


def _timed(work: Callable[[], object]) -> float:
    began = perf_counter()
    work()
    return perf_counter() - began


def _step(net: nn.Module, x: torch.Tensor, y: torch.Tensor) -> None:
    weights = list(net.parameters())
    slopes = torch.autograd.grad(functional.cross_entropy(net(x), y), weights)
    with torch.no_grad():
        for weight, slope in zip(weights, slopes, strict=True):
            weight.sub_(slope, alpha=1e-6)


def overview() -> list[dict[str, Any]]:
    """Return one row per recipe: what it is, what it needs, and how long all of it takes on all cores here."""
    rows = []
    for name in listing():
        recipe = load(name)
        cells = list(recipe.cells())
        different = {repr(sorted(cell.settings.items())): cell.settings for cell in cells}
        made = [build(nested(settings)) for settings in different.values()]
        total = sum(seconds(settings) * len(settings.seeds) for settings in made)
        domains = {str(cell.settings["data"]): cell.settings.get("data.domains") for cell in cells}
        rows.append(
            {
                "name": name,
                "title": recipe.title,
                "paper": recipe.paper.title,
                "data": {data: here(data, domains[data]) for data in recipe.data},
                "cells": len(cells),
                "experiments": len(made),
                "seconds": total / cores(),
                "numbers": recipe.numbers,
                "analyses": list(recipe.analysis),
            }
        )
    return rows
