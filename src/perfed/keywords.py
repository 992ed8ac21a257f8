"""Keyword arguments as an experiment: every one of them has an effect or is refused."""

from dataclasses import fields
from typing import Any

from . import advice
from . import partition as partitions
from .errors import InputError
from .federation import Federation
from .method import Method
from .runs import parse
from .runs.assemble import kind_of
from .runs.choice import Choice
from .runs.experiment import Experiment


def asked_for(experiment: Experiment | None, given: dict[str, Any], *, several: bool = False) -> Experiment:
    """Return the experiment that keyword arguments describe; every one of them has an effect or is refused."""
    if experiment is not None:
        if not isinstance(experiment, Experiment):
            raise InputError(f"run takes a perfed.Experiment or keyword arguments, got {type(experiment).__name__}")
        return experiment.but(**asked_for(None, given).model_dump(include=set(given))) if given else experiment
    raw = dict(given)
    if "seed" in raw:
        if "seeds" in raw:
            raise InputError("seed and seeds say the same thing; give one of them")
        raw["seeds"] = (raw.pop("seed"),)
    data = raw.get("data")
    if isinstance(data, Federation) and "seeds" not in raw:
        raw["seeds"] = (data.seed,)
    if raw.get("budget") is None:
        raw.pop("budget", None)
    for name in [name for name in raw if name not in Experiment.model_fields]:
        _lay(raw, name, raw.pop(name), several=several)
    advice.check_data(raw)
    parse.effective(raw)
    return Experiment(**raw)


def _lay(raw: dict[str, Any], name: str, value: Any, *, several: bool) -> None:
    """Lay a keyword that is no setting over the part whose field it is: the method's or the partition's."""
    if "." in name:
        part, _, option = name.partition(".")
        homes = [part] if part in Experiment.model_fields else []
    else:
        option = name
        homes = [part for part in ("method", "partition") if option in _fields(raw, part, several)]
    if not homes:
        raise advice.unknown(name, raw)
    own = raw.get(homes[0], Experiment.model_fields[homes[0]].default)
    if isinstance(own, Method):
        raise InputError(f"{option} has no effect beside a method that is given as an object; give it to {type(own).__name__}(…)")
    plain = own.plain() if isinstance(own, Choice) else own
    plain = {"name": plain} if isinstance(plain, str) else dict(plain or {})
    if option in plain:
        raise InputError(f"{option} of {plain.get('name', homes[0])} is given twice")
    raw[homes[0]] = plain | {option: value}


def _fields(raw: dict[str, Any], part: str, several: bool) -> list[str]:
    """Return the options of the method or the partition that is asked for."""
    if part == "method" and several:
        return []
    own = raw.get(part, Experiment.model_fields[part].default)
    choice = own if isinstance(own, Choice) else Choice.model_validate(own)
    kind: Any = kind_of(choice) if part == "method" else partitions.PARTITIONS.get(choice.name)
    return [] if kind is None else [f.name for f in fields(kind) if f.name not in ("budget", "norm")]
