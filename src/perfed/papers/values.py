"""The figure that a cell shows, from its run, seed by seed."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..analysis.communication import cost_to_target
from ..analysis.recorded import parameters
from ..analysis.subject import Subject
from ..disk import get_json
from ..errors import InputError, RunError
from ..evaluate.scores import Line
from ..evaluate.summary import choose, rates
from ..report.read import Record, options, read
from ..runs.folder import RunFolder
from .recipe import Reading

SCALE = {"%": 100.0, "1e-2": 100.0}
NOTHING = "no round is scored yet"


class Value(NamedTuple):
    """A cell's figure in the table's unit: mean and deviation over seeds, or why there is none."""

    mean: float | None
    std: float | None = None
    seeds: int = 0
    note: str = ""
    rounds: int = 0  # that every seed has finished
    planned: int = 0
    stopped: tuple[int, ...] = ()  # the rounds after which seeds ended before the last one
    flat: int = 0  # how many of these were flat there
    under_way: tuple[int, ...] = ()  # seeds that do not count yet
    each: Mapping[int, float] = {}  # the figure, seed by seed


def value(path: Path, reading: Reading, place: int | None = None) -> Value:
    """Read a cell's figure from its run folder, finished or not; with a finished seed, those under way do not count yet."""
    if not RunFolder.there(path):
        return Value(None, note="not run yet")
    try:
        run = read(path)
    except RunError as wrong:
        return Value(None, note=str(wrong))
    planned = int(run.settings.get("rounds") or 0)
    ends = {seed: end for seed in run.rounds if (end := _end(run, seed, planned)) is not None}
    counted = list(ends) or list(run.rounds)
    rounds = min(int(run.rounds[seed][-1]["round"]) for seed in counted)
    found: dict[int, float] = {}
    notes: list[str] = []
    for seed in counted:
        try:
            figure, note = _figure(run, seed, reading, place)
        except InputError as wrong:  # a run that has just begun, say, must not hide the others
            figure, note = None, str(wrong)
        if figure is None:
            notes.append(note)
        else:
            found[seed] = figure * SCALE.get(reading.unit, 1.0)
    if not found or (len(found) < len(counted) and reading.measure != "psnr"):  # one seed's uploads are attacked
        return Value(None, note="; ".join(dict.fromkeys(notes)), rounds=rounds, planned=planned)
    values = list(found.values())
    early = [end for end in ends.values() if end.round < planned]
    return Value(
        float(np.mean(values)),
        float(np.std(values)),
        len(found),
        _verdict(run, reading) if reading.measure == "psnr" else "",
        rounds,
        planned,
        tuple(end.round for end in early),
        sum(end.flat for end in early),
        tuple(set(run.rounds) - set(counted)),
        found,
    )


class _End(NamedTuple):
    """Where a seed ended, and whether its curve was flat there (or had all its rounds)."""

    round: int
    flat: bool


def _end(run: Record, seed: int, planned: int) -> _End | None:
    """Return where a seed ended; None while it is under way."""
    last = int(run.rounds[seed][-1]["round"])
    if last >= planned:
        return _End(last, True)
    final = RunFolder(run.path).seed(seed).final
    stopped = final.get("stopped") if final else None
    return _End(last, stopped["flat"]) if stopped is not None and stopped["round"] == last else None


def _figure(run: Record, seed: int, reading: Reading, place: int | None) -> tuple[float | None, str]:
    if reading.measure == "psnr":
        return _attacked(run, seed, reading)
    if reading.measure == "mebibytes":
        return _mebibytes(run, seed, reading)
    if reading.client is not None:
        return _client(run, seed, reading.client, place)
    own = options([run])
    if reading.measure in ("minutes", "minutes_per_round", "rounds"):
        return _pace(run.rounds[seed], own, reading.measure), ""
    figure = own["report"] if reading.measure == "accuracy" else reading.measure
    found = run.summary(**own)["best"]["seeds"][str(seed)][figure]
    return (None, "no accuracy at all, so there is no coefficient of variation") if found is None else (float(found), "")


def _client(run: Record, seed: int, client: str, place: int | None) -> tuple[float | None, str]:
    """Return one client's accuracy: its own best, or that of the round that is best for all."""
    names = run.clients[seed]["names"]
    if place is None and client not in names:
        return None, f"{client} is not here"
    number = names.index(client) if place is None else place
    own = options([run])
    series = own["series"]
    if own["best"] == "per_client":
        scored = [line for line in run.rounds[seed] if line.get(series) and (line["round"] > 0 or run.done == 0)]
        return (float(np.nanmax([rates(line[series])[number] for line in scored])), "") if scored else (None, NOTHING)
    line = choose(run.rounds[seed], "best", report=own["report"], series=series, by=own["choose"])
    return (float(rates(line[series])[number]), "") if line is not None else (None, NOTHING)


def _pace(lines: list[dict[str, object]], own: dict[str, str], measure: str) -> float | None:
    """Return how long it took until the best accuracy was first reached."""
    best = choose(lines, "best", report=own["report"], series=own["series"], by=own["choose"])
    if best is None:
        return None
    until = int(best["round"])
    if measure == "rounds":
        return float(until)
    trained: list[Line] = [line for line in lines if 0 < int(str(line["round"])) <= max(until, 1)]
    minutes = sum(float(line["seconds"]) for line in trained) / 60
    return minutes if measure == "minutes" else minutes / max(1, len(trained))


def _mebibytes(run: Record, seed: int, reading: Reading) -> tuple[float | None, str]:
    if reading.target is None:
        return None, "the recipe names no target"
    lines = run.rounds[seed]
    cost = cost_to_target(
        lines,
        reading.target,
        rule=options([run])["report"],
        count="paper",
        parameters=parameters(Subject(run.path, seed)),
    )
    return (cost.mib, "") if cost.reached else (None, str(cost))


def _attacked(run: Record, seed: int, reading: Reading) -> tuple[float | None, str]:
    place = attacked(run.path, seed, reading)
    if not place.exists():
        return None, f"not attacked yet; `perfed analyze {run.path} attack --scope {reading.scope}` does it"
    return float(get_json(place)["psnr_pfllib"]), ""


def attacked(path: Path, seed: int, reading: Reading) -> Path:
    """Return where the attack on a run's upload is written down."""
    return RunFolder(path).seed(seed).note(f"attack-{reading.scope}")


def _verdict(run: Record, reading: Reading) -> str:
    for seed in run.rounds:
        if attacked(run.path, seed, reading).exists():
            return str(get_json(attacked(run.path, seed, reading))["conclusion"])
    return ""
