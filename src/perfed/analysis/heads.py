"""Analyses of methods with several classifiers: how a policy divides features, what each scores, where each looks."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..errors import RunError
from ..report import studies
from ..report.studies import Frame, Line
from .classifiers import alone_and_combined
from .gradcam import gradcam, last_convolution
from .policies import course, policy
from .result import Options, Result, plain
from .subject import State, Subject

PICTURES = 6


def policies(subject: Subject, options: Options) -> Result:
    """Show how FedCP's policy divides the features of every client's test samples."""
    subject.needs("policies", "a policy")
    state, ids = subject.last, subject.chosen(options.client)
    found = {subject.names[c]: policy(shares(state, c, state.samples(c, limit=options.samples)[0])) for c in ids}
    rows = [[name, f"{own.pir:.4f}", *(f"{own.quantiles[level]:.3f}" for level in (1, 3, 5))] for name, own in found.items()]
    mean = sum(own.pir for own in found.values()) / len(found)
    says = [f"mean over clients {mean:.4f}; {sum(own.pir > 0.5 for own in found.values())} of {len(found)} clients above 0.5"]
    figure = studies.ranges([own.quantiles for own in found.values()], list(found), "personal policy s, all features", centre=0.5)
    return Result(plain(found), says, ["client", "mean", "5 %", "median", "95 %"], rows, figure)


def identification(subject: Subject, options: Options) -> Result:
    """Follow FedCP's personalisation identification ratio of the training samples over rounds."""
    subject.needs("policies", "the personalisation identification ratio")
    ids = subject.chosen(options.client)
    recorded = {}
    for state in subject.states("the personalisation identification ratio"):
        inputs = {c: state.samples(c, "train", options.samples)[0] for c in ids}
        recorded[state.round] = [shares(state, c, x) for c, x in inputs.items()]
    found = course(recorded)
    rounds = [float(number) for number in found.rounds]
    lines = [Line(subject.names[c], rounds, [row[place] for row in found.pir]) for place, c in enumerate(ids)]
    if len(ids) > 8:
        lines = [line._replace(label="", faint=True) for line in lines]
    if len(ids) > 1:
        lines = [Line("mean over clients", rounds, found.mean), *lines]
    says = [f"{found.mean[0]:.4f} in round {rounds[0]:.0f}, {found.mean[-1]:.4f} in round {rounds[-1]:.0f}"]
    return Result(plain(found), says, figure=studies.lines([Frame("", lines, "share of the personal head")]))


@torch.no_grad()
def shares(state: State, client: int, x: Tensor) -> Tensor:
    """Return the share of each feature that goes to the personal head, as the client serves."""
    return state.site.method.policies(state.site.task.served, *state.held(client), x)


def classifiers(subject: Subject, options: Options) -> Result:
    """Score every classifier alone and all together, over rounds where states were kept."""
    subject.needs("heads", "a second classifier")
    ids = subject.chosen(options.client)
    rounds: list[float] = []
    found: dict[str, list[float]] = {}
    last: dict[str, list[float]] = {}
    for state in subject.course("accuracies of classifiers"):
        rounds.append(float(state.round))
        last = {}
        for client in ids:
            x, y = state.samples(client, limit=max(options.samples, 1000))
            with torch.no_grad():
                scored = alone_and_combined(state.site.method.heads(state.site.task.served, *state.held(client), x), y)
            for name, value in (scored.alone | {"together": scored.combined}).items():
                last.setdefault(name, []).append(100 * value)
        for name, scores in last.items():
            found.setdefault(name, []).append(sum(scores) / len(scores))
    rows = [[subject.names[c], *(f"{own[place]:.2f}" for own in last.values())] for place, c in enumerate(ids)]
    says = [f"mean over clients in round {rounds[-1]:.0f}: " + ", ".join(f"{n} {own[-1]:.2f} %" for n, own in found.items())]
    if len(rounds) > 1:
        lines = [Line(name, rounds, own) for name, own in found.items()]
        figure = studies.lines([Frame("", lines, "mean accuracy (%)")])
    else:
        figure = studies.bars(dict(last), [subject.names[c] for c in ids], "accuracy (%)")
        says.append("only the last state was kept; a run with snapshots=1 (or 10) shows the course over rounds")
    clients = {subject.names[c]: {name: own[place] for name, own in last.items()} for place, c in enumerate(ids)}
    return Result({"rounds": rounds, **found, "last": clients}, says, ["client", *last], rows, figure)


def looks(subject: Subject, options: Options) -> Result:
    """Draw where the global and the personal head look (FedCP), or where the served model looks."""
    client = options.client or 0
    subject.chosen(client)
    state = subject.last
    x, y = state.samples(client, limit=PICTURES)
    if x.dim() != 4:
        raise RunError("Grad-CAM draws over pictures; this run has none")
    layer = last_convolution(state.site.task.body.skeleton.serving)
    held = state.held(client)
    task, method = state.site.task.served, state.site.method

    def alone(name: str) -> Callable[[Tensor], Tensor]:
        return lambda images: method.heads(task, *held, images)[name].gather(1, y[:, None])[:, 0]

    def served(images: Tensor) -> Tensor:
        return method.predict(task, *held, images).gather(1, y[:, None])[:, 0]

    several = method.heads(task, *held, x) if "heads" in method.views else {}
    scores = {f"{name} head": alone(name) for name in several} or {"served model": served}
    shown = state.site.federation.x[state.site.federation.test[client][:PICTURES]].float() / 255
    rows: dict[str, Any] = {"picture": shown.numpy()}
    values: dict[str, Any] = {"client": client, "labels": y.tolist()}
    for name, score in scores.items():
        maps = gradcam(score, layer, x)
        rows[name] = studies.heated(shown.numpy(), maps.numpy())
        values[name] = {"share above one half": [float((m > 0.5).double().mean()) for m in maps]}
    classes = subject.clients["classes"]
    figure = studies.gallery(rows, {"picture": [str(classes[label]) for label in y.tolist()]})
    return Result(values, [f"client {client}: bright is what raises the score of the true class"], figure=figure)
