"""From what is asked to a plan: who can run here, what a client-step takes, and how far the budget goes."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from time import perf_counter
from typing import Any

import numpy as np

from ...data import Samples
from ...errors import InputError
from ...evaluate.metrics import chosen_by, defined
from ...federation import Federation
from ...local.budget import Budget
from ...partition import Split
from ...transport.stacked import why_not
from ..assemble import Assembled, SharedData, kind_of, metrics_of, samples_of, split_of
from ..choice import Choice
from ..compare import workers
from ..experiment import Experiment
from ..seed import Seed
from ..settle import settled
from .ask import ALL, Wanted
from .meter import Meter
from .plan import CANDIDATES, LR, Purse, RacePlan, Racer, searched, within

Note = Callable[[str], None]

TRIAL = 3  # rounds of a pilot, of which the first is not timed
SPARE = 0.9  # of the minutes: two processes on two cores are not quite twice as fast as one


@dataclass(frozen=True)
class Ready:
    """A race that can begin: its plan, its data, and who owns what."""

    plan: RacePlan
    purse: Purse
    samples: Samples
    split: Split

    @property
    def blind(self) -> SharedData:
        """The data as the race sees it: nobody has test samples."""
        return SharedData(self.samples, {self.plan.seed: unseen(self.split)})

    @property
    def whole(self) -> SharedData:
        """The data as fresh seeds see it: the same clients in each of them."""
        return SharedData(self.samples, dict.fromkeys(self.plan.seeds, self.split))


def unseen(split: Split) -> Split:
    """Return a split without its test samples."""
    return replace(split, test=tuple(np.empty(0, np.int64) for _ in split.test))


def blinded(experiment: Experiment) -> Experiment:
    """Return an experiment whose data, where they are an object that is shared out already, have no test samples."""
    given = experiment.data.made
    if not isinstance(given, Federation):
        return experiment
    hidden = replace(given, test=tuple(rows[:0] for rows in given.test))
    return experiment.but(data=experiment.data.model_copy(update={"made": hidden}))


def ready(wanted: Wanted, note: Note | None = None) -> Ready:
    """Return a race that can begin; what cannot be raced is refused in a sentence."""
    seed, first = wanted.seed, wanted.experiments[0]
    samples = samples_of(first)
    split = split_of(first.but(split_seed=seed if first.split_seed is None else first.split_seed), samples, seed)
    if not any(map(len, split.validation)):
        raise InputError("a race chooses on validation data and these clients have none; validation=0.2 holds some back")
    shared = SharedData(samples, {seed: unseen(split)})
    racers, left_out = list[Racer](), dict[str, str]()
    sites: dict[str, Assembled] = {}
    for racer in _named(wanted, samples, seed):
        try:
            sites[racer.name] = shared.assemble(_long(blinded(racer.experiment), wanted), seed)
            racers.append(racer)
        except InputError as refused:
            if not wanted.everyone:
                raise
            left_out[racer.name] = str(refused)
    if not racers:
        raise InputError(f"no method can be raced here: {next(iter(left_out.values()))}")
    _check(sites[racers[0].name])
    racers = _carried(racers, sites, note)
    meters = {racer.name: _meter(racer, sites[racer.name], seed) for racer in racers}
    plan = RacePlan(
        tuple(racers),
        wanted.rounds or first.rounds,
        int(wanted.options.get("candidates") or CANDIDATES),
        seed,
        wanted.tested,
        wanted.options.get("sampler", "quasi"),
        bool(wanted.options.get("own_choice")),
        wanted.alone,
        left_out,
    )
    plan = _fitting(_paid(plan, wanted, meters, shared, note), wanted)
    purse = Purse(plan, meters)
    purse.check()
    return Ready(plan, purse, samples, split)


def _fitting(plan: RacePlan, wanted: Wanted) -> RacePlan:
    """Return the plan without those methods of all whose schedule does not fit into its length."""
    kept, left_out = [], dict(plan.left_out)
    for racer in plan.racers:
        try:
            plan.first(racer)
            kept.append(racer)
        except InputError as refused:
            if not wanted.everyone:
                raise
            left_out[racer.name] = str(refused)
    return replace(plan, racers=tuple(kept), left_out=left_out)


def again(plan: RacePlan, samples: Samples, split: Split) -> Ready:
    """Return a race that was begun, ready to go on."""
    shared = SharedData(samples, {plan.seed: unseen(split)})
    sites = {
        own.name: shared.assemble(_stated(blinded(own.setting({}, plan.rounds)), plan.rounds), plan.seed) for own in plan.racers
    }
    meters = {racer.name: _meter(racer, sites[racer.name], plan.seed) for racer in plan.racers}
    return Ready(plan, Purse(plan, meters), samples, split)


def _named(wanted: Wanted, samples: Samples, seed: int) -> list[Racer]:
    """Return every method with a name of its own and what is searched of it."""
    found, names = list[Racer](), list[str]()
    usual = [one.budget.lr for one in wanted.experiments]
    common = max(usual, key=usual.count)
    for one in wanted.experiments:
        kind, stem = kind_of(one.method), one.method.stem
        count = names.count(stem) + 1
        names.append(stem)
        fixed = [*one.method.options, *wanted.fixed.get(ALL, ()), *wanted.fixed.get(stem, ())]
        fixed += [LR] if one.budget.lr != common else []
        if one.method.made is not None:
            made = one.method.made
            fixed += [f.name for f in fields(made) if f.name != "budget" and getattr(made, f.name) != f.default]
            fixed += [LR] if made.budget != Budget() else []
        asked = {**wanted.search.get(ALL, {}), **wanted.search.get(stem, {})}
        ranges = searched(kind, fixed, one.budget, asked)
        owner = seed if one.split_seed is None else one.split_seed
        by = chosen_by(one.choose, samples.task)  # from here on the main score of whatever is learned has its own name
        one = settled(one, samples).but(split_seed=owner, track=(), name=None, choose=by)
        found.append(Racer(stem if count == 1 else f"{stem}-{count}", one, ranges))
    return found


def _long(experiment: Experiment, wanted: Wanted) -> Experiment:
    """Return an experiment of the longest race there is, where its length is not known yet: schedules must fit in."""
    return experiment if wanted.rounds else experiment.but(rounds=max(experiment.rounds, 1000))


def _stated(experiment: Experiment, rounds: int) -> Experiment:
    return experiment.but(rounds=rounds)


def _check(made: Assembled) -> None:
    """Refuse a metric by which nothing can be chosen on these clients' validation samples."""
    federation = made.federation
    chooser = next(metric for metric in metrics_of(made.experiment, made.site.task) if metric.name == made.experiment.choose)
    defined(chooser, (federation.y[rows] for rows in federation.validation), federation.classes)


