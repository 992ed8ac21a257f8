"""Analyses that need nothing but the record: what was scored, sent, timed and who took part."""

from collections.abc import Sequence

import numpy as np

from ..errors import InputError, RunError
from ..evaluate.summary import rates
from ..report import figures, pictures, studies
from ..report.read import read
from ..report.studies import Frame, Line
from ..runs.assemble import method_of
from .communication import cost_to_target
from .convergence import convergence
from .distribution import distribution
from .fairness import fairness, gains
from .redone import one_round
from .result import Options, Result, percent, plain
from .series import best, named, scored, weighted
from .stability import drop, participation, swing
from .subject import Subject
from .timing import timing


def before_and_after(subject: Subject, options: Options) -> Result:
    """Set accuracy and loss before local training beside those after it; where nobody recorded the latter, do one round again."""
    if not any(line.get("after") for line in subject.lines):
        return one_round(subject, options)
    found = convergence(subject.lines)
    rounds, name = [float(number) for number in found.rounds], named(subject.lines)
    frames = [
        Frame(
            "loss on test samples",
            [Line("before local training", rounds, found.loss_before), Line("after", rounds, found.loss_after)],
            "loss",
        ),
        Frame(
            name,
            [
                Line("before local training", rounds, [100 * value for value in found.accuracy_before]),
                Line("after", rounds, [100 * value for value in found.accuracy_after]),
            ],
            f"{name} (%)",
        ),
    ]
    settled = found.settled()
    says = [
        f"local training moves the loss by at most 0.01 from round {settled} on"
        if settled
        else "local training moves the loss by more than 0.01 to the end"
    ]
    return Result(plain(found) | {"settled": settled}, says, figure=studies.lines(frames))


def spread(subject: Subject, options: Options) -> Result:
    """Measure how evenly accuracy is spread over the clients."""
    found = fairness(subject.lines)
    rows = [
        ["round", str(found.round)],
        *([name, percent(getattr(found, name))] for name in ("weighted", "mean", "std", "cv", "worst", "worst_decile", "best")),
    ]
    values = plain(found)
    scores, name = rates(best(subject.lines)["test"]), named(subject.lines)
    groups: dict[str, list[float | None]] = {name: [None if np.isnan(s) else 100 * float(s) for s in scores]}
    says = []
    if options.reference is not None:
        other = Subject(options.reference, subject.seed)
        against = rates(best(other.lines)["test"])
        compared = gains(list(np.nan_to_num(scores)), list(np.nan_to_num(against)))
        values["gains"] = plain(compared)
        groups[f"{other.method} (reference)"] = [None if np.isnan(s) else 100 * float(s) for s in against]
        says.append(
            f"{compared.gained} clients gain over {other.method}, {compared.lost} lose, "
            f"{100 * compared.mean:+.2f} points on average"
        )
    figure = studies.bars(groups, subject.names, f"{name} in the best round (%)")
    return Result(values, says, ["figure", "%"], rows, figure)


def drawn_participation(subject: Subject, options: Options) -> Result:
    """Say who took part, and how much accuracy still moves; with a reference, what drawing participants costs."""
    who, moved = participation(subject.lines, len(subject.names)), swing(subject.lines)
    values, name = {"participation": plain(who), "swing": plain(moved)}, named(subject.lines)
    rows = [
        ["participants per round", f"{percent(who.least)} to {percent(who.most)} %, mean {percent(who.mean)} %"],
        ["rounds per client", f"{min(who.visits)} to {max(who.visits)}"],
        [f"{name} over the last {moved.rounds} rounds", f"{percent(moved.mean)} ± {percent(moved.std)}"],
        ["largest fall between two rounds", f"{100 * moved.largest_fall:.2f} points"],
    ]
    if options.reference is not None:
        both = (read(path).rounds.values() for path in (subject.path, options.reference))
        ours, theirs = ([100 * weighted(best(lines)) for lines in seeds] for seeds in both)
        lost = drop(theirs, ours)
        values["drop"] = plain(lost)
        rows.append(["loss against the reference", f"{lost.drop:+.2f} points over {len(ours)} seeds"])
    numbers = [float(line["round"]) for line in scored(subject.lines)]
    frames = [
        Frame(name, [Line("weighted", numbers, [100 * weighted(line) for line in scored(subject.lines)])], f"{name} (%)"),
        Frame(
            "participants",
            [Line("participants", numbers, [float(len(line["participants"])) for line in scored(subject.lines)])],
            "clients",
        ),
    ]
    return Result(values, [], ["what", "value"], rows, studies.lines(frames, legend=False))


