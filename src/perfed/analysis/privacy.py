"""The attack of FedCP's Table 9 and GPFL's Table 5 on what a run's method really uploads, beside its positive control."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from .. import trees
from ..errors import RunError, suggest
from ..method import Piece
from ..report import studies
from ..transport import Site
from ..trees import Params, Tree
from .attack import NEEDED, Control, Effort, judge, leaked, one_step, recover
from .inversion import Network, Recovery
from .psnr import measure
from .result import Options, Result, plain
from .seen import Seen, last, seen
from .subject import State, Subject

SCOPES = {
    "extractor": "the extractor alone, its features unknown",
    "model": "extractor and classifier",
    "known": "what is uploaded, with all that the client keeps known, as it is in simulation, where everyone starts alike",
    "pseudo_extractor": "GPFL's extractor with its valve under the general condition",
    "pseudo_model": "GPFL's extractor, valve, and its category embeddings as classifier",
    "upload": "all of FedCP's upload: extractor, blended classifier, policy",
}


NO_GAINS: Mapping[str, float] = {}
TRIED = 3  # pictures of which the control must recover one


@dataclass(frozen=True)
class Target:
    """What the attacker has: where gradients are taken, the update, the network that they belong to, and the labels if known."""

    at: Params
    update: Params
    network: Network
    outputs: int
    labels: Tensor | None = None


@dataclass(frozen=True)
class Checked:
    """The control, with its picture and what was recovered of it."""

    control: Control
    original: Tensor
    recovered: Tensor
    first: int = 0  # where the client's attacked pictures begin: at the one that the control recovered


def attack(subject: Subject, options: Options, checked: Checked | None = None) -> Result:
    """Recover pictures from one client's upload in the first round, where uploads tell most, and judge them.

    Unless a scope is asked for, the most telling part of the upload is attacked, and beside it what is uploaded with the
    client's own parts known: in simulation the server drew them.
    """
    client = options.client or 0
    subject.chosen(client)
    state = subject.start
    if state.site.federation.x.dim() != 4:
        raise RunError("the attack recovers pictures; this run has none")
    if options.scope is not None and options.scope not in SCOPES:
        raise suggest("scope of the attack", options.scope, SCOPES)
    scopes = [options.scope] if options.scope else natural(state, client)
    checked = checked or control(state, client, options)
    rows = [["control: one picture, one step of FedAvg", f"{checked.control.psnr:.2f}", f"{NEEDED:.0f} needed"]]
    found, says, drawn = [], [], None
    for scope in scopes:
        values, conclusion, figure = _attacked(state, client, options, scope, checked)
        found.append(values | {"method": subject.method})
        says.append(f"{SCOPES[scope]}: {conclusion}" if len(scopes) > 1 else conclusion)
        rows.append([f"{subject.method}, {scope}", f"{values['mean']:.2f}", f"{values['psnr_pfllib']:.2f} as the papers count"])
        drawn = drawn or figure
    return Result(found[0] | {"scopes": found}, says, ["attacked", "PSNR dB", ""], rows, drawn)


def _attacked(state: State, client: int, options: Options, scope: str, checked: Checked) -> tuple[dict[str, Any], str, Any]:
    """Attack one scope: values, the conclusion in words, and the pictures."""
    count = max(options.images, 2 if state.site.task.needs_pairs else 1)
    truths, found = [], []
    for number in range(options.batches):
        site, pictures = _narrowed(state, client, checked.first + number * count, count, options.whole)
        aim = target(state, site, client, scope)
        truths.append(pictures)
        found.append(_recover(aim, pictures, options, number).images)
    verdict = judge(truths, found, checked.control, scope=scope)
    wide = [measure(2 * truth - 1, 2 * guess - 1, "pfllib") for truth, guess in zip(truths, found, strict=True)]
    values = plain(verdict) | {
        "client": client,
        "attack": options.attack,
        "steps": options.steps,
        "images": count,
        "upload of": "a whole round" if options.whole else "one step",
        "paths": sorted(pair.path for pair in _pairs(state, site, client).values()),
        "psnr_range": verdict.mean,
        "psnr_pfllib": sum(wide) / len(wide),
    }
    return values, verdict.conclusion, _drawn(checked, truths, found)


def control(state: State, client: int, options: Options) -> Checked:
    """Attack one picture after one step of undefended FedAvg, by the very search that the uploads are attacked by.

    From some pictures too little comes through a network, whatever the defence. So up to ``TRIED`` are tried, and uploads are
    attacked from the first one on that came back, or the best of them.
    """
    task = state.site.task
    count = 2 if task.needs_pairs else 1  # BatchNorm cannot train on one
    found: list[Checked] = []
    for first in range(0, TRIED * count, count):
        rows = state.site.federation.train[client][first : first + count]
        if len(rows) < count and found:
            break
        found.append(_undefended(state, rows, first, options))
        if found[-1].control.passed:
            break
    return max(found, key=lambda checked: checked.control.psnr)


def _undefended(state: State, rows: Tensor, first: int, options: Options) -> Checked:
    task, fed, rate = state.site.task, state.site.federation, state.site.method.budget.lr
    pictures, labels, params = pixels(state.site, rows), fed.y[rows], task.params()
    network = _network(state.site, task.still.logits)
    update = leaked(params, one_step(network, params, pictures, labels, rate), rate)
    found = _recover(Target(params, update, network, task.classes, labels), pictures, options, 0)
    reached = measure(pictures, found.images)
    control = Control(reached >= NEEDED, reached, NEEDED, found.mismatch, options.attack, 0.0)
    return Checked(control, pictures, found.images, first)


def _recover(aim: Target, pictures: Tensor, options: Options, seed: int) -> Recovery:
    effort = Effort(options.attack, options.steps, seed)
    return recover(aim.network, aim.at, aim.update, tuple(pictures.shape), aim.outputs, effort, aim.labels)


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
    """Return what an attacker works on: the part of the upload that ``scope`` names, each leaf by its whole path."""
    if scope not in SCOPES:
        raise suggest("scope of the attack", scope, SCOPES)
    down, private = site.method.send(state.server, client), state.private(client)
    shown = seen(site, down, state.replay(client, site).up)
    fed, budget = site.federation, site.method.budget
    rate = budget.lr * -(-len(fed.train[client]) // budget.batch_size) * budget.epochs
    start = site.task.params()
    if scope == "known":
        names, network, outputs, gains = list(shown), _known(site, down, private.mine, shown), site.task.classes, NO_GAINS
    else:
        names, network, outputs, gains = _piece(site, down, scope)
    if not any(name in shown for name in names):
        raise RunError(f"{site.method.title} uploads nothing of the {scope.replace('_', ' ')}, so it cannot be attacked")
    at = {name: shown[name].received if name in shown else start[name] for name in names}
    known = {name: shown[name].sent for name in names if name in shown}
    labelled = (
        scope in ("model", "known", "upload")
        and site.task.goal == "classification"
        and len(fed.train[client]) <= budget.batch_size
    )
    labels = fed.y[fed.train[client]] if labelled else None
    update = {name: gains.get(name, 1.0) * leaf for name, leaf in leaked(at, known, rate).items()}
    return Target(at, update, network, outputs, labels)


def _known(site: Site, down: Tree, mine: Tree, shown: dict[str, Seen]) -> Network:
    """Return the client's model as a function of what it uploads, its own parts being known."""
    origins = {pair.origin: name for name, pair in shown.items() if pair.origin}
    paths, leaves = [path for path, _ in trees.named(down)], trees.leaves(down)
    method, task = site.method, site.task.still
    held = {last(path) for path, _ in trees.named((down, mine))}
    drawn = any(name not in held for part in task.parts.values() for name in part.start)  # and so in their own precision

    def forward(weights: Params, x: Tensor) -> Tensor:
        kind = task.dtype if drawn else x.dtype

        def alike(leaf: Tensor) -> Tensor:
            return leaf.to(kind) if leaf.is_floating_point() else leaf

        there = [alike(weights[origins[path]] if path in origins else leaf) for path, leaf in zip(paths, leaves, strict=True)]
        return method.predict(task, trees.rebuild(down, there), trees.map(alike, mine), alike(x)).to(x.dtype)

    return _network(site, forward)


