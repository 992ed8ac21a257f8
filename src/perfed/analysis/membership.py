"""Membership inference: whether an upload tells which samples it was trained on (shadow models after LiRA, and a threshold)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .. import keys, trees
from ..errors import RunError
from ..local import Batch, Budget, descend
from ..task import Task
from ..transport import Private, Site
from ..trees import Params, Tree
from .seen import seen
from .subject import State

Curve = NDArray[np.float64]  # models × samples
CAUGHT = 0.9  # area under the curve that the control must reach
BY_HEART = 60  # samples whose labels the control may have to learn: about half of them
FITTED = 100  # passes in which the control learns its labels by heart


@dataclass(frozen=True)
class Membership:
    """How well members are told from others: areas under the curve, where 0.5 is guessing."""

    shadows: float  # likelihood ratio against the other models (LiRA, with Gaussians)
    threshold: float  # the loss alone
    control: float  # shadows, on a network that learned random labels by heart
    passed: bool  # whether the control was caught
    samples: int
    models: int


def membership(state: State, client: int, models: int = 16, seed: int = 0) -> Membership:
    """Train one client's next answer on random halves of its samples, again and again, and tell members from others.

    Every model is the target once, with the others as its shadows. The attacker knows what the client keeps, and all its samples.
    """
    if state.site.task.goal != "classification":
        raise RunError("membership is told by the confidence in a class; this run has none")
    site, pool = state.site, _pool(state.site, client)
    halves = _halves(len(pool), models, seed)
    down = site.method.send(state.server, client)
    score = _scorer(state, client, down)
    confidences = np.stack([score(*_trained(state, client, pool[half], seed + place)) for place, half in enumerate(halves)])
    shadows, threshold = areas(confidences, halves)
    few = halves[:, :BY_HEART]
    reached, _ = areas(_control(site, pool[:BY_HEART], few, seed), few)
    return Membership(shadows, threshold, reached, reached >= CAUGHT, len(pool), models)


def areas(confidences: Curve, halves: NDArray[np.bool_]) -> tuple[float, float]:
    """Return the area under the curve of shadow models and that of the bare confidence, each the mean over targets."""
    ratio, bare = [], []
    for target, members in enumerate(halves):
        others = np.delete(np.arange(len(halves)), target)
        inside = np.ma.masked_array(confidences[others], ~halves[others])
        outside = np.ma.masked_array(confidences[others], halves[others])
        spread = np.sqrt((inside.var(0) + outside.var(0)) / 2).filled(0) + 1e-6
        there, away = inside.mean(0).filled(0), outside.mean(0).filled(0)
        own = confidences[target]
        scores = ((own - away) ** 2 - (own - there) ** 2) / (2 * spread**2)  # log of the ratio of two bells
        ratio.append(area(scores, members))
        bare.append(area(own, members))
    return float(np.mean(ratio)), float(np.mean(bare))


def area(scores: NDArray[np.float64], members: NDArray[np.bool_]) -> float:
    """Return how often a member scores above one that is none; ties count half."""
    inside, outside = scores[members], scores[~members]
    if not len(inside) or not len(outside):
        return 0.5
    above = (inside[:, None] > outside[None, :]).mean() + 0.5 * (inside[:, None] == outside[None, :]).mean()
    return float(above)


def _pool(site: Site, client: int) -> Tensor:
    parts = [getattr(site.federation, part)[client] for part in ("train", "validation", "test")]
    pool = torch.cat(parts)
    if len(pool) < 8:
        raise RunError(f"client {client} has {len(pool)} samples, too few to tell members from others")
    return pool


def _halves(count: int, models: int, seed: int) -> NDArray[np.bool_]:
    drawn = [keys.permutation(keys.key(seed, "half", number), count) < count // 2 for number in range(models)]
    return torch.stack(drawn).numpy()


def _trained(state: State, client: int, rows: Tensor, seed: int) -> tuple[Tree, Private]:
    """Return the answer and the private state of a client that has these samples alone, with draws and noise of its own."""
    fed = replace(state.site.federation, seed=keys.seed_of(keys.key(seed, "shadow")))
    train = tuple(rows if number == client else own for number, own in enumerate(fed.train))
    site = replace(state.site, federation=replace(fed, train=train))
    up, kept, _ = site.train(client, site.method.send(state.server, client), state.private(client), state.round + 1)
    return up, kept


def _scorer(state: State, client: int, down: Tree) -> Callable[[Tree, Private], NDArray[np.float64]]:
    """Return what makes a confidence per sample of an answer: by the uploaded network, or with the client's own parts."""
    site = state.site
    pool = _pool(site, client)
    x, y = site.federation.inputs(site.federation.x[pool], None), site.federation.y[pool]
    before = state.private(client)

    def score(up: Tree, kept: Private) -> NDArray[np.float64]:
        shown = seen(site, down, up)
        names = trees.weights(site.task.params())
        with torch.no_grad():
            if all(name in shown for name in names):
                whole = site.task.params() | site.withheld.start | {name: shown[name].sent for name in names}
                logits = site.task.served.logits(whole, x)
            elif shown:
                after = site.withheld.overlay(site.method.after(down, up), kept.kept)
                logits = site.method.predict(site.task.served, after, before.mine, x)
            else:
                raise RunError(f"{site.method.title} uploads no part of the network, so membership cannot be told from it")
        return confidence(logits, y)

    return score


def confidence(logits: Tensor, y: Tensor) -> NDArray[np.float64]:
    """Return log p / (1 − p) of each sample's label: nearly a bell for samples of one kind."""
    own = logits.double().gather(1, y[:, None])[:, 0]
    others = logits.double().scatter(1, y[:, None], -torch.inf).logsumexp(1)
    found: NDArray[np.float64] = (own - others).clamp(-50, 50).nan_to_num(0.0).cpu().numpy()
    return found


def _control(site: Site, pool: Tensor, halves: NDArray[np.bool_], seed: int) -> Curve:
    """Return confidences of networks that learned random labels of a few samples by heart: only members can be known."""
    x = site.federation.inputs(site.federation.x[pool], None)
    y = keys.bits(keys.key(seed, "labels"), len(pool)).to(pool.device) % site.task.classes
    rows = []
    for number, half in enumerate(halves):
        inside = torch.from_numpy(half).to(pool.device).nonzero()[:, 0]
        rows.append(confidence(_by_heart(site.task, x, y, inside, keys.key(seed, "control", number)), y))
    return np.stack(rows)


def _by_heart(task: Task, x: Tensor, y: Tensor, inside: Tensor, key: Tensor) -> Tensor:
    budget = Budget(lr=0.01, optimizer="adam", batch_size=BY_HEART)
    batches: Sequence[Batch] = [
        Batch(x[part], y[part], None, keys.fold(key, step))
        for step in range(FITTED)
        for part in torch.split(inside[keys.permutation(keys.fold(key, "order", step), len(inside)).to(inside.device)], 15)
        if len(part) > 1
    ]
    start: Params = task.params()
    fitted = descend(task.loss, start, batches, budget)
    with torch.no_grad():
        return task.served.logits(fitted, x)
