"""A run: begin it in a folder, train its seeds, go on with it, sum it up."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any

from .. import machine
from ..data import Samples
from ..errors import InputError, RunError
from ..evaluate.metrics import facts
from ..trackers import check
from ..transport.flops import per_step
from . import code
from .assemble import SharedData, asked_for, samples_of, stretched, there
from .choice import Choice
from .engine import Engine
from .experiment import Experiment
from .folder import RunFolder, fresh
from .place import kinds_of
from .seed import OnRound, Seed, Stop
from .settle import introduced, settled
from .sums import digests as digests
from .sums import summed as summed
from .trained import trained
from .unseen import clients_of, kept_out

Begun = Callable[[Path, str], None]  # the folder, and who the clients are


def run(
    experiment: Experiment,
    on_round: OnRound | None = None,
    command: str = "",
    begun: Begun | None = None,
    prepare: bool = False,
) -> RunFolder:
    """Run an experiment from the start in a folder of its own, or only ``prepare`` that; ``begun`` hears who the clients are."""
    check(experiment.track)
    experiment.engine.check()
    samples = samples_of(experiment)
    experiment = settled(experiment, samples)
    shared = SharedData.of(experiment, samples)
    made = shared.assemble(experiment, experiment.seeds[0])  # refuse before anything is written
    folder = begin(experiment, shared, command)
    if begun:
        begun(folder.path, "\n".join(filter(None, (introduced(experiment, shared), made.faster()))))
    return folder if prepare else finished(folder, experiment, shared, on_round)


def rehearse(experiment: Experiment, on_round: OnRound | None = None) -> dict[int, Seed]:
    """Run an experiment without a record; return every seed as it ended."""
    if experiment.track:
        raise InputError(f"track={','.join(experiment.track)} is for runs that are recorded; say where, such as out='runs'")
    if experiment.keep != "last":
        raise InputError(f"keep={experiment.keep} is for runs that are recorded; say where, such as out='runs'")
    if experiment.engine.name == "ray":
        raise InputError("engine=ray is for runs that are recorded; say where, such as out='runs'")
    samples = samples_of(experiment)
    experiment = settled(experiment, samples)
    shared, ended = SharedData.of(experiment, samples), {}
    for number in experiment.seeds:
        seed = Seed(shared.assemble(experiment, number))
        transport, _ = seed.transport(experiment.transport)
        try:
            seed.train(transport, on_round)
        finally:
            transport.close()
        ended[number] = seed
    return ended


def resume(
    folder: RunFolder,
    on_round: OnRound | None = None,
    rounds: int | None = None,
    given: Mapping[str, Any] | None = None,
    engine: Engine | None = None,
) -> RunFolder:
    """Finish a run where its last checkpoint left it, or go on to more rounds; a finished run is left as it is.

    Args:
        folder: the run.
        on_round: hears of every round.
        rounds: how many it shall have in all, where that is more than were asked for.
        given: objects that cannot be found by name again: method, model, data.
        engine: who trains what is left, where that is another than the run began with.
    """
    experiment = known(folder, given)
    if engine is not None:
        experiment = experiment.but(engine=engine)
    for what in ("method", "model", "data"):  # refuse before anything is written
        there(what, getattr(experiment, what))
    folder.fits()
    if rounds is not None:
        extend(folder, rounds)
        experiment = experiment.but(rounds=rounds)
    return finished(folder, experiment, reshared(folder, experiment), on_round)


def finished(folder: RunFolder, experiment: Experiment, shared: SharedData, on_round: OnRound | None) -> RunFolder:
    """Train what is left of every seed, and sum the run up."""
    if experiment.engine.name == "ray":
        from .parallel import Cell
        from .parallel import train as train_cells

        left = [seed for seed in experiment.seeds if not folder.seed(seed).finished(experiment.rounds)]
        train_cells((Cell(folder, experiment, seed, shared) for seed in left), 1, on_round, engine=experiment.engine)
    else:
        for seed in experiment.seeds:
            train(folder, experiment, seed, shared, on_round)
    sum_up(folder)
    return folder


def known(folder: RunFolder, given: Mapping[str, Any] | None = None) -> Experiment:
    """Return a run's experiment with the user's own code and objects in it; what changed since the run began is refused."""
    experiment = folder.experiment
    changed: dict[str, Any] = {}
    for what, thing in (given or {}).items():
        choice: Choice = getattr(experiment, what)
        if choice.known is None:
            raise InputError(f"{what} has no effect: '{folder.path}' knows its {what} by name, {choice.name}")
        again = Experiment(method=thing, budget=experiment.budget).method.made if what == "method" else thing
        code.same(choice.known, again, what)
        changed[what] = choice.model_copy(update={"made": again})
    return located(folder, experiment.but(**changed))


def located(folder: RunFolder, experiment: Experiment) -> Experiment:
    """Return a run's experiment with the user's own code where it lies on this machine; code that changed is refused."""
    changed: dict[str, Any] = {}
    noted = folder.manifest.get("code") or {}
    for what, reference in code.unchanged(experiment.own, noted, folder.code).items():
        if what in ("method", "model"):
            changed[what] = getattr(experiment, what).model_copy(update={"name": reference})
        else:
            place = int(what.removeprefix("metrics-"))
            before = changed.get("metrics", experiment.metrics)
            changed["metrics"] = (*before[:place], reference, *before[place + 1 :])
    return experiment.but(**changed)


def extend(folder: RunFolder, rounds: int) -> None:
    """Give a run more rounds to go; it will end in the bits of a run that had this length from the start."""
    extensible(folder, rounds)
    before = folder.experiment
    if rounds == before.rounds:
        return
    after, manifest = before.but(rounds=rounds), folder.manifest
    folder.unsum()
    earlier = [*manifest.get("earlier", ()), {"settings": manifest["settings"], "rounds": before.rounds}]
    folder.put_manifest(manifest | {"settings": after.digest(), "earlier": earlier})
    folder.put_experiment(after)


def extensible(folder: RunFolder, rounds: int) -> None:
    """Refuse to go on with a run that would not be what it had been with so many rounds from the start."""
    experiment, path = folder.experiment, folder.path
    if rounds < experiment.rounds:
        raise RunError(f"'{path}' has {experiment.rounds} rounds; it can go on to more, not to {rounds}")
    if rounds > experiment.rounds and experiment.method.known is None and stretched(known(folder)):
        raise RunError(
            f"'{path}' cannot go on: the schedule of {experiment.method.name} is laid out for its {experiment.rounds} rounds; "
            f"start a new run with rounds={rounds}"
        )
    if rounds > experiment.rounds:
        for seed in folder.seeds.values():
            seed.stateful()
    if str(folder.manifest["command"]).startswith("perfed paper "):
        raise RunError(f"'{path}' belongs to a paper's table; `perfed paper … --rounds {rounds}` makes a longer one")


def left(folder: RunFolder, rounds: int | None = None) -> int:
    """Return how many rounds a run has to go, the start of each seed counted as one."""
    experiment = folder.experiment
    reached = [folder.seed(seed).reached for seed in experiment.seeds]
    return len(reached) * ((rounds or experiment.rounds) + 1) - sum(number + 1 for number in reached if number is not None)


def reshared(folder: RunFolder, experiment: Experiment, samples: Samples | None = None) -> SharedData:
    """Return the data and the splits that a run was begun with; data or splits that changed since are refused."""
    manifest = folder.manifest
    if "data" not in manifest:
        raise RunError(
            f"'{folder.path}' is the server's record of a deployment: data and private states are at the silos, where "
            "`perfed export SILO` writes a model; `perfed deploy run` goes on with it"
        )
    samples = samples_of(experiment) if samples is None else samples
    if manifest["data"] != samples.digest():
        raise RunError(f"the data set '{experiment.data.name}' is not the one that '{folder.path}' was started with")
    splits = {}
    for seed in experiment.seeds:
        splits[seed] = folder.seed(seed).split()
        if splits[seed].digest() != manifest.get("splits", {}).get(str(seed)):
            raise RunError(f"'{folder.seed(seed).path}' does not hold the split the run was started with")
    return SharedData(samples, splits)


def begin(experiment: Experiment, shared: SharedData, command: str = "") -> RunFolder:
    """Make a run's folder: settings, splits, who the clients are, copies of the user's own code, and the manifest last."""
    folder = RunFolder(fresh(experiment.out, experiment.stem, experiment.name))
    for seed in experiment.seeds:
        made = folder.add_seed(seed)
        made.put_split(shared.splits[seed])
        split = shared.splits[seed]
        made.put_clients(clients_of(shared.samples, split, kept_out(experiment, split.names, seed)))
    folder.put_experiment(experiment)
    own = experiment.own
    manifest = {
        "began": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": command,
        **machine.facts(),
        "device": experiment.device,
        "settings": experiment.digest(),
        "data": shared.samples.digest(),
        "splits": {str(seed): shared.splits[seed].digest() for seed in experiment.seeds},
    }
    told = facts(asked_for(experiment))
    manifest |= ({"code": code.keep(own, folder.code)} if own else {}) | ({"metrics": told} if told else {})
    folder.put_manifest(manifest)
    return folder


def train(
    folder: RunFolder,
    experiment: Experiment,
    seed: int,
    shared: SharedData,
    on_round: OnRound | None = None,
    stop: Stop | None = None,
) -> None:
    """Run what is left of one seed, or until ``stop`` has a reason; a finished seed costs nothing."""
    place = folder.seed(seed)
    if place.finished(experiment.rounds):
        return
    with place.alone():
        folder.unsum()
        place.unfinish()
        began = perf_counter()
        one, reached = trained(folder, shared.assemble(experiment, seed), on_round, stop)
        ended = one.stopped["round"] if one.stopped else experiment.rounds
        final = {"digest": reached, "rounds": ended, "seconds": round(perf_counter() - began, 3)}
        if experiment.protocol == "pflbench":
            final["flops"] = per_step(one.made.site, one.made.server, one.made.first)
        place.put_final(final | ({"stopped": one.stopped} if one.stopped else {}))
        one.settle()


def sum_up(folder: RunFolder) -> dict[str, Any]:
    """Write the summary of a run whose seeds are all there."""
    asked = folder.experiment
    seeds = {seed: folder.seed(seed) for seed in asked.seeds}
    finals, transports = ({}, {})  # type: dict[int, dict[str, Any]], dict[str, dict[str, Any]]
    for seed, place in seeds.items():
        final, transport = place.final, place.transport
        if final is None or transport is None:
            raise RunError(f"seed {seed} of '{folder.path}' is not finished; `perfed resume {folder.path}` goes on with it")
        finals[seed], transports[str(seed)] = final, transport
    stopped = {str(seed): final["stopped"] for seed, final in finals.items() if "stopped" in final}
    flops = [final["flops"] for final in finals.values() if "flops" in final]
    counted = {"flops": sum(flops) / len(flops)} if flops else {}
    lines = {seed: place.lines.read() for seed, place in seeds.items()}
    (folder.path / "summary.json").unlink(missing_ok=True)  # never one that does not fit
    folder.put_manifest(folder.manifest | {"transport": transports} | counted | ({"stopped": stopped} if stopped else {}))
    kinds = kinds_of(seeds.values())
    summary = {
        "method": asked.method.name,
        **_figures(folder, asked, lines, {seed: place.clients for seed, place in seeds.items()}),
        "transport": transports[str(asked.seeds[0])]["name"],
        "run": str(folder.path),
        **({"machines": kinds} if len(kinds) > 1 else {}),
        **digests({seed: str(final["digest"]) for seed, final in finals.items()}),
    }
    folder.put_summary(summary)
    return folder.summary


def _figures(folder: RunFolder, asked: Experiment, lines: dict[int, Any], who: dict[int, Any]) -> dict[str, Any]:
    """Return the figures of a run; where no chain vouches for its lines, what they lack is damage."""
    try:
        return summed(asked, lines, who)
    except (KeyError, TypeError, AttributeError) as wrong:
        if all(seed.lines.chained for seed in folder.seeds.values()):
            raise
        raise RunError(f"the record in '{folder.path}' is damaged: {type(wrong).__name__}: {wrong}") from wrong


def opened(path: Path | str) -> RunFolder:
    """Return a run's folder whose settings are those it was begun with."""
    folder = RunFolder(path)
    folder.experiment  # noqa: B018  (refuses what is no run)
    folder.fits()
    return folder
