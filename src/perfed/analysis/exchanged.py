"""Analyses of what clients send, replayed from kept states: sensitivities, masks, collaborators, angles (FedCAC)."""

from typing import Any

import torch

from perfed.analysis import masks
from perfed.analysis.result import Options, Result, percent, plain
from perfed.analysis.subject import Answer, State, Subject, model
from perfed.errors import RunError
from perfed.report import studies
from perfed.report.studies import Frame, Line


def angles_over_rounds(subject: Subject, options: Options) -> Result:
    """Follow the angle between clients' updates over the rounds."""
    rounds: list[float] = []
    means: list[float] = []
    every: list[list[float]] = []
    last: masks.Angles | None = None
    for state in subject.states("the angle between updates"):
        ids = subject.participants(state.round + 1)
        if len(ids) < 2 or (state.round >= subject.run.settings.rounds and rounds):
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


def update(answer: Answer) -> dict[str, torch.Tensor]:
    """Return by how much local training moved the parameters that the client was sent."""
    before, after = model(answer.down, {}), model(answer.after, {})
    moved = {name: after[name] - before[name] for name in before if name in after and not name.startswith("~")}
    if not moved:
        raise RunError("these clients send nothing, so their updates cannot be compared")
    return moved


def sensitivities(subject: Subject, options: Options) -> Result:
    """Show how sensitive the parameters of one client's last layer are, class by class."""
    client = options.client or 0
    subject.chosen(client)
    state = subject.last
    answer = state.replay(client)
    before, after = model(answer.down, answer.mine), model(answer.after, answer.kept.mine)
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
    """Return which parameters each client of FedCAC holds critical in the round after a state."""
    subject.needs("a mask of critical parameters", "fedcac")
    return [dict(state.replay(client).up.critical) for client in ids]


def critical_masks(subject: Subject, options: Options) -> Result:
    """Show which share of every layer is critical."""
    ids = subject.chosen(options.client)[:12]
    found = critical(subject, subject.last, ids)
    layers = sorted(found[0])
    shares = {subject.names[c]: [float(m[name].double().mean()) for name in layers] for c, m in zip(ids, found, strict=True)}
    rows = [[name, *(percent(own[place]) for own in shares.values())] for place, name in enumerate(layers)]
    table = torch.tensor(list(shares.values()))
    stable = torch.stack([torch.cat([m[name].flatten() for name in layers]).double() for m in found]).mean(0)
    says = []
    if len(ids) > 1:
        says = [f"{100 * float((stable == 1).double().mean()):.1f} % of the parameters are critical to all {len(ids)} clients"]
    figure = studies.heat(table, list(shares), f"{len(layers)} layers, from the input to the output", "share critical")
    return Result({"layers": layers, "shares": shares}, says, ["layer", *shares], rows, figure)


def mask_overlap(subject: Subject, options: Options) -> Result:
    """Set the overlap of critical parameters beside the similarity of label distributions."""
    ids = subject.chosen(None)
    found = masks.likeness(critical(subject, subject.last, ids), [subject.clients["labels"][c] for c in ids])
    tie = "–" if found.correlation is None else f"{found.correlation:.2f}"
    figure = studies.matrices(
        {"overlap of critical parameters": _scaled(found.overlap), "similarity of labels": found.similarity},
        subject.names,
        "0 nothing, 1 everything in common (left: relative to its range)",
    )
    return Result(plain(found), [f"correlation of the two over pairs of clients: {tie}"], figure=figure)


def _scaled(matrix: tuple[tuple[float, ...], ...]) -> Any:
    """Stretch a matrix over [0, 1]: masks of half the parameters all overlap by about as much."""
    table = torch.tensor(matrix)
    off = table[~torch.eye(len(table), dtype=torch.bool)]
    low, high = float(off.min()), float(off.max())
    return ((table - low) / max(high - low, 1e-12)).clamp(0, 1).numpy()


def collaborators(subject: Subject, options: Options) -> Result:
    """Count with how many others each client shares its critical parameters, round by round."""
    rounds: list[float] = []
    counts: list[list[int]] = []
    method: Any = None
    for state in subject.states("the number of collaborators"):
        if state.round >= subject.run.settings.rounds and rounds:
            continue
        ids, method = subject.participants(state.round + 1), state.site.method
        found = critical(subject, state, ids)
        team = method.teams(found, state.round + 1)
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
