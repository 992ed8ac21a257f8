"""What the page shows of a group of runs, as plain values: its state at a glance, and everything about it."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import PerfedError
from ..evaluate.metrics import known
from ..evaluate.summary import curves, figures, main, majority
from ..report.formats import MOMENTS
from ..report.main_score import MainScore
from ..report.names import position, title
from ..report.read import Record, labels, options, read
from ..report.sections import command, facts, lead
from ..report.style import looks
from ..report.tables import STILL, UNFINISHED, comparison
from ..runs.folder import RunFolder
from .find import Group
from .pulse import Pulse, pulse

POINTS = 240  # of a curve; more cannot be seen
COLUMNS = ("validation.weighted", "last.weighted", "best.weighted", "last.mean", "last.std", "cost.bytes_up", "cost.seconds")
SHOWN = ("weighted", "mean", "std", "loss")
ORDER = ("running", "stopped", "waiting", "finished")  # the first that a seed has is its run's state


def glance(group: Group, held: frozenset[int]) -> dict[str, Any]:
    """Return what the list of groups shows, from the ends of the records."""
    found: dict[str, Any] = {"id": group.id, "compared": group.compared, "runs": [], "error": ""}
    for run in group.runs:
        try:
            found["runs"].append(_run(run, held))
        except (PerfedError, ValueError, KeyError, TypeError) as error:
            found["error"] = str(error)
    runs = found["runs"] = sorted(found["runs"], key=lambda run: position(run["method"]))
    seeds = [seed for run in runs for seed in run["seeds"]]
    paces = [seed["pace"] for seed in seeds if seed["pace"]]
    at_work = sum(seed["state"] == "running" for seed in seeds)
    left = sum(seed["left"] * (seed["pace"] or float(np.mean(paces or [0]))) for seed in seeds)
    found |= {
        "title": _title(group, runs),
        "state": _state(run["state"] for run in runs) if runs else "damaged" if found["error"] else "waiting",
        "done": sum(max(0, seed["round"]) for seed in seeds),
        "planned": sum(seed["planned"] for seed in seeds),
        "left": left / at_work if at_work and paces else None,
        "changed": max([seed["changed"] for seed in seeds], default=0.0),
        "best": max((run for run in runs if run["score"] is not None), key=lambda run: run["score"], default=None),
        "deployed": any(seed.silos.exists() for run in group.runs for seed in run.seeds.values()),
        "missing": [f"{run['name']}: {text}" if len(runs) > 1 else text for run in runs for text in run["missing"]],
    }
    return found


def _run(run: RunFolder, held: frozenset[int]) -> dict[str, Any]:
    settings = run.settings
    planned, method = int(settings.get("rounds") or 0), _name(settings.get("method"), run.path.name)
    wanted = [int(seed) for seed in settings.get("seeds") or run.seeds]
    pulses = [pulse(run.seed(number), planned, held) for number in wanted]
    scores = [found["weighted"] for seed in pulses if (found := figures(seed.last.get("test"))) and found["weighted"] is not None]
    return {
        "name": run.path.name,
        "method": method,
        "title": title(method),
        "data": _name(settings.get("data"), ""),
        "state": _state(seed.state for seed in pulses),
        "seeds": [_seed(seed) for seed in pulses],
        "score": float(np.mean(scores)) if scores else None,
        "scored": known(main(next((seed.last["test"] for seed in pulses if seed.last.get("test")), None))).title,
        "missing": [text for seed in pulses for text in _missing(run, seed)],
    }


def _seed(found: Pulse) -> dict[str, Any]:
    plain = {name: getattr(found, name) for name in ("seed", "state", "round", "planned", "pace", "left", "changed")}
    return plain | {"pace": round(found.pace, 3)}


def _missing(run: RunFolder, found: Pulse) -> list[str]:
    """Say which silos did not answer in the last round of a deployment."""
    absent = found.last.get("absent") or []
    if not absent:
        return []
    names = run.seed(found.seed).clients.get("names", [])
    who = ", ".join(str(names[i]) if i < len(names) else f"client {i}" for i in absent)
    return [f"no answer from {who} in round {found.round}" + (f" of seed {found.seed}" if found.seed else "")]


def _state(states: Any) -> str:
    seen = set(states)
    if "running" not in seen and {"waiting", "finished"} <= seen:  # some are done, the others were never begun
        return "stopped"
    return next((state for state in ORDER if state in seen), "waiting")


def _name(value: Any, otherwise: str) -> str:
    found = value.get("name") if isinstance(value, Mapping) else value
    return str(found or otherwise)


def _title(group: Group, runs: Sequence[Mapping[str, Any]]) -> str:
    if not runs:
        return group.path.name
    what = runs[0]["title"] if not group.compared else f"{len(runs)} methods"
    return f"{what} on {runs[0]['data']}" if runs[0]["data"] else what


def whole(group: Group) -> dict[str, Any]:
    """Return everything about a group: curves, table, clients, settings; read from the whole record."""
    runs, notes = [], []
    for folder in group.runs:
        try:
            runs.append(read(folder.path))
        except PerfedError as error:
            notes.append(str(error))
    if not runs:
        return {"id": group.id, "notes": notes, "runs": [], "table": None, "facts": [], "commands": []}
    runs.sort(key=lambda run: position(run.method))
    own = options(runs)
    table, score = comparison(runs, **own), MainScore.of(runs, own["series"])
    names = labels(runs)
    return {
        "id": group.id,
        "runs": [_detail(run, name, look) for run, name, look in zip(runs, names, looks([r.method for r in runs]), strict=True)],
        "table": _table(table),
        "lead": lead(table, score),
        "score": score.name,
        "notes": [*(note for note in table.notes if _of_the_end(runs, note)), *notes],
        "facts": facts(runs),
        "commands": list(dict.fromkeys(command(run) for run in runs)),
        "folder": str(group.path),
        "majority": majority(runs[0].clients)["weighted"]["mean"],
        "series": own["series"],
    }


def _of_the_end(runs: Sequence[Record], note: str) -> bool:
    """Whether a note is worth reading here: that runs under way are unfinished and rise is plain to see."""
    over = all(run.done >= int(run.settings.get("rounds") or 0) for run in runs)
    return UNFINISHED not in note and (over or STILL not in note)


def _detail(run: Record, name: str, look: Any) -> dict[str, Any]:
    seed = next(iter(run.rounds))
    last = run.accuracies("last").get(seed, np.empty(0))
    dash = "" if look.dash == "-" else " ".join(f"{2 * part:g}" for part in look.dash[1])
    return {
        "name": run.path.name,
        "label": name,
        "method": run.method,
        "colour": look.colour,
        "dash": dash,
        "curves": {series: _curves(run, series) for series in ("test", "validation", "after")},
        "clients": {"seed": seed, "names": run.clients[seed]["names"], "score": _plain(last)},
        "refused": _refusals(run, seed),
    }


def _curves(run: Record, series: str) -> dict[str, Any]:
    """Every seed's own curve, thinned to the same rounds, so that seeds under way can be averaged as far as they are."""
    found = {seed: curves({seed: lines}, series=series) for seed, lines in run.rounds.items()}
    rounds = sorted({number for own in found.values() for number in own["round"]})
    if len(rounds) > POINTS:
        rounds = [rounds[i] for i in np.unique(np.linspace(0, len(rounds) - 1, POINTS).round().astype(int))]
    shown: dict[str, Any] = {"round": rounds, "seeds": {}}
    for seed, own in found.items():
        places = {number: place for place, number in enumerate(own["round"])}
        shown["seeds"][str(seed)] = {
            name: [own[name]["mean"][places[number]] if number in places else None for number in rounds] for name in SHOWN
        }
    return shown


def _table(table: Any) -> dict[str, Any]:
    there = [key for key in COLUMNS if key.split(".")[0] not in MOMENTS or any(c.key == key for c in table.columns)]
    picked = {column.key: number for number, column in enumerate(table.columns)}
    columns = [table.columns[picked[key]] for key in there]
    return {
        "columns": [{"key": column.key, "above": column.above, "title": column.title} for column in columns],
        "rows": [
            {
                "method": row.method,
                "name": row.name,
                "cells": [{"text": c.text, "plus": c.plus, "mark": c.mark} for c in (row.cells[picked[key]] for key in there)],
            }
            for row in table.rows
        ],
    }


def _refusals(run: Record, seed: int) -> list[str]:
    """The last answers of silos that a deployment refused."""
    path = RunFolder(run.path).seed(seed).refusals
    if not path.is_file():
        return []
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()[-3:]
    return [line[:400] for line in lines]


def _plain(values: Any) -> list[float | None]:
    return [None if np.isnan(value) else float(value) for value in values]
