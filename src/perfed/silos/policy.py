"""What a site will do, whatever the server says: its own file, checked before anything is loaded or trained."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import yaml

from .. import methods
from ..errors import InputError, suggest
from ..local import Budget
from .messages import Ask


@dataclass(frozen=True, kw_only=True)
class SitePolicy:
    """The limits of one site; what a file leaves out is not allowed."""

    methods: tuple[str, ...] = ()
    data: tuple[str, ...] = ()  # names that the site's configuration maps to sources
    epochs: int = 0  # most passes over the data per round, a method's own passes included
    rounds: int = 0  # most trainings per experiment
    metrics: bool = False  # whether scores and label counts may be reported
    seeded_private: bool = False  # whether private parts may come from the run's public seed: comparisons only

    @staticmethod
    def load(path: Path) -> "SitePolicy":
        """Return the policy in a YAML file."""
        try:
            found = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
        except (OSError, yaml.YAMLError, UnicodeDecodeError) as wrong:
            raise InputError(f"cannot read the policy '{path}': {wrong}") from wrong
        return SitePolicy.of(found, str(path))

    @staticmethod
    def of(found: Any, where: str = "policy") -> "SitePolicy":
        """Return the policy in plain values, each checked."""
        if not isinstance(found, Mapping):
            raise InputError(f"{where} must hold `key: value` lines")
        values: dict[str, Any] = {}
        for name, value in found.items():
            if name not in SitePolicy.__dataclass_fields__:
                raise suggest(f"entry in {where}", str(name), SitePolicy.__dataclass_fields__)
            default = getattr(SitePolicy, name)
            if isinstance(default, tuple):
                fine = isinstance(value, list) and all(isinstance(v, str) for v in value)
                value = tuple(value) if fine else value
            else:
                fine = type(value) is type(default) and (isinstance(value, bool) or value >= 0)
            if not fine:
                kind = "a list of names" if isinstance(default, tuple) else type(default).__name__
                raise InputError(f"{where}: {name} must be {kind}, got {value!r}")
            values[name] = value
        return SitePolicy(**values)

    def refusal(self, ask: Ask, trained: int = 0) -> str:
        """Return why a request is outside the policy, or nothing; ``trained`` is what the experiment has had."""
        s = ask.settings
        method, data = _name(s.get("method")), _name(s.get("data"))
        if method not in self.methods or method not in methods.CATALOGUE:
            return f"method '{method}' is not allowed here"
        if data not in self.data:
            return f"data '{data}' is not allowed here"
        try:
            epochs = passes(s)
        except (TypeError, ValueError) as wrong:
            return f"method '{method}' cannot be set so: {wrong}"
        if epochs > self.epochs:
            return f"{epochs} epochs per round are more than the {self.epochs} allowed here"
        if ask.train is not None and (ask.train > self.rounds or trained >= self.rounds):
            return f"training in round {ask.train} (after {trained} trainings) is beyond the {self.rounds} allowed here"
        if ask.seeded and not self.seeded_private:
            return "private parts from the run's public seed are not allowed here"
        return ""


def _name(choice: Any) -> str:
    return str(choice.get("name") if isinstance(choice, Mapping) else choice)


def passes(settings: Mapping[str, Any]) -> int:
    """Return the passes over the data in one round: the budget's, and those that a method adds."""
    budget, given = settings.get("budget") or {}, settings.get("method")
    kind = methods.find(_name(given))
    values = {f.name: f.default for f in fields(kind)} | (dict(given) if isinstance(given, Mapping) else {})
    values["budget"] = Budget(epochs=int(budget.get("epochs", 1)) if isinstance(budget, Mapping) else 1)
    bare = object.__new__(kind)  # its fields are only read here; whoever trains it has them checked
    for name, value in values.items():
        object.__setattr__(bare, name, value)
    return bare.passes
