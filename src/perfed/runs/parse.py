"""Settings as people write them: a YAML file plus ``key=value`` overrides."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import yaml

from .. import advice
from ..disk import get_yaml
from ..errors import InputError
from ..federation import Federation
from .choice import Choice, at_first, former
from .experiment import SINCE, Experiment

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def load(path: Path | str | None, overrides: Sequence[str] = (), *, elsewhere: bool = False) -> Experiment:
    """Return the settings of a YAML file, if any, with ``key=value`` overrides laid over it.

    ``elsewhere``: the data are at silos, which have names of their own for them.
    """
    raw: dict[str, Any] = {}
    if path is not None:
        raw = get_yaml(Path(path))
    meant = advice.said(raw, overrides)
    for text in overrides:
        apply(raw, text, meant)
    if not elsewhere:
        advice.check_data(raw)
    effective(raw)
    return build(raw)


def apply(raw: dict[str, Any], text: str, meant: Mapping[str, Any] | None = None, methods: Sequence[str] | None = None) -> None:
    """Lay one ``key=value`` over nested settings; a new name drops the old one's options.

    ``meant`` and ``methods`` say what else is asked for, for the sentence where the key is unknown.
    """
    key, mark, value = text.partition("=")
    if not mark or not key:
        raise InputError(f"'{text}' is not a setting; write key=value, such as rounds=100")
    head, *rest = key.split(".")
    known = Experiment.model_fields
    if head not in known:
        raise advice.unknown(key, raw if meant is None else meant, methods)
    parsed = value_of(value)
    if not rest:
        given = raw.get(head)  # options of a record stand, whatever comes first; those of another method or network do not
        raw[head] = given | {"name": parsed} if head == "privacy" and isinstance(given, dict) else parsed
        return
    own = raw.get(head)
    if own is None and isinstance(known[head].default, Choice):
        own = known[head].default.name
    if isinstance(own, str):
        own = {"name": own}
    if own is None and (is_dataclass(known[head].default) or known[head].default_factory is dict):
        own = {}
    if not isinstance(own, dict) or len(rest) > 1:
        raise InputError(f"setting '{head}' has no option '{'.'.join(rest)}'; write {head}={value or '…'}")
    raw[head] = own | {rest[0]: parsed}


def value_of(text: str) -> Any:
    """Return the value that a text stands for; numbers with commas between them are a list."""
    parts = text.split(",")
    if len(parts) > 1 and all(_NUMBER.fullmatch(part.strip()) for part in parts):
        return [value_of(part.strip()) for part in parts]
    if _NUMBER.fullmatch(text) and "e" in text.lower():
        return float(text)  # YAML takes 1e-3 for a text
    if text in ("?", "-"):  # marks of a missing value, which YAML takes for the beginning of something
        return text
    try:
        return yaml.safe_load(text) if text else None
    except yaml.YAMLError:
        return text


def build(raw: dict[str, Any]) -> Experiment:
    """Return the experiment that plain settings describe, or one sentence about the first thing that is wrong."""
    return Experiment(**{str(name): value for name, value in raw.items()})


def recorded(raw: dict[str, Any]) -> Experiment:
    """Return the experiment of a record: where it says nothing of a field whose default changed since, it had the former one."""
    method = Choice.model_validate(raw["method"])
    if then := former(method):
        raw = {**raw, "method": {"name": method.name, **then, **method.options}}
    return build(raw)


def of_its_version(raw: dict[str, Any], experiment: Experiment) -> Experiment:
    """Return the experiment of a record as version 0.1.0 understood it, if that wrote it: it knew none of the settings since."""
    then = {} if any(name in raw for name in SINCE) else at_first(experiment.method)
    if not then:
        return experiment
    method = experiment.method.model_copy(update={"options": {**then, **experiment.method.options}})
    return experiment.but(method=method)


def effective(raw: dict[str, Any]) -> None:
    """Refuse what was given beside something that makes it useless."""
    usual = Experiment.model_fields
    if raw.get("split") is not None:
        _useless(raw, ("partition", "clients", "validation", "test", "split_seed"), "the split says who has what", usual)
    if isinstance(raw.get("data"), Federation):
        fixed = ("partition", "clients", "validation", "test", "split", "split_seed", "augment", "inputs", "text")
        _useless(raw, fixed, "the federation is shared out already; give it to perfed.federate", usual)


def _useless(raw: dict[str, Any], names: Sequence[str], why: str, usual: Any) -> None:
    for name in names:
        if raw.get(name) is not None and raw[name] != usual[name].default:
            raise InputError(f"{name} has no effect here: {why}")


def flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested settings as ``{"method.align": 5}``; ``method: {name: fedcp}`` becomes ``{"method": "fedcp"}``."""
    found: dict[str, Any] = {}
    for key, value in settings.items():
        path = prefix if key == "name" and prefix else f"{prefix}.{key}".strip(".")
        found |= flat(value, path) if isinstance(value, Mapping) else {path: value}
    return found
