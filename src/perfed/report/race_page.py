"""The page of a race: the answer, who fell out when and at what score, who gains, and the commands to go on with."""

import re
import shlex
from typing import TYPE_CHECKING, Any

import numpy as np

from ..evaluate.metrics import known
from ..evaluate.summary import main
from ..runs.experiment import Experiment
from ..runs.parse import flat
from ..runs.race.draw import said
from . import figures, page, raced, sections
from .canvas import WIDTH, sheet, styled
from .raced import PLAIN, Raced
from .recommend import choice_said, own_choice, recommendation
from .sections import Fold, Notes, Picture, Section
from .style import LOOKS, OTHERS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDE = 4  # panels in a row
HOW = (
    "out",
    "name",
    "track",
    "workers",
    "checkpoint",
    "memory",
    "snapshots",
    "engine",
)  # where and how a run is done, not what it is


def render(found: Raced) -> str:
    """Return the page as text."""
    what = "Tuning" if found.plan.plainly else "Race"
    data = found.asked.data.name
    content = [_answer(found), _race(found), _gains(found), _choice(found), _equal(found), _repeat(found)]
    return page.compose(f"{what} on {data}", recommendation(found), [section for section in content if section.parts])


def _answer(found: Raced) -> Section:
    head, rows = raced.columns(found)
    text = (
        f"The best setting of every method on fresh seeds {', '.join(map(str, found.plan.seeds))}, tested once, in the round "
        "that validation data chose. Intervals hold 95 % of 4,000 draws of clients and seeds, the same draws for every method. "
        "The winner is chosen on validation data, so it need not lead on test data."
    )
    parts: list[tuple[str, Any]] = [("grid", [head, *([*map(_unbroken, row)] for row in rows)]), ("soft", text)]
    if found.asked.unseen:
        soft = f"Unseen: clients that never trained; after the last round each joins in {found.asked.join.epochs} passes."
        parts.append(("soft", soft))
    lost = [racer.title for racer in found.plan.racers if racer.name not in found.best]
    notes = [f"{name} could not run here: {why}" for name, why in found.plan.left_out.items()]
    notes += [f"No setting of {title} came through." for title in lost]
    if notes:
        parts.append(("notes", Notes(notes, warn=True)))
    return Section("answer", "The answer", parts)


def _unbroken(cell: str) -> str:
    """Return a cell that breaks only between settings, before the bracket of an interval, and behind its "to"."""
    return re.sub(r"(?<!,)(?<! to) (?!\[)|(?<=,) (?![a-z])", "\N{NO-BREAK SPACE}", cell)


def _race(found: Raced) -> Section:
    text = (
        f"Validation {found.metric.title} of every candidate, round by round, on seed {found.plan.seed}. A line ends where its "
        "setting fell out; the thick one came through. Dotted: the ends of rungs."
    )
    parts: list[tuple[str, Any]] = [("figure", Picture(picture(found, width=sections.WIDTH), text))]
    rows = [["Method", "Setting", "Fell out after", "Best validation score", "Client-steps"]]
    scale, digits = found.metric.scale, found.metric.digits
    for racer in found.plan.racers:
        for one in sorted(last(found, racer.name).values(), key=lambda one: (-one["rounds"], one["number"])):
            stood = one["why"] or f"{one['score'] * scale:.{digits}f}"
            through = (
                "came through" if found.best.get(racer.name, {}).get("number") == one["number"] else f"round {one['rounds']}"
            )
            rows.append([racer.title, said(one["values"]), through, stood, f"{one['steps']:,}"])
    parts.append(("details", Fold(f"All {len(rows) - 1} candidates", rows)))
    return Section("race", "The race", parts)


def last(found: Raced, racer: str) -> dict[int, dict[str, Any]]:
    """Return every candidate of a method as it stood in its last rung."""
    return {one["number"]: one for name, _, those in raced.rungs(found) if name == racer for one in those}


