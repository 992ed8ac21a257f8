"""Which settings are tried: the paper's own, then points spread evenly by key, or what optuna makes of earlier scores."""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ... import keys
from ...errors import InputError, extra
from ...method.search import Among, Between, Space
from ..assemble import AnyMethod, method_of
from .plan import LR, Racer

Check = Callable[[AnyMethod], None]  # refuses a method that these clients and this network cannot train
Values = dict[str, Any]  # what a candidate sets, by field; nothing is the method's own setting

LONG = 10**6  # rounds into which any schedule fits


def spread(racer: Racer, count: int, seed: int, check: Check | None = None) -> list[Values]:
    """Return different settings: first the method's own, then in turn the step size alone and everything at once.

    What the method refuses, by itself or on these clients, is passed over.

    The step size matters to all, and the other values are what a method's authors found good. Points are those of an
    additive recurrence by the generalised golden ratio, shifted by a key: evenly spread however many are taken. Where
    fewer different settings exist, there are fewer.
    """
    names = sorted(racer.search, key=lambda name: (name != LR, name))
    ratio = _golden(len(names))
    shift = keys.open_uniform(keys.key(seed, "race", racer.name), (len(names),)).tolist()
    found: list[Values] = [{}]
    for step in range(1, 20 * count):
        if len(found) == count or not names:
            break
        places = [(start + step * ratio ** -(axis + 1)) % 1 for axis, start in enumerate(shift)]
        drawn = {name: racer.search[name].at(place) for name, place in zip(names, places, strict=True)}
        if len(found) % 2 and LR in drawn:
            drawn = {LR: drawn[LR]}
        if drawn not in found and _makes(racer, drawn, check):
            found.append(drawn)
    return found


def _makes(racer: Racer, values: Values, check: Check | None) -> bool:
    """Return whether a method takes these values together."""
    try:
        method = method_of(racer.setting(values, LONG))
        if check is not None:
            check(method)
    except InputError:
        return False
    return True


def _golden(axes: int) -> float:
    """Return the root of x^(d + 1) = x + 1 above 1; with one axis it is the golden ratio."""
    found = 1.5
    for _ in range(60):
        found = (1 + found) ** (1 / (axes + 1))
    return found


def learned(
    racer: Racer, tried: Sequence[tuple[Values, float | None]], count: int, seed: int, check: Check | None = None
) -> list[Values]:
    """Return further settings by optuna's tree of Parzen estimators, from the scores of those tried so far."""
    optuna = extra("optuna", "tpe")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    spaces = {name: _space(optuna, space) for name, space in racer.search.items()}
    known = [value for _, value in tried if value is not None and math.isfinite(value)]
    worst = min(known, default=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # optuna calls what we use experimental
        number = keys.seed_of(keys.key(seed, "race", racer.name, len(tried))) % 2**32
        sampler = optuna.samplers.TPESampler(seed=number, n_startup_trials=1, multivariate=True, constant_liar=True)
        study = optuna.create_study(direction="maximize", sampler=sampler)
        for values, value in tried:
            inside = {name: own for name, own in values.items() if _holds(racer.search[name], own)}
            if inside:
                told = {name: spaces[name] for name in inside}
                study.add_trial(
                    optuna.trial.create_trial(params=inside, distributions=told, value=worst if value is None else value)
                )
        asked = [study.ask(spaces).params for _ in range(count)]
    drawn = [{name: _round(racer.search[name], value) for name, value in own.items()} for own in asked]
    return [own if _makes(racer, own, check) else {LR: own[LR]} if LR in own else {} for own in drawn]


def _space(optuna: Any, space: Space) -> Any:
    if isinstance(space, Among):
        return optuna.distributions.CategoricalDistribution(list(space.values))
    if space.whole:
        return optuna.distributions.IntDistribution(int(space.low), int(space.high), log=space.log)
    return optuna.distributions.FloatDistribution(space.low, space.high, log=space.log)


def _holds(space: Space, value: Any) -> bool:
    return value in space.values if isinstance(space, Among) else value is not None and space.low <= value <= space.high


def _round(space: Space, value: Any) -> Any:
    """Return a drawn value with as many digits as a person types, inside its range."""
    if not isinstance(space, Between) or space.whole:
        return value
    return min(max(float(f"{value:.3g}"), space.low), space.high)


def said(values: Mapping[str, Any]) -> str:
    """Return a setting in words."""
    if not values:
        return "as it comes"
    return ", ".join(
        f"{name.removeprefix('budget.')} {value:g}" if _number(value) else f"{name} {value}" for name, value in values.items()
    )


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
