"""The attack of FedCP's Table 9 and GPFL's Table 5 on what a run's method really uploads, beside its positive control."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ..errors import RunError, suggest
from ..method import Piece
from ..report import studies
from ..transport import Site
from ..trees import Params, Tree
from .attack import NEEDED, Control, Effort, judge, leaked, one_step, recover
from .inversion import Network, Recovery
from .psnr import measure
from .result import Options, Result, plain
from .subject import State, Subject

SCOPES = {
    "extractor": "the extractor alone, its features unknown",
    "model": "extractor and classifier",
    "pseudo_extractor": "GPFL's extractor with its valve under the general condition",
    "pseudo_model": "GPFL's extractor, valve, and its category embeddings as classifier",
    "upload": "all of FedCP's upload: extractor, blended classifier, policy",
}


@dataclass(frozen=True)
class Target:
    """What the attacker has: where gradients are taken, the update, and the network that they belong to."""

    at: Params
    update: Params
    network: Network
    outputs: int


@dataclass(frozen=True)
class Checked:
    """The control, with its picture and what was recovered of it."""

    control: Control
    original: Tensor
    recovered: Tensor


def attack(subject: Subject, options: Options, checked: Checked | None = None) -> Result:
    """Recover pictures from one client's upload in the first round, where uploads tell most, and judge them."""
    client = options.client or 0
    subject.chosen(client)
    state = subject.start
    if state.site.federation.x.dim() != 4:
        raise RunError("the attack recovers pictures; this run has none")
    scope = options.scope or _natural(state)
    checked = checked or control(state, client, options)
    count = max(options.images, 2 if state.site.task.needs_pairs else 1)
    truths, found = [], []
    for number in range(options.batches):
        site, pictures = _narrowed(state, client, number * count, count, options.whole)
        aim = target(state, site, client, scope)
        truths.append(pictures)
        found.append(_recover(aim, pictures, options, number).images)
    verdict = judge(truths, found, checked.control, scope=scope)
    wide = [measure(2 * truth - 1, 2 * guess - 1, "pfllib") for truth, guess in zip(truths, found, strict=True)]
    values = plain(verdict) | {
        "method": subject.method,
        "client": client,
        "attack": options.attack,
        "steps": options.steps,
        "images": count,
        "upload of": "a whole round" if options.whole else "one step",
        "psnr_range": verdict.mean,
        "psnr_pfllib": sum(wide) / len(wide),
    }
    rows = [
        ["control: one picture, one step of FedAvg", f"{checked.control.psnr:.2f}", f"{NEEDED:.0f} needed"],
        [f"{subject.method}, {scope}", f"{verdict.mean:.2f}", f"{values['psnr_pfllib']:.2f} as the papers count"],
    ]
    return Result(values, [verdict.conclusion], ["attacked", "PSNR dB", ""], rows, _drawn(checked, truths, found, scope))


def control(state: State, client: int, options: Options) -> Checked:
    """Attack one picture after one step of undefended FedAvg, by the very search that the uploads are attacked by."""
    task = state.site.task
    count = 2 if task.needs_pairs else 1  # BatchNorm cannot train on one
    rows = state.site.federation.train[client][:count]
    pictures, labels = pixels(state.site, rows), state.site.federation.y[rows]
    params = task.params()
    network = _network(state.site, task.still.logits)
    rate = state.site.method.budget.lr
    update = leaked(params, one_step(network, params, pictures, labels, rate), rate)
    found = _recover(Target(params, update, network, task.classes), pictures, options, 0)
    reached = measure(pictures, found.images)
    return Checked(Control(reached >= NEEDED, reached, NEEDED, found.mismatch, options.attack, 0.0), pictures, found.images)


def _recover(aim: Target, pictures: Tensor, options: Options, seed: int) -> Recovery:
    effort = Effort(options.attack, options.steps, seed)
    return recover(aim.network, aim.at, aim.update, tuple(pictures.shape), aim.outputs, effort)


def pixels(site: Site, rows: Tensor) -> Tensor:
    """Return stored pictures as the network's inputs before they are normalised, in [0, 1]."""
    inputs: Any = site.federation.inputs
    plainly = replace(inputs, mean=None, std=None)
    found: Tensor = plainly(site.federation.x[rows], None)
    return found


