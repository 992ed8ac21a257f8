"""Run a race: rung by rung, each survivor going on from where it is, then the best of every method on fresh seeds."""

import hashlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ... import machine
from ...errors import InputError, PerfedError, RunError
from ...partition import Split
from ...trackers import check
from .. import code, parallel
from ..assemble import AnyMethod, method_of
from ..choice import Choice
from ..compare import train as train_all
from ..compare import workers
from ..experiment import Experiment
from ..folder import RunFolder, fresh
from ..run import Begun, begin, extend
from ..seed import OnRound
from ..settle import introduced
from . import draw
from .ask import Wanted
from .folder import RaceFolder
from .plan import DIVIDE, RacePlan, Racer
from .prepare import Note, Ready, again, blinded, data_of, ready
from .stand import Candidate, judge, ranked

LOOSE = 0.5  # a survivor's last stretch makes up for rounding before it, but never by more than this part of a full run


@dataclass
class Contest:
    """A race at work."""

    folder: RaceFolder
    ready: Ready
    command: str = ""
    on_round: OnRound | None = None
    note: Note | None = None
    everybody: dict[str, list[Candidate]] = field(default_factory=dict)  # everybody, by method
    rungs: list[dict[str, Any]] = field(default_factory=list)

    @property
    def plan(self) -> RacePlan:
        return self.ready.plan

    def length(self, racer: Racer) -> int:
        """Return the rounds of a full run of a method as it comes."""
        return self.ready.purse.length(racer, self.plan.first(racer))

    def experiment(self, one: Candidate, racer: Racer) -> Experiment:
        """Return what a candidate runs."""
        return racer.setting(one.values, self.length(racer))

    def method(self, one: Candidate, racer: Racer) -> AnyMethod:
        return method_of(self.experiment(one, racer))

    def check(self, racer: Racer) -> draw.Check:
        """Return what refuses settings that a method cannot be trained with on these clients."""
        made = self.ready.blind.assemble(blinded(racer.setting({}, self.length(racer))), self.plan.seed)
        fewest = made.experiment.sampling.fewest(len(made.federation))
        return lambda method: method.check(made.site.task, made.federation.sizes, fewest)

    def say(self, text: str) -> None:
        if self.note:
            self.note(text)


def run(
    wanted: Wanted,
    on_round: OnRound | None = None,
    command: str = "",
    begun: Begun | None = None,
    note: Note | None = None,
    total: Callable[[int], None] | None = None,
) -> RaceFolder:
    """Run a race in a folder of its own; ``begun`` hears which, ``note`` what happens, ``total`` how many rounds there are."""
    first = wanted.experiments[0]
    check(first.track)
    first.engine.check()
    made = ready(wanted, note)
    plan = made.plan
    decided = hashlib.sha256("".join(own.experiment.digest() for own in plan.racers).encode()).hexdigest()
    folder = RaceFolder(fresh(first.out, f"{'tune' if plan.plainly else 'race'}-{first.data.stem}-{decided[:8]}", first.name))
    with folder.alone():
        folder.put_split(made.split)
        made = _filed(made, folder)
        plan = made.plan
        own = {f"{racer.name}-{what}": name for racer in plan.racers for what, name in racer.experiment.own.items()}
        kept = {"code": code.keep(own, folder.code)} if own else {}
        stamp = {"began": datetime.now(UTC).isoformat(timespec="seconds"), "command": command, **machine.facts()}
        folder.begin({"plan": plan.plain(), "data": made.samples.digest(), "split": made.split.digest(), **stamp, **kept})
        if begun:
            begun(folder.path, introduced(plan.racers[0].experiment.but(seeds=(plan.seed,)), made.blind))
        return _go(Contest(folder, made, command, on_round, note), total)


