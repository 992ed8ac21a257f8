"""What a race recommends, in words, and what it says where clients choose for themselves."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..runs.race.plan import ALWAYS
from .bootstrap import Interval, draws, interval
from .raced import Array, Placed, Raced, spanned

COMMON = ("local", "fedavg")  # what each client may take instead of the personal model


def recommendation(raced: Raced) -> str:
    """Return the answer in a few sentences: what to take, whom it helps and hurts, and what is as good for less."""
    table = raced.table
    top = table[0]
    scale, digits, unit = raced.metric.scale, raced.metric.digits, f" {raced.metric.unit}".rstrip()
    test = top.test.scaled(scale)
    span = f"{raced.metric.title} {test.value:.{digits}f}{unit} [{test.low:.{digits}f}, {test.high:.{digits}f}]"
    said = [f"{top.title}{_at(top)}: {span} on test samples that nobody had looked at."]
    if raced.plan.plainly:
        return " ".join([*said, *(_tuned(row, scale, digits, unit) for row in table[1:])])
    said.append(_beside_local(raced, top))
    near = [row for row in table[1:] if not row.behind.sure and row.name != "local" and row.bytes < 0.9 * top.bytes]
    if near and _needs_others(top):
        cheap = min(near, key=lambda row: row.bytes)
        gap = spanned(cheap.behind.scaled(scale), digits)
        said.append(f"{cheap.title} is within noise ({gap} behind) and sends {100 * cheap.bytes / top.bytes:.0f} % of the bytes.")
    if top.unseen is not None:
        reach = f"{top.unseen[0] * scale:.{digits}f}{unit}"
        said.append(f"Clients that were kept out of training reach {reach} once they have joined.")
    ahead = [row for row in table[1:] if row.behind.sure]
    close = len(table) - 1 - len(ahead)
    said.append(f"Of the {len(table) - 1} others {len(ahead)} differ from it beyond chance, {close} do not.")
    return " ".join(said)


def _needs_others(top: Placed) -> bool:
    """Return whether the winner is better than Local beyond chance; where it is not, Local is as good for nothing."""
    return top.name != "local" and (top.gain is None or top.gain.sure)


def _at(row: Placed) -> str:
    return f" at {row.setting}" if row.values else " as it comes"


def _tuned(row: Placed, scale: float, digits: int, unit: str) -> str:
    gap = row.behind.scaled(scale)
    sure = "" if row.behind.sure else ", which is within noise"
    reach = f"{row.test.value * scale:.{digits}f}{unit}"
    span = f"{gap.value:.{digits}f} [{gap.low:.{digits}f}, {gap.high:.{digits}f}]"
    return f"{row.title} it reaches {reach}: tuning brings {span}{sure}."


def _beside_local(raced: Raced, top: Placed) -> str:
    """Say for how many clients the winner is better than Local, or that nobody needs to collaborate."""
    if top.name == "local":
        best = next((row for row in raced.table[1:]), None)
        behind = "" if best is None or best.behind.sure else f"; {best.title} is within noise of it"
        return f"Collaborating does not pay here{behind}."
    (better, worse), (sure_better, sure_worse) = top.clients, top.sure
    counted = f" (beyond chance: {sure_better} and {sure_worse})" if raced.asked.choose == "accuracy" else ""
    noise = "" if _needs_others(top) else "; over all clients the two are within noise, and Local sends nothing"
    return f"Better than Local for {better} of {raced.clients} clients, worse for {worse}{counted}{noise}."


@dataclass(frozen=True)
class OwnChoice:
    """What becomes of clients that choose between local, common and personal, each on its own validation samples."""

    personal: str  # the method that is offered as the personal one
    options: tuple[str, ...]  # runs to choose from
    taken: dict[str, int]  # how often each was chosen, over clients and seeds
    gain: Interval  # over giving everybody the personal model
    gains: Array  # by client, on average over seeds
    wrong: int  # choices after which another option did better on the test samples
    choices: int
    lost: float  # what a wrong choice loses on average
    bytes: float  # of training all options, in times of the personal one alone
    seconds: float


def own_choice(raced: Raced) -> OwnChoice | None:
    """Return what a choice of every client's own brings, where the race was asked for it."""
    if not raced.plan.own_choice:
        return None
    names = [row.name for row in raced.table]
    personal = next((name for name in names if name not in (*COMMON, *ALWAYS)), next(n for n in names if n not in COMMON))
    options = tuple(name for name in (personal, *COMMON) if name in names)
    sign = 1.0 if raced.metric.higher else -1.0
    seen = np.stack([sign * raced.values(name, "validation") for name in options])
    loss = np.stack([raced.values(name, "validation", "loss") for name in options])
    score = np.where(np.isnan(seen), -np.inf, seen) - 1e-9 * np.where(np.isnan(loss), 0.0, np.minimum(loss, 1e6))  # breaks ties
    chosen = score.argmax(0)
    test = np.stack([raced.values(name) for name in options])
    taken = np.take_along_axis(test, chosen[None], 0)
    gap, there = sign * (taken[0] - test[0]), ~np.isnan(taken[0])
    best = np.where(np.isnan(test), -np.inf, sign * test).max(0)
    missed = np.where(there, best - sign * taken[0], 0.0)
    whole, drawn = draws(np.stack([sign * taken[0], sign * test[0]]), raced.weights, raced.plan.seed)
    cost = {row.name: row for row in raced.table}
    return OwnChoice(
        personal,
        options,
        {name: int((chosen[there] == place).sum()) for place, name in enumerate(options)},
        interval(whole[0] - whole[1], drawn[:, 0] - drawn[:, 1]),
        np.where(there.any(0), np.nansum(gap, axis=0) / np.maximum(there.sum(0), 1), np.nan),
        int((missed > 1e-12).sum()),
        int(there.sum()),
        float(missed[missed > 1e-12].mean()) if (missed > 1e-12).any() else 0.0,
        sum(cost[name].bytes for name in options) / max(cost[personal].bytes, 1.0),
        sum(cost[name].seconds for name in options) / max(cost[personal].seconds, 1e-9),
    )


def choice_said(raced: Raced, found: OwnChoice) -> str:
    """Return what a choice of every client's own brings, in words."""
    scale, digits = raced.metric.scale, raced.metric.digits
    titles = {row.name: row.title for row in raced.table}
    took = ", ".join(f"{titles[name]} {count}" for name, count in found.taken.items())
    up, down = int((found.gains > 1e-12).sum()), int((found.gains < -1e-12).sum())
    span = spanned(found.gain.scaled(scale), digits)
    missed = f"which cost {scale * found.lost:.{digits}f} each"
    return (
        f"Each client chose on its own validation samples, in {found.choices} choices over all seeds: {took}. "
        f"Against {titles[found.personal]} for everybody that is {span}; {up} clients gain and {down} lose. "
        f"Validation chose wrongly {found.wrong} times, {missed}. "
        f"Training all three sends {found.bytes:.1f} times the bytes and takes {found.seconds:.1f} times as long."
    )


def choice_plain(found: OwnChoice | None) -> dict[str, Any] | None:
    """Return the choice as JSON holds it."""
    if found is None:
        return None
    gains = [None if np.isnan(value) else float(value) for value in found.gains]
    return found.__dict__ | {"gain": found.gain._asdict(), "gains": gains, "options": list(found.options)}