def _narrowed(state: State, client: int, first: int, count: int, whole: bool) -> tuple[Site, Tensor]:
    """Return the site in which a client has one batch only and takes one step, and the batch."""
    fed, method = state.site.federation, state.site.method
    rows = fed.train[client][first : first + count]
    if len(rows) < count:
        raise RunError(f"client {client} has {len(fed.train[client])} training samples, too few for this many batches")
    pictures = pixels(state.site, rows)
    plainly = replace(fed, augment=False)
    if whole:
        return replace(state.site, federation=plainly), pictures
    train = tuple(rows if number == client else own for number, own in enumerate(fed.train))
    budget = replace(method.budget, epochs=1, batch_size=count, momentum=0.0)
    return replace(state.site, federation=replace(plainly, train=train), method=replace(method, budget=budget)), pictures


def target(state: State, site: Site, client: int, scope: str) -> Target:
    """Return what an attacker works on: the part of the upload that ``scope`` names."""
    if scope not in SCOPES:
        raise suggest("scope of the attack", scope, SCOPES)
    down = site.method.send(state.server, client)
    answer = state.replay(client, site)
    received = _leaves(down)
    sent = {path.rpartition("/")[2]: leaf for path, leaf in site.withheld.crossing(answer.up)}
    names, network, outputs = _piece(site, down, scope)
    missing = [name for name in names if not name.startswith("~") and name not in sent]
    if not any(name in sent for name in names):
        raise RunError(f"{site.method.title} uploads nothing of the {scope.replace('_', ' ')}, so it cannot be attacked")
    at = {name: received[name] if name in received else site.task.params()[name] for name in names}
    known = {name: leaf for name, leaf in sent.items() if name in at and not name.startswith("~")}
    steps = -(-len(site.federation.train[client]) // site.method.budget.batch_size) * site.method.budget.epochs
    update = leaked(received, known, site.method.budget.lr * steps)
    update |= {name: torch.zeros_like(at[name]).double() for name in missing}
    return Target(at, update, network, outputs)


def _leaves(tree: Tree) -> Params:
    from .. import trees

    return {path.rpartition("/")[2]: leaf for path, leaf in trees.named(tree) if leaf.is_floating_point()}


def _piece(site: Site, down: Tree, scope: str) -> tuple[list[str], Network, int]:
    """Return the leaves of a scope, the network that they make up, and how wide its outputs are."""
    task = site.task.still
    body, head = list(task.body.start), list(task.head.start)
    if scope == "extractor":
        return body, _network(site, task.features), task.width
    if scope == "model":
        return [*body, *head], _network(site, task.logits), task.classes
    own = _pieces(site, down)
    if scope not in own:
        there = ", ".join(["extractor", "model", *own])
        raise RunError(f"{site.method.title} has no {scope} in its upload, which can be attacked as {there}")
    return own[scope].names, _network(site, own[scope].forward), own[scope].outputs


def _pieces(site: Site, down: Tree) -> dict[str, Piece]:
    return site.method.pieces(site.task.still, down) if "pieces" in site.method.views else {}


def _network(site: Site, forward: Callable[[Params, Tensor], Tensor]) -> Network:
    inputs: Any = site.federation.inputs
    return lambda weights, images: forward(weights, inputs.normalised(images))


def _natural(state: State) -> str:
    """Return the most telling scope that a method's upload has."""
    if own := _pieces(state.site, state.site.method.send(state.server, 0)):
        return list(own)[-1]
    sent = _leaves(state.replay(0).up)
    task = state.site.task
    if not any(name in sent for name in task.body.start):
        raise RunError(f"{state.site.method.title} uploads no part of the network, so there is nothing to attack")
    return "model" if all(name in sent for name in task.head.start) else "extractor"


def _drawn(checked: Checked, truths: list[Tensor], found: list[Tensor], scope: str) -> Any:
    original, guess = torch.cat([checked.original[:1], *truths]), torch.cat([checked.recovered[:1], *found])
    captions = [f"{measure(a[None], b[None]):.1f} dB" for a, b in zip(original, guess, strict=True)]
    names = ["control", *(["upload"] * (len(original) - 1))]
    return studies.gallery(
        {"original": original[:9].numpy(), "recovered": guess[:9].numpy()},
        {"original": names[:9], "recovered": captions[:9]},
    )