def _meter(racer: Racer, made: Assembled, seed: int) -> Meter:
    asked = racer.experiment
    meter = Meter(made.federation.sizes, asked.sampling, seed, asked.budget.batch_size, made.site.task.needs_pairs)
    if asked.budget.steps is not None:  # a pass is then so many batches, whatever a client has
        meter.batches = [asked.budget.steps] * len(meter.batches)
    return meter


def _carried(racers: list[Racer], sites: dict[str, Assembled], note: Note | None) -> list[Racer]:
    """Return racers whose transport is written into the plan, so that every candidate's arithmetic is the same for good."""
    asked = racers[0].experiment.transport
    if asked == "auto":
        asked = "serial"  # candidates share the cores out, so that clients need not
        said = [sites[racer.name].faster() for racer in racers]
        if note and any(said):
            note(next(filter(None, said)))
    found = []
    for racer in racers:
        name = "serial" if asked == "stacked" and why_not(sites[racer.name].site) else asked
        found.append(replace(racer, experiment=racer.experiment.but(transport=name)))
    return found


def _paid(plan: RacePlan, wanted: Wanted, meters: dict[str, Meter], shared: SharedData, note: Note | None) -> RacePlan:
    """Return the plan with the length, or the number of candidates, that steps or minutes pay for."""
    steps, minutes = wanted.options.get("steps"), wanted.options.get("minutes")
    candidates = wanted.options.get("candidates")
    if minutes is not None:
        pilot = {racer.name: _seconds(racer, meters[racer.name], shared, plan) for racer in plan.racers}
        mean, first = sum(pilot.values()) / len(pilot), plan.racers[0].experiment
        cores = workers(first, len(plan.racers) * plan.candidates)
        steps = 60 * minutes * SPARE * cores / mean
        plan = replace(plan, pilot=pilot, minutes=float(minutes))
        if note:
            pace = f"a client-step takes {1000 * mean:.2g} ms here"
            note(f"{pace}: {minutes:g} minutes are about {steps:,.0f} client-steps on {cores} cores")
    if steps is None:
        return plan
    return within(plan, meters, float(steps), wanted.rounds, int(candidates) if candidates else None)


def _seconds(racer: Racer, meter: Meter, shared: SharedData, plan: RacePlan) -> float:
    """Return what a client-step of a racer takes, tests included, as measured in a few rounds."""
    asked = blinded(racer.setting({}, 1000)).but(rounds=TRIAL, keep="last")
    seed = Seed(shared.assemble(asked, plan.seed))
    times: list[float] = []
    transport, _ = seed.transport(asked.transport)
    try:
        seed.train(transport, lambda _, done: times.append(perf_counter()))
    finally:
        transport.close()
    return (times[-1] - times[1]) / (meter.spent(seed.made.method, 1, TRIAL))


def data_of(plan: RacePlan, given: dict[str, Any]) -> Samples:
    """Return the data set of a plan; ``given`` are objects in the place of those that a record only describes."""
    first = plan.racers[0].experiment
    return samples_of(first if "data" not in given else first.but(data=Choice(name=first.data.name, made=given["data"])))