def _pairs(state: State, site: Site, client: int) -> dict[str, Seen]:
    return seen(site, site.method.send(state.server, client), state.replay(client, site).up)


def _piece(site: Site, down: Tree, scope: str) -> tuple[list[str], Network, int, Mapping[str, float]]:
    """Return the leaves of a scope, the network that they make up, how wide its outputs are, and what is blurred by how much."""
    task = site.task.still
    body, head = list(task.body.start), list(task.head.start)
    if scope == "extractor":
        return body, _network(site, task.features), task.width, NO_GAINS
    if scope == "model":
        return [*body, *head], _network(site, task.logits), task.classes, NO_GAINS
    own = _pieces(site, down)
    if scope not in own:
        there = ", ".join(["extractor", "model", "known", *own])
        raise RunError(f"{site.method.title} has no {scope} in its upload, which can be attacked as {there}")
    piece = own[scope]
    return piece.names, _network(site, piece.forward), piece.outputs, piece.gains


def _pieces(site: Site, down: Tree) -> dict[str, Piece]:
    return site.method.pieces(site.task.still, down) if "pieces" in site.method.views else {}


def _network(site: Site, forward: Callable[[Params, Tensor], Tensor]) -> Network:
    inputs: Any = site.federation.inputs
    return lambda weights, images: forward(weights, inputs.normalised(images))


def natural(state: State, client: int) -> list[str]:
    """Return the most telling scope that a method's upload has and, where the client's model has parts of its own, ``known``."""
    site, task = state.site, state.site.task
    shown = _pairs(state, site, client)
    own = _pieces(site, site.method.send(state.server, client))
    if not own and not any(name in shown for name in task.body.start or task.head.start):  # a frozen body is sent by nobody
        raise RunError(f"{site.method.title} uploads no part of the network, so there is nothing to attack")
    whole = all(name in shown for name in task.head.start if not trees.is_state(name))
    first = list(own)[-1] if own else "model" if whole else "extractor"
    settled = first in ("model", "upload") or not _reaches(state, client, shown)  # nothing is kept that counts
    return [first] if settled else [first, "known"]


def _reaches(state: State, client: int, shown: dict[str, Seen]) -> bool:
    """Return whether the model that a client serves passes through what it uploads."""
    site = state.site
    network = _known(site, site.method.send(state.server, client), state.private(client).mine, shown)
    weights = {name: pair.received.detach().clone().requires_grad_() for name, pair in shown.items()}
    rows = site.federation.train[client][: 2 if site.task.needs_pairs else 1]
    return bool(network(weights, pixels(site, rows)).requires_grad)


def _drawn(checked: Checked, truths: list[Tensor], found: list[Tensor]) -> Any:
    original, guess = torch.cat([checked.original[:1], *truths]), torch.cat([checked.recovered[:1], *found])
    captions = [f"{measure(a[None], b[None]):.1f} dB" for a, b in zip(original, guess, strict=True)]
    names = ["control", *(["upload"] * (len(original) - 1))]
    return studies.gallery(
        {"original": original[:9].numpy(), "recovered": guess[:9].numpy()},
        {"original": names[:9], "recovered": captions[:9]},
    )
