"""Analyses of what clients send, replayed from kept states: sensitivities, masks, collaborators, angles (FedCAC)."""

import torch

from .. import trees
from ..errors import RunError
from ..report import studies
from ..report.studies import Frame, Line
from . import masks
from .result import Options, Result, percent, plain
from .subject import Replayed, State, Subject, model

CLIENTS = 12  # rows of a figure that can still be read


def angles_over_rounds(subject: Subject, options: Options) -> Result:
    """Follow the angle between clients' updates over the rounds."""
    rounds: list[float] = []
    means: list[float] = []
    every: list[list[float]] = []
    last: masks.Angles | None = None
    for state in subject.states("the angle between updates"):
        ids = subject.participants(state.round + 1)
        if len(ids) < 2 or (state.round >= subject.run.experiment.rounds and rounds):
            continue
        last = masks.angles([update(state.replay(client)) for client in ids])
        rounds.append(float(state.round + 1))
        means.append(last.mean)
        every.append([last.matrix[i][j] for i in range(len(ids)) for j in range(i)])
    if last is None:
        raise RunError("an angle needs two clients that take part in the same round")
    lines = [Line("mean over pairs of clients", rounds, means)]
    if len(every[0]) > 1 and all(len(row) == len(every[0]) for row in every):
        lines += [
            Line("smallest", rounds, [min(row) for row in every]),
            Line("largest", rounds, [max(row) for row in every]),
        ]
    says = [f"{means[0]:.1f}° in round {rounds[0]:.0f}, {means[-1]:.1f}° in round {rounds[-1]:.0f}"]
    figure = studies.lines([Frame("", lines, "angle between updates (degrees)")])
    return Result({"rounds": rounds, "mean": means, "last": plain(last)}, says, figure=figure)


def update(answer: Replayed) -> dict[str, torch.Tensor]:
    """Return by how much local training moved the parameters that the client was sent, by their whole paths."""
    before, after = dict(trees.named(answer.down)), dict(trees.named(answer.after))
    both = [path for path, leaf in before.items() if path in after and leaf.is_floating_point() and not trees.is_state(path)]
    moved = {path: after[path] - before[path] for path in both}
    if not moved:
        raise RunError("these clients send nothing, so their updates cannot be compared")
    return moved


def sensitivities(subject: Subject, options: Options) -> Result:
    """Show how sensitive the parameters of one client's last layer are, class by class."""
    client = options.client or 0
    subject.chosen(client)
    state = subject.last
    answer = state.replay(client)
    before, after = model(state.site, answer.down, answer.mine), model(state.site, answer.after, answer.kept.mine)
    shared = {name: leaf for name, leaf in after.items() if name in before and before[name].shape == leaf.shape}
    found = masks.sensitivity(before, shared)
    linears = state.site.task.head.linears
    if not linears or linears[-1] not in found:
        raise RunError("the sensitivities of the last layer need a network whose head ends in a linear layer")
    table = found[linears[-1]]
    classes = subject.clients["classes"]
    counts = subject.clients["labels"][client]
    per_class = table.mean(1)
    rows = [[classes[k], str(counts[k]), f"{float(per_class[k]):.3g}"] for k in range(len(classes))]
    layers = {name: float(leaf.mean()) for name, leaf in found.items()}
    order = table.sum(0).argsort(descending=True)
    names = [f"{classes[k]} ({counts[k]})" for k in range(len(classes))]
    figure = studies.heat(table[:, order] ** 0.5, names, "features, most sensitive first", "√ sensitivity")
    related = _rank(per_class.tolist(), [float(c) for c in counts])
    says = []
    if related is not None:
        says = [f"client {client}: rank correlation between a class's samples and its row's sensitivity {related:.2f}"]
    values = {"client": client, "classes": [float(v) for v in per_class], "samples": list(counts), "layers": layers}
    return Result(values | {"correlation": related}, says, ["class", "samples", "mean sensitivity"], rows, figure)


