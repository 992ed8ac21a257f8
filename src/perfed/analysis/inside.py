"""Analyses of what networks compute: representations, policies, selected features, classifiers, where they look."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from perfed import keys, trees
from perfed.analysis import features as feature
from perfed.analysis import representations as represent
from perfed.analysis.classifiers import alone_and_combined
from perfed.analysis.gradcam import gradcam, last_convolution
from perfed.analysis.policies import course, policy
from perfed.analysis.result import Options, Result, percent, plain
from perfed.analysis.subject import State, Subject
from perfed.errors import RunError
from perfed.report import studies
from perfed.report.studies import Frame, Line
from perfed.trees import Tree

POINTS = 1500  # of a map
PICTURES = 6
Held = tuple[Tree, Tree]


def views(subject: Subject) -> dict[str, Callable[[State, int, Tensor], Tensor]]:
    """Return the representations that a method has, by name: (state, client whose model it is, inputs) → features."""

    def body(state: State, client: int, x: Tensor) -> Tensor:
        return state.seen(client, x)

    if subject.method == "dualfed":
        return {"before the projector": body, "after the projector": lambda s, c, x: s.seen(c, x, "projector")}
    if subject.method == "fedpick" and subject.job.method.selection != "none":  # type: ignore[attr-defined]
        return {
            "selected features": lambda s, c, x: body(s, c, x) * picked(s, c, body(s, c, x)),
            "rejected features": lambda s, c, x: body(s, c, x) * (1 - picked(s, c, body(s, c, x))),
        }
    return {"features": body}


def tsne(subject: Subject, options: Options) -> Result:
    """Draw t-SNE maps of the representations of all clients' test samples."""
    state, ids = subject.last, subject.chosen(options.client)
    each = max(2, min(options.samples, POINTS // len(ids)))
    panels = {}
    values: dict[str, Any] = {}
    for name, view in views(subject).items():
        parts = [(client, *state.samples(client, limit=each)) for client in ids]
        rows = torch.cat([view(state, client, x) for client, x, _ in parts])
        labels = torch.cat([y for *_, y in parts])
        owners = torch.cat([torch.full((len(y),), client) for client, _, y in parts])
        places = represent.embed(rows, seed=subject.number, perplexity=min(30.0, (len(rows) - 1) / 3))
        panels[name] = places, labels.numpy(), owners.numpy()
        values[name] = {
            "points": places.tolist(),
            "labels": labels.tolist(),
            "clients": owners.tolist(),
            "separation": represent.separation(rows, labels),
        }
    says = [f"{name}: class separation {own['separation']:.3f}" for name, own in values.items()]
    figure = studies.maps(panels, subject.clients["classes"], [subject.names[c] for c in ids])
    return Result(values, says, figure=figure)


def separation(subject: Subject, options: Options) -> Result:
    """Follow the class-wise separation of representations over rounds, the mean over clients."""
    ids = subject.chosen(options.client)
    found: dict[str, list[float]] = {name: [] for name in views(subject)}
    rounds = []
    for state in subject.course("separation"):
        rounds.append(float(state.round))
        for name, view in views(subject).items():
            scores = []
            for client in ids:
                x, y = state.samples(client, limit=options.samples)
                if len(set(y.tolist())) > 1:  # one class cannot be apart from others
                    scores.append(represent.separation(view(state, client, x), y))
            if not scores:
                raise RunError("every client has only one class, so classes cannot be separated")
            found[name].append(sum(scores) / len(scores))
    return _course(subject, rounds, found, "class separation")


def similarity(subject: Subject, options: Options) -> Result:
    """Compare clients' models in pairs by linear CKA on the owner's test inputs, over rounds."""
    ids = subject.chosen(None)
    found: dict[str, list[float]] = {name: [] for name in views(subject)}
    rounds, last = [], {}
    for state in subject.course("similarity"):
        rounds.append(float(state.round))
        inputs = {client: state.samples(client, limit=options.samples)[0] for client in ids}
        for name, view in views(subject).items():
            pairs = partial(_view, state, view, inputs)
            last[name] = represent.client_cka(pairs, len(ids))
            found[name].append(last[name].mean)
    drawn = _course(subject, rounds, found, "linear CKA between clients")
    drawn.says.extend(represent.remarks(last))
    values = drawn.values | {"matrices": {name: plain(own.matrix) for name, own in last.items()}}
    if len(rounds) > 1:
        return Result(values, drawn.says, drawn.columns, drawn.rows, drawn.figure)
    figure = studies.matrices({name: own.matrix for name, own in last.items()}, subject.names, "linear CKA")
    return Result(values, drawn.says, drawn.columns, drawn.rows, figure)


def _view(state: State, view: Any, inputs: dict[int, Tensor], model: int, owner: int) -> Tensor:
    seen: Tensor = view(state, model, inputs[owner])
    return seen


def _course(subject: Subject, rounds: list[float], found: dict[str, list[float]], label: str) -> Result:
    says = [f"{name}: {own[-1]:.3f} in round {rounds[-1]:.0f}" for name, own in found.items()]
    if not subject.kept:
        says.append("only the last state was kept; a run with snapshots=1 (or 10) shows the course over rounds")
    rows = [[f"{number:.0f}", *(f"{own[place]:.4f}" for own in found.values())] for place, number in enumerate(rounds)]
    figure = studies.lines([Frame("", [Line(name, rounds, own) for name, own in found.items()], label)])
    return Result({"rounds": rounds, **found}, says, ["round", *found], rows, figure)


def policies(subject: Subject, options: Options) -> Result:
    """Show how FedCP's policy divides the features of every client's test samples."""
    subject.needs("a policy", "fedcp")
    state, ids = subject.last, subject.chosen(options.client)
    found = {subject.names[c]: policy(shares(state, c, state.samples(c, limit=options.samples)[0])) for c in ids}
    rows = [[name, f"{own.pir:.4f}", *(f"{own.quantiles[level]:.3f}" for level in (1, 3, 5))] for name, own in found.items()]
    mean = sum(own.pir for own in found.values()) / len(found)
    says = [f"mean over clients {mean:.4f}; {sum(own.pir > 0.5 for own in found.values())} of {len(found)} clients above 0.5"]
    figure = studies.ranges([own.quantiles for own in found.values()], list(found), "personal policy s, all features", centre=0.5)
    return Result(plain(found), says, ["client", "mean", "5 %", "median", "95 %"], rows, figure)


def identification(subject: Subject, options: Options) -> Result:
    """Follow FedCP's personalisation identification ratio of the training samples over rounds."""
    subject.needs("the personalisation identification ratio", "fedcp")
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


def shares(state: State, client: int, x: Tensor) -> Tensor:
    """Return s, the share of each feature that FedCP gives to the personal head, as it serves."""
    method: Any = state.site.method
    if method.blend != "policy":
        raise RunError("this run of FedCP has no policy network (method.blend is not 'policy')")
    down, mine = state.held(client)
    task = state.site.task.served
    key = keys.key(task.seed, "serve") if method.policy == "gumbel_always" else None
    with torch.no_grad():
        z = task.features(down.body, x)
        s: Tensor = method.personal(task, down.policy, method._vector(task, mine), z, key)
    return s


def heads(state: State, client: int, x: Tensor, held: Held | None = None) -> dict[str, Tensor]:
    """Return the logits of every classifier of a method that has several."""
    method: Any = state.site.method
    down, mine = held or state.held(client)
    task = state.site.task.served
    if hasattr(method, "scores"):
        own, common = method.scores(task, trees.over(down, mine), x)
        return {"global": common} if own is None else {"personal": own, "global": common}
    z = task.features(down.body, x)
    if method.blend == "personal":
        return {"personal": task.classify(mine, z)}
    if method.blend == "sum":
        return {"personal": task.classify(mine, z), "global": task.classify(down.head, z)}
    key = keys.key(task.seed, "serve") if method.policy == "gumbel_always" else None
    s = method.personal(task, down.policy, method._vector(task, mine), z, key)
    return {"personal": task.classify(mine, s * z), "global": task.classify(down.head, (1 - s) * z)}


def classifiers(subject: Subject, options: Options) -> Result:
    """Score every classifier alone and all together, over rounds where states were kept."""
    subject.needs("a second classifier", "dualfed", "fedpick", "fedcp")
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
                scored = alone_and_combined(heads(state, client, x), y)
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
        return lambda images: heads(state, client, images, held)[name].gather(1, y[:, None])[:, 0]

    def served(images: Tensor) -> Tensor:
        return method.predict(task, *held, images).gather(1, y[:, None])[:, 0]

    several = subject.method in ("fedcp", "dualfed", "fedpick")
    scores = {f"{name} head": alone(name) for name in heads(state, client, x, held)} if several else {"served model": served}
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


def picked(state: State, client: int, z: Tensor) -> Tensor:
    """Return which features FedPick selects, sample by sample, as it serves."""
    method: Any = state.site.method
    if method.selection == "none":
        raise RunError("this run of FedPick has no selector (method.selection is 'none')")
    down, mine = state.held(client)
    with torch.no_grad():
        mask: Tensor = method.mask(state.site.task.served, trees.over(down, mine).selector, z)
    return mask


def selection(subject: Subject, options: Options) -> Result:
    """Say which share of the features FedPick selects in every domain."""
    subject.needs("a selection of features", "fedpick")
    state, ids = subject.last, subject.chosen(options.client)
    found = {subject.names[c]: feature.selection_ratio(_mask(state, c, options)) for c in ids}
    rows = [[name, percent(value)] for name, value in found.items()]
    figure = studies.bars({"selected": [100 * v for v in found.values()]}, list(found), "features selected (%)")
    return Result(dict(found), [], ["client", "selected %"], rows, figure)


def _mask(state: State, client: int, options: Options, part: str = "test") -> Tensor:
    x, _ = state.samples(client, part, options.samples)
    return picked(state, client, state.seen(client, x))


def fisher(subject: Subject, options: Options) -> Result:
    """Compare the Fisher scores of selected and rejected features."""
    subject.needs("a selection of features", "fedpick")
    state, ids = subject.last, subject.chosen(options.client)
    found = {}
    for client in ids:
        x, y = state.samples(client, limit=options.samples)
        z = state.seen(client, x)
        found[subject.names[client]] = feature.contrast(z, picked(state, client, z), y)
    rows = [[name, f"{own.selected:.4f}", f"{own.rejected:.4f}"] for name, own in found.items()]
    higher = sum(own.selected > own.rejected for own in found.values())
    says = [f"selected features score higher in {higher} of {len(found)} domains"]
    groups: dict[str, list[float | None]] = {
        "selected": [own.selected for own in found.values()],
        "rejected": [own.rejected for own in found.values()],
    }
    figure = studies.bars(groups, list(found), "mean Fisher score")
    return Result(plain(found), says, ["client", "selected", "rejected"], rows, figure)


def feature_overlap(subject: Subject, options: Options) -> Result:
    """Compare which features two domains select most often."""
    subject.needs("a selection of features", "fedpick")
    ids = subject.chosen(None)
    found = feature.overlaps([_mask(subject.last, c, options) for c in ids])
    figure = studies.matrices({"features selected most often": found.matrix}, subject.names, "share in common (Jaccard)")
    return Result(plain(found), [f"mean over pairs of domains {found.mean:.3f}; chance would give 0.333"], figure=figure)


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
        if state.round >= subject.run.settings.rounds and rounds:
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
