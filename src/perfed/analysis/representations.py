"""Analyses of representations: maps, how classes separate in them, how alike clients' are, idle and telling features."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..errors import RunError
from ..report import studies
from ..report.studies import Frame, Line
from . import features as feature
from . import geometry
from .result import Options, Result, percent, plain
from .subject import State, Subject

POINTS = 1500  # of a map


def tsne(subject: Subject, options: Options) -> Result:
    """Draw t-SNE maps of the representations of all clients' test samples."""
    state, ids = subject.last, subject.chosen(options.client)
    each = max(2, min(options.samples, POINTS // len(ids)))
    parts = [(client, *state.samples(client, limit=each)) for client in ids]
    seen = [state.representations(client, x) for client, x, _ in parts]
    labels = torch.cat([y for *_, y in parts])
    owners = torch.cat([torch.full((len(y),), client) for client, _, y in parts])
    panels = {}
    values: dict[str, Any] = {}
    for name in seen[0]:
        rows = torch.cat([own[name] for own in seen])
        places = geometry.embed(rows, seed=subject.number, perplexity=min(30.0, (len(rows) - 1) / 3))
        panels[name] = places, labels.numpy(), owners.numpy()
        values[name] = {
            "points": places.tolist(),
            "labels": labels.tolist(),
            "clients": owners.tolist(),
            "separation": geometry.separation(rows, labels),
        }
    says = [f"{name}: class separation {own['separation']:.3f}" for name, own in values.items()]
    figure = studies.maps(panels, subject.clients["classes"], [subject.names[c] for c in ids])
    return Result(values, says, figure=figure)


def separation(subject: Subject, options: Options) -> Result:
    """Follow the class-wise separation of representations over rounds, the mean over clients."""
    ids = subject.chosen(options.client)
    found: dict[str, list[float]] = {}
    rounds = []
    for state in subject.course("separation"):
        rounds.append(float(state.round))
        scores: dict[str, list[float]] = {}
        for client in ids:
            x, y = state.samples(client, limit=options.samples)
            if len(set(y.tolist())) > 1:  # one class cannot be apart from others
                for name, rows in state.representations(client, x).items():
                    scores.setdefault(name, []).append(geometry.separation(rows, y))
        if not scores:
            raise RunError("every client has only one class, so classes cannot be separated")
        for name, own in scores.items():
            found.setdefault(name, []).append(sum(own) / len(own))
    return _course(subject, rounds, found, "class separation")


def similarity(subject: Subject, options: Options) -> Result:
    """Compare clients' models in pairs by linear CKA on the owner's test inputs, over rounds."""
    ids = subject.chosen(None)
    found: dict[str, list[float]] = {}
    rounds, last = [], {}
    for state in subject.course("similarity"):
        rounds.append(float(state.round))
        inputs = {client: state.samples(client, limit=options.samples)[0] for client in ids}
        for name in state.representations(ids[0], inputs[ids[0]][:2]):
            last[name] = geometry.client_cka(_pairs(state, name, inputs), len(ids))
            found.setdefault(name, []).append(last[name].mean)
    drawn = _course(subject, rounds, found, "linear CKA between clients")
    drawn.says.extend(geometry.remarks(last))
    values = drawn.values | {"matrices": {name: plain(own.matrix) for name, own in last.items()}}
    if len(rounds) > 1:
        return Result(values, drawn.says, drawn.columns, drawn.rows, drawn.figure)
    figure = studies.matrices({name: own.matrix for name, own in last.items()}, subject.names, "linear CKA")
    return Result(values, drawn.says, drawn.columns, drawn.rows, figure)


def _pairs(state: State, name: str, inputs: dict[int, Tensor]) -> Callable[[int, int], Tensor]:
    return lambda model, owner: state.representations(model, inputs[owner])[name]


def _course(subject: Subject, rounds: list[float], found: dict[str, list[float]], label: str) -> Result:
    says = [f"{name}: {own[-1]:.3f} in round {rounds[-1]:.0f}" for name, own in found.items()]
    if not subject.kept:
        says.append("only the last state was kept; a run with snapshots=1 (or 10) shows the course over rounds")
    rows = [[f"{number:.0f}", *(f"{own[place]:.4f}" for own in found.values())] for place, number in enumerate(rounds)]
    figure = studies.lines([Frame("", [Line(name, rounds, own) for name, own in found.items()], label)])
    return Result({"rounds": rounds, **found}, says, ["round", *found], rows, figure)


def probe(subject: Subject, options: Options) -> Result:
    """Classify by nearest neighbours on the features with the highest Fisher scores."""
    state, ids = subject.last, subject.chosen(options.client)
    found = {}
    for client in ids:
        sides = []
        for part in ("train", "test"):
            x, y = state.samples(client, part, max(options.samples, 500))
            sides.append((state.seen(client, x), y))
        found[subject.names[client]] = feature.probe(sides[0], sides[1], neighbours=min(10, len(sides[0][0])))
    lines = [Line(name, [100 * r for r in own.ratios], [100 * a for a in own.accuracies]) for name, own in found.items()]
    rows = [[name, *(percent(a) for a in own.accuracies)] for name, own in found.items()]
    best = {name: own.ratios[max(range(len(own.ratios)), key=lambda n: own.accuracies[n])] for name, own in found.items()}
    says = [f"{name}: best with {100 * share:.0f} % of the features" for name, share in best.items()][:8]
    ratios = next(iter(found.values())).ratios
    if len(lines) > 8:
        lines = [line._replace(label="", faint=True) for line in lines]
    frame = Frame("", lines, "accuracy (%)", "features kept (%)")
    return Result(plain(found), says, ["client", *(f"{100 * r:.0f} %" for r in ratios)], rows, studies.lines([frame]))


def sparsity(subject: Subject, options: Options) -> Result:
    """Follow the share of idle features, right before and right after aggregation, over rounds."""
    ids = subject.chosen(options.client)
    rounds: list[float] = []
    before: list[float] = []
    after: list[float] = []
    for state in subject.states("sparsity before and after aggregation"):
        if state.round >= subject.run.experiment.rounds and rounds:
            continue
        present = subject.participants(state.round + 1)
        merged, answers = state.next(present)
        scores = []
        for client in [c for c in ids if c in answers]:
            x, _ = state.samples(client, limit=options.samples)
            trained = state.seen(client, x, held=(answers[client].after, answers[client].kept.mine))
            scores.append(feature.redundancy(trained, merged.seen(client, x)))
        if scores:
            rounds.append(float(state.round + 1))
            before.append(sum(s.before for s in scores) / len(scores))
            after.append(sum(s.after for s in scores) / len(scores))
    if not rounds:
        raise RunError("none of these clients took part in a round after a kept state")
    falls = sum(b > a for b, a in zip(before, after, strict=True))
    says = [f"aggregation makes features less sparse in {falls} of {len(rounds)} rounds looked at"]
    lines = [Line("before aggregation", rounds, [100 * v for v in before]), Line("after", rounds, [100 * v for v in after])]
    rows = [[f"{r:.0f}", percent(b), percent(a)] for r, b, a in zip(rounds, before, after, strict=True)]
    figure = studies.lines([Frame("", lines, "idle features (%)")])
    return Result({"rounds": rounds, "before": before, "after": after}, says, ["round", "before %", "after %"], rows, figure)