def resume(
    path: Path | str,
    on_round: OnRound | None = None,
    given: Mapping[str, Any] | None = None,
    note: Note | None = None,
    total: Callable[[int], None] | None = None,
) -> RaceFolder:
    """Go on with a race that was interrupted; it ends as if it never had been."""
    folder = RaceFolder(path)
    with folder.alone():
        noted = folder.noted
        plan = _again(folder, RacePlan.of(noted["plan"]), dict(given or {}))
        samples = data_of(plan, dict(given or {}))
        if samples.digest() != noted["data"]:
            raise RunError(f"the data set '{samples.name}' is not the one that '{folder.path}' was started with")
        split = folder.split()
        if split.digest() != noted["split"]:
            raise RunError(f"'{folder.shares}' is not the split that the race was started with")
        folder.unsum()
        return _go(Contest(folder, again(plan, samples, split), noted["command"], on_round, note), total)


def _filed(made: Ready, folder: RaceFolder) -> Ready:
    """Return a race whose split, where it was given as an object, is named by the file that the race keeps of it."""
    if not isinstance(made.plan.racers[0].experiment.split, Split):
        return made
    racers = tuple(replace(own, experiment=own.experiment.but(split=folder.shares)) for own in made.plan.racers)
    plan = replace(made.plan, racers=racers)
    return replace(made, plan=plan, purse=replace(made.purse, plan=plan))


def _again(folder: RaceFolder, plan: RacePlan, given: dict[str, Any]) -> RacePlan:
    """Return a recorded plan with the user's own code, which must not have changed, and objects that are given again."""
    noted, racers = folder.noted.get("code") or {}, []
    for racer in plan.racers:
        asked, changed = racer.experiment, dict[str, Any]()
        for what, thing in given.items():
            choice: Choice = getattr(asked, what)
            if choice.known is None:
                raise InputError(f"{what} has no effect: '{folder.path}' knows its {what} by name, {choice.name}")
            code.same(choice.known, thing, what)
            changed[what] = choice.model_copy(update={"made": thing})
        own = {f"{racer.name}-{what}": name for what, name in asked.own.items()}
        for what, reference in code.unchanged(own, noted, folder.code).items():
            part = what.removeprefix(f"{racer.name}-")
            if part in ("method", "model"):
                changed[part] = getattr(asked, part).model_copy(update={"name": reference})
        racers.append(replace(racer, experiment=asked.but(**changed)))
    return replace(plan, racers=tuple(racers))


def _go(job: Contest, total: Callable[[int], None] | None) -> RaceFolder:
    """Race and test what is left of it."""
    plan = job.plan
    if total:
        total(rounds(job))
    purse = job.ready.purse
    start = f"{len(plan.racers)} methods, {plan.candidates} settings each, {plan.rounds} rounds"
    job.say(f"{start}; {purse.share:,.0f} client-steps a method to race and {purse.total:,.0f} in all")
    for name, why in plan.left_out.items():
        job.say(f"{name} cannot run here: {why}")
    contend(job)
    best = {racer.name: found[0] for racer in plan.racers if (found := _alive(job, racer))}
    if not best:
        raise InputError(f"no setting of any method came through: {_first_reason(job)}; a smaller budget.lr range may help")
    return _test(job, best)


def _first_reason(job: Contest) -> str:
    reasons = [one.why for own in job.everybody.values() for one in own if one.why]
    return max(set(reasons), key=reasons.count) if reasons else "nobody has a score"


def rounds(job: Contest) -> int:
    """Return about how many rounds a race has to go, the start of each run counted as one."""
    plan, found = job.plan, 0
    for racer in plan.racers:
        full = job.length(racer)
        found += round(full * plan.runs) + plan.candidates + plan.tested * (full + 1)
    done = sum(seed.reached + 1 for run in job.folder.runs for seed in run.seeds.values() if seed.reached is not None)
    return max(found - done, 0)