def _rank(first: list[float], second: list[float]) -> float | None:
    ranks = [torch.tensor(v).argsort().argsort().double() for v in (first, second)]
    if len(set(first)) < 2 or len(set(second)) < 2:
        return None
    return float(torch.corrcoef(torch.stack(ranks))[0, 1])


def critical(subject: Subject, state: State, ids: list[int]) -> list[dict[str, torch.Tensor]]:
    """Return which parameters each client holds critical in the round after a state."""
    subject.needs("critical_masks", "a mask of critical parameters")
    return [dict(state.site.method.critical_masks(state.replay(client).up)) for client in ids]


def critical_masks(subject: Subject, options: Options) -> Result:
    """Show, layer by layer, how much of what a client holds critical the others hold critical too."""
    ids = subject.chosen(None)
    found = critical(subject, subject.last, ids)
    if len(ids) < 2:
        raise RunError("masks are compared between clients; this run has one")
    layers = sorted(found[0])
    shared = {}
    for client in subject.chosen(options.client)[:CLIENTS]:
        shared[subject.names[client]] = [_common(client, [mask[name] for mask in found]) for name in layers]
    chosen = {name: float(found[0][name].double().mean()) for name in layers}
    rows = [[name, percent(chosen[name]), *(percent(own[n]) for own in shared.values())] for n, name in enumerate(layers)]
    whole = torch.stack([torch.cat([mask[name].flatten() for name in layers]) for mask in found]).all(0)
    says = [f"{100 * float(whole.double().mean()):.1f} % of the parameters are critical to all {len(ids)} clients"]
    figure = studies.heat(list(shared.values()), list(shared), "", "critical to others too", layers)
    return Result({"layers": layers, "critical": chosen, "shared": shared}, says, ["layer", "critical", *shared], rows, figure)


def _common(client: int, masks: list[torch.Tensor]) -> float:
    """Return the share of one client's critical parameters that another holds critical, the mean over others."""
    own = masks[client].bool()
    others = [float((own & mask.bool()).sum()) for number, mask in enumerate(masks) if number != client]
    return sum(others) / len(others) / max(1.0, float(own.sum()))


def mask_overlap(subject: Subject, options: Options) -> Result:
    """Set the overlap of critical parameters beside the similarity of label distributions."""
    ids = subject.chosen(None)
    found = masks.likeness(critical(subject, subject.last, ids), [subject.clients["labels"][c] for c in ids])
    tie = "–" if found.correlation is None else f"{found.correlation:.2f}"
    tables = {"overlap of critical parameters": found.overlap, "similarity of labels": found.similarity}
    figure = studies.matrices(tables, subject.names, "in common")
    return Result(plain(found), [f"correlation of the two over pairs of clients: {tie}"], figure=figure)


def collaborators(subject: Subject, options: Options) -> Result:
    """Count with how many others each client shares its critical parameters, round by round."""
    rounds: list[float] = []
    counts: list[list[int]] = []
    subject.needs("teams", "a team that shares critical parameters")
    for state in subject.states("the number of collaborators"):
        if state.round >= subject.run.experiment.rounds and rounds:
            continue
        ids = subject.participants(state.round + 1)
        team = state.site.method.teams(critical(subject, state, ids), state.round + 1)
        rounds.append(float(state.round + 1))
        counts.append([int(row.sum()) - 1 for row in team])
    means = [sum(row) / len(row) for row in counts]
    lines = [
        Line("mean", rounds, means),
        Line("fewest", rounds, [float(min(row)) for row in counts]),
        Line("most", rounds, [float(max(row)) for row in counts]),
    ]
    says = [f"{means[0]:.1f} collaborators in round {rounds[0]:.0f}, {means[-1]:.1f} in round {rounds[-1]:.0f}"]
    figure = studies.lines([Frame("", lines, "collaborators of a client")])
    return Result({"rounds": rounds, "collaborators": counts}, says, figure=figure)