def picture(found: Raced, *, width: float = WIDTH) -> "Figure":
    """Draw the race: a panel per method, a line per candidate that ends where it fell out."""
    racers = found.plan.racers
    wide = min(WIDE, len(racers))
    high = -(-len(racers) // wide)
    scale = found.metric.scale
    with styled():
        drawn, axes = sheet(width, 0.5 + 1.7 * high, nrows=high, ncols=wide, sharey=True, squeeze=False)
        for number, (axis, racer) in enumerate(zip(axes.flat, racers, strict=False)):
            colour = LOOKS.get(racer.experiment.method.name, OTHERS[number % len(OTHERS)]).colour
            best = found.best.get(racer.name, {}).get("number")
            ends = set()
            for one in last(found, racer.name).values():
                rounds, scores = found.curve(racer.name, one["number"])
                through = one["number"] == best
                y = np.array(scores) * scale
                axis.plot(rounds, y, color=colour, lw=1.8 if through else 0.7, alpha=1.0 if through else 0.55)
                if len(rounds):
                    axis.plot(rounds[-1], y[-1], "o" if through else "x", color=colour, ms=4 if through else 3.5)
                    ends.add(rounds[-1])
            for end in sorted(ends)[:-1]:
                axis.axvline(end, color="#999999", lw=0.6, ls=":")
            axis.set_title(racer.title, fontsize=8)
            axis.xaxis.get_major_locator().set_params(integer=True)
        for axis in axes.flat[len(racers) :]:
            axis.set_visible(False)
        drawn.supylabel(f"validation {found.metric.title}" + (" (%)" if found.metric.unit else ""), fontsize=9)
        drawn.supxlabel("round", fontsize=9)
    return drawn


def _gains(found: Raced) -> Section:
    runs = [run for name, run in found.records.items() if not name.endswith(PLAIN)]
    parts: list[tuple[str, Any]] = []
    drawn = figures.gains(runs, "local", moment="validation", width=sections.WIDTH) if len(runs) > 1 else None
    if drawn is not None:
        score = known(main(next(iter(found.lines[found.winner].values()))["test"])).title
        text = f"A bar is a client: its test {score} on average over seeds, less that with Local. Filled bars gain, hatched lose."
        parts.append(("figure", Picture(drawn, text)))
    return Section("gains", "Who gains, who loses", parts)


def _choice(found: Raced) -> Section:
    chosen = own_choice(found)
    if chosen is None:
        return Section("choice", "No client left behind", [])
    names = next(iter(found.records[found.winner].clients.values()))["names"]
    rows = [["Client", f"gain over {chosen.personal} for all"]]
    scale, digits = found.metric.scale, found.metric.digits
    order = np.argsort(-np.nan_to_num(chosen.gains), kind="stable")
    rows += [[names[i], f"{chosen.gains[i] * scale:+.{digits}f}"] for i in order if not np.isnan(chosen.gains[i])]
    parts = [("text", choice_said(found, chosen)), ("clients", Fold("Every client", rows))]
    return Section("choice", "No client left behind", parts)


def _equal(found: Raced) -> Section:
    steps, apart = raced.equal(found)
    rows = [["Method", "client-steps of its race", "rounds of a full run", "seconds of a full run"]]
    titles = {row.name: row for row in found.table}
    rows += [[titles[n].title, f"{own:,}", str(titles[n].rounds), f"{titles[n].seconds:.1f}"] for n, own in steps.items()]
    text = "A client-step is one batch that a client trains on. No method's share differs from the mean by more than "
    text += f"{100 * apart:.1f} %."
    parts: list[tuple[str, Any]] = [("numbers", rows), ("soft", text)]
    if found.plan.pilot:
        mean = sum(found.plan.pilot.values()) / len(found.plan.pilot)
        parts.append(
            ("soft", f"{found.plan.minutes:g} minutes were asked for; a client-step took {1000 * mean:.2g} ms in a pilot.")
        )
    return Section("equal", "Equal budgets", parts)


def _repeat(found: Raced) -> Section:
    parts: list[tuple[str, Any]] = [("heading", "The race again"), ("code", repeat(found))]
    parts += [("heading", "The winner, trained"), ("code", train(found))]
    return Section("repeat", "How to repeat it", parts)


def repeat(found: Raced) -> str:
    """Return the command that runs the same race: what was measured or followed from minutes is stated."""
    command = str(found.folder.noted["command"])
    words = shlex.split(command) if command.startswith("perfed ") else []
    if not words:
        return command
    taken = ("minutes=", "steps=", "rounds=", "candidates=", "transport=", "name=")
    kept = [word for word in words if not word.startswith(taken)]
    plan, carried = found.plan, {racer.experiment.transport for racer in found.plan.racers}
    name = "stacked" if "stacked" in carried else sorted(carried)[0]
    return shlex.join([*kept, f"rounds={plan.rounds}", f"candidates={plan.candidates}", f"transport={name}"])


def train(found: Raced) -> str:
    """Return the command that trains the winner on the same clients."""
    run = found.records[found.winner]
    usual = flat(Experiment().plain())
    known = {key: value for key, value in flat(run.settings).items() if value is not None and value != usual.get(key)}
    known = {key: value for key, value in known.items() if key.partition(".")[0] not in HOW}
    must = {"method": flat(run.settings)["method"], "data": flat(run.settings)["data"]}
    words = [f"{key}={_written(value)}" for key, value in (must | known).items() if ".object" not in key]
    return shlex.join(["perfed", "run", *words])


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(_written, value)) if isinstance(value, list | tuple) else str(value)