def contend(job: Contest) -> None:
    """Race to the last rung: of every method a third goes on each time, two to the end."""
    drawn = job.folder.standings["drawn"]
    for rung, size in enumerate(job.plan.sizes):
        if rung == 0:
            for wave in _waves(job, drawn):
                _train(job, wave, rung)
        else:
            going = {racer.name: _alive(job, racer)[:size] for racer in job.plan.racers}
            _train(job, going, rung)
        _close(job, rung)


def _waves(job: Contest, drawn: Mapping[str, list[Any]]) -> Any:
    """Draw the first rung's candidates: all at once, or in three waves where each learns from those before."""
    plan, count = job.plan, job.plan.candidates
    for racer in plan.racers:
        spread = drawn.get(racer.name) or draw.spread(racer, count, plan.seed, job.check(racer))
        enough = max(2, -(-count // DIVIDE)) if plan.sampler == "tpe" else count
        job.everybody[racer.name] = [Candidate(racer.name, number, dict(values)) for number, values in enumerate(spread[:enough])]
    yield {name: list(own) for name, own in job.everybody.items()}
    while plan.sampler == "tpe" and any(len(own) < count for own in job.everybody.values()):
        wave = {}
        for racer in plan.racers:
            own = job.everybody[racer.name]
            more = min(max(2, -(-count // DIVIDE)), count - len(own))
            known = drawn.get(racer.name, [])[len(own) : len(own) + more]
            if len(known) < more and more:
                known = draw.learned(racer, [(one.values, one.score) for one in own], more, plan.seed, job.check(racer))
            wave[racer.name] = [Candidate(racer.name, len(own) + place, dict(values)) for place, values in enumerate(known)]
            job.everybody[racer.name] = [*own, *wave[racer.name]]
        _write(job)
        yield wave


def _alive(job: Contest, racer: Racer) -> list[Candidate]:
    """Return the candidates of a method that ended the last rung with a score, the best first."""
    return ranked([one for one in job.everybody[racer.name] if one.rung == len(job.rungs) - 1], racer.experiment)


def _train(job: Contest, going: Mapping[str, Sequence[Candidate]], rung: int) -> None:
    """Train candidates to the end of a rung, and judge them."""
    cells, who = [], dict[str, tuple[Candidate, Racer]]()
    shared = job.ready.blind
    for racer in job.plan.racers:
        ends = {one.number: _until(job, one, racer, rung, len(going[racer.name])) for one in going[racer.name]}
        for one in going[racer.name]:
            until = ends[one.number]
            try:
                folder, asked = begun_run(job, one, racer, until)
            except InputError as wrong:  # a value that the method refuses: it falls out before it began
                one.why, one.rung = str(wrong), rung
                continue
            method = method_of(asked)
            one.steps += job.ready.purse.meters[racer.name].spent(
                method, one.rounds, until, served=rung == len(job.plan.sizes) - 1
            )
            one.rounds, one.rung, one.why = until, rung, ""
            who[folder.path.name] = one, racer
            if not folder.seed(job.plan.seed).finished(until):
                cells.append(parallel.Cell(folder, asked, job.plan.seed, shared))

    def fell(cell: parallel.Cell, why: str) -> None:
        if "ended unexpectedly" in why:
            raise RunError(f"{cell.run.path.name}: {why}")
        one = who[cell.run.path.name][0]
        one.score, one.why = None, why

    first = job.plan.racers[0].experiment
    parallel.train(iter(cells), workers(first, len(cells)), job.on_round, fell, engine=first.engine)
    for one, racer in who.values():
        if not one.why:
            lines = job.folder.candidate(racer.name, one.number).seed(job.plan.seed).lines
            judge(one, lines.read(one.rounds), racer.experiment)


def _until(job: Contest, one: Candidate, racer: Racer, rung: int, among: int) -> int:
    """Return the round in which a rung ends for a candidate; in the last one it spends its part of what is left of the share."""
    purse, method = job.ready.purse, job.method(one, racer)
    if rung < len(job.plan.sizes) - 1:
        return max(one.rounds + 1, purse.length(racer, method, job.plan.shares[rung]))
    spent = sum(own.steps for own in job.everybody[racer.name])
    full = purse.length(racer, method)
    until = purse.meters[racer.name].rounds(method, (purse.share - spent) / among, one.rounds, served=True)
    return max(one.rounds + 1, min(until, round(full * (1 + LOOSE))), round(full * (1 - LOOSE)))


def begun_run(job: Contest, one: Candidate, racer: Racer, until: int) -> tuple[RunFolder, Experiment]:
    """Return a candidate's run, made or given more rounds where necessary."""
    folder = job.folder.candidate(racer.name, one.number)
    place = {"out": folder.path.parent, "name": folder.path.name, "seeds": (job.plan.seed,), "snapshots": 0, "keep": "last"}
    asked = blinded(job.experiment(one, racer)).but(rounds=until, **place)
    if not folder.complete:
        shutil.rmtree(folder.path, ignore_errors=True)  # a call before this one ended while making it
        method_of(asked)
        begin(asked, job.ready.blind, job.command)
        return folder, asked
    there = folder.experiment
    if there.digest() != asked.but(rounds=there.rounds).digest():
        raise RunError(f"'{folder.path}' is not what this race draws now; remove it and resume, or start a new race")
    if there.rounds < until:
        extend(folder, until)
    return folder, asked


def _close(job: Contest, rung: int) -> None:
    """Write down how everybody stands at the end of a rung."""
    there = [one for own in job.everybody.values() for one in own if one.rung == rung]
    job.rungs.append({"rung": rung, "standings": [one.plain() for one in there]})
    _write(job)
    racers, best = {racer.name: racer for racer in job.plan.racers}, dict[str, Candidate]()
    for one in ranked(there, job.plan.racers[0].experiment):
        best.setdefault(one.racer, one)
    first = list(best.values())[:3]
    lead = "; ".join(f"{racers[one.racer].title} {one.score:.3f} ({draw.said(one.values)})" for one in first)
    job.say(f"rung {rung + 1} of {len(job.plan.sizes)}, {len(there)} candidates: {lead or 'nobody has a score'}")
    for racer in job.plan.racers:
        own = [one for one in there if one.racer == racer.name]
        if reasons := [one.why for one in own if one.why]:
            often = max(reasons, key=reasons.count)
            job.say(f"{racer.title}: {len(reasons)} of {len(own)} settings fell out without a score, such as: {often}")


def _write(job: Contest) -> None:
    drawn = {name: [one.values for one in own] for name, own in job.everybody.items()}
    job.folder.put_standings({"drawn": drawn, "rungs": job.rungs})


def _test(job: Contest, best: Mapping[str, Candidate]) -> RaceFolder:
    """Run the best setting of every method on fresh seeds, as a comparison of its own."""
    final, shared, runs = job.folder.final, job.ready.whole, list[tuple[RunFolder, Experiment]]()
    track = job.plan.racers[0].experiment.track
    for racer in job.plan.racers:
        if racer.name not in best:
            continue
        settings = {racer.name: best[racer.name].values}
        if job.plan.plainly and best[racer.name].values:
            settings[f"{racer.name}-plain"] = {}
        for name, values in settings.items():
            asked = racer.setting(values, job.length(racer))
            long = job.ready.purse.length(racer, method_of(asked))
            asked = asked.but(rounds=long, seeds=job.plan.seeds, out=final.path, name=name, track=track)
            found = RunFolder(final.path / name)
            if not found.complete:
                shutil.rmtree(found.path, ignore_errors=True)
                begin(asked, shared, job.command)
            runs.append((found, asked))
    final.begin([found for found, _ in runs], job.command)
    job.say(f"the best setting of each of {len(best)} methods on fresh seeds {', '.join(map(str, job.plan.seeds))}")
    try:
        train_all(final, runs, shared, job.on_round)
    except PerfedError as wrong:
        raise RunError(f"the test on fresh seeds cannot be run: {wrong}") from wrong
    return job.folder