def bytes_to_target(subject: Subject, options: Options) -> Result:
    """Count MiB until a target accuracy, as sent and as DualFed counts."""
    if options.target is None:
        raise InputError("communication needs a target accuracy, such as --target 0.85")
    rule = subject.run.experiment.report
    true = cost_to_target(subject.lines, options.target, rule=rule)
    counted = cost_to_target(subject.lines, options.target, rule=rule, count="paper", parameters=parameters(subject))
    says, name = [], named(subject.lines)
    if not true.reached:
        says.append(
            f"never reached: the best {name} is {percent(true.best)} % in {true.rounds_run} rounds, "
            f"the target {percent(options.target)} %"
        )
    rows = [["what all clients sent and received", str(true)], ["as DualFed's Table 8 counts", str(counted)]]
    numbers = [float(line["round"]) for line in subject.lines]
    sent = np.cumsum([(line["bytes_up"] + line["bytes_down"]) / 2**20 for line in subject.lines]).tolist()
    tested = scored(subject.lines)
    by_round = dict(zip(numbers, sent, strict=True))
    frame = Frame(
        f"{name} over what was sent",
        [
            Line(name, [by_round[float(line["round"])] for line in tested], [100 * weighted(line) for line in tested]),
            Line("target", [0.0, sent[-1]], [100 * options.target] * 2),
        ],
        f"{name} (%)",
        "MiB, all clients, both ways",
    )
    return Result({"payload": plain(true), "paper": plain(counted)}, says, ["counting", "cost"], rows, studies.lines([frame]))


def parameters(subject: Subject) -> int:
    """Return the parameters that DualFed's Table 8 counts per client and way: those sent, and DualFed's own projector."""
    trained = next((line for line in subject.lines if line["round"] > 0 and line["participants"]), None)
    if trained is None:
        raise RunError(f"'{subject.path}' has no finished round to count bytes in")
    sent = int(trained["bytes_up"]) // (4 * len(trained["participants"]))
    own = method_of(subject.experiment).counted
    return sent + (_counted(subject, own) if own else 0)


def _counted(subject: Subject, fields: Sequence[str]) -> int:
    from safetensors import safe_open

    states = subject.folder.states
    if not states:
        raise RunError(f"'{subject.path}' has no checkpoint to count the {' and '.join(fields)} in")
    begin = tuple(f"client-0/mine/{name}/" for name in fields)
    with safe_open(states[-1], framework="np") as file:
        names = [n for n in file.keys() if n.startswith(begin) and "/~" not in n]  # noqa: SIM118
        return sum(int(np.prod(file.get_slice(name).get_shape())) for name in names)


def seconds(subject: Subject, options: Options) -> Result:
    """Say how long a round takes."""
    found = timing(subject.lines)
    names = ("rounds", "total", "mean", "median", "slowest", "train", "test", "rest")
    rows = [[name, f"{getattr(found, name):.3g}"] for name in names]
    trained = [line for line in subject.lines if line["round"] > 0]
    numbers = [float(line["round"]) for line in trained]
    parts = [
        Line("whole round", numbers, [line["seconds"] for line in trained]),
        Line("training", numbers, [line["seconds_train"] for line in trained]),
        Line("testing", numbers, [line["seconds_test"] for line in trained]),
    ]
    return Result(plain(found), [], ["seconds", "value"], rows, studies.lines([Frame("", parts, "seconds per round")]))


def learning_curves(subject: Subject, options: Options) -> Result:
    """Draw accuracy and loss over rounds, over all seeds."""
    runs = [read(subject.path)] + ([read(options.reference)] if options.reference else [])
    picture = figures.curves(runs, figure=subject.run.experiment.report, series=subject.run.experiment.series)
    summary = runs[0].summary(report=subject.run.experiment.report)
    return Result({"accuracy": summary}, [], figure=picture)


def label_bubbles(subject: Subject, options: Options) -> Result:
    """Draw which client holds how much of which class."""
    found = distribution(subject.clients["labels"])
    rows = [
        [name, str(size), str(held), percent(most), percent(skew)]
        for name, size, held, most, skew in zip(subject.names, found.sizes, found.held, found.majority, found.skew, strict=True)
    ]
    says = [f"mean distance of a client's labels from those of all: {found.mean_skew:.3f} (0 alike, 1 nothing in common)"]
    figure = pictures.bubbles(found.counts, subject.names, subject.clients["classes"])
    columns = ["client", "samples", "classes", "largest class %", "distance %"]
    return Result(plain(found), says, columns, rows, figure)
