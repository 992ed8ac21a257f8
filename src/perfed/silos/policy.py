"""What a site will do, whatever the server says: its own file, checked before anything is trained."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ..errors import InputError, suggest
from ..evaluate.metrics import CATALOGUE as METRICS
from ..evaluate.scores import Score
from ..method import Method
from ..runs.assemble import method_of
from ..runs.experiment import Experiment
from .refusals import Refused

_KINDS = {"privacy": "allowed or required", "epsilon": "a number, 0 for no bound", "delta": "a number between 0 and 1"}


@dataclass(frozen=True, kw_only=True)
class SitePolicy:
    """The limits of one site; what a file leaves out is not allowed."""

    methods: tuple[str, ...] = ()
    data: tuple[str, ...] = ()  # names that the site's configuration maps to sources
    epochs: int = 0  # most passes over the data per round, a method's own passes included
    steps: int = 0  # most steps of training per round
    parameters: int = 0  # most numbers in the model
    rounds: int = 0  # most trainings per experiment
    daily: int = 0  # most trainings per day, of all experiments together
    scores: bool | tuple[str, ...] = False  # which metrics on this site's data may be reported, by name; true: all that are asked
    fewest: int = 0  # samples below which no score is reported: scores of a few samples tell of single ones
    sums: bool = False  # whether counts, means and squares over a table's columns may be reported, so that all scale alike
    labels: bool = False  # whether the numbers of samples of each class may be reported
    privacy: str = "allowed"  # or "required": no upload leaves without noise
    epsilon: float = 0.0  # most ε that all uploads of this site together may spend; 0: no bound
    delta: float = 1e-5  # δ at which ε is counted here, whatever an experiment says
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
            if name == "metrics":
                raise InputError(f"{where}: metrics is now two permissions, scores and labels; each is true or false")
            if name not in SitePolicy.__dataclass_fields__:
                raise suggest(f"entry in {where}", str(name), SitePolicy.__dataclass_fields__)
            default = getattr(SitePolicy, name)
            if name == "scores" and isinstance(value, list):
                value, default = _metrics(value, where), ()
            if isinstance(default, tuple) and isinstance(value, tuple):
                fine = True
            elif isinstance(default, tuple):
                fine = isinstance(value, list) and all(isinstance(v, str) for v in value)
                value = tuple(value) if fine else value
            elif name == "privacy":
                fine = value in ("allowed", "required")
            elif isinstance(default, float):
                fine = type(value) in (int, float) and (0 < value < 1 if name == "delta" else 0 <= value < math.inf)
            else:
                fine = type(value) is type(default) and (isinstance(value, bool) or value >= 0)
            if not fine:
                kind = _KINDS.get(name) or ("a list of names" if isinstance(default, tuple) else type(default).__name__)
                raise InputError(f"{where}: {name} must be {kind}, got {value!r}")
            values[name] = value
        if values.get("epsilon") and values.get("privacy") != "required":
            raise InputError(f"{where}: epsilon bounds nothing where uploads may leave without noise; add privacy: required")
        return SitePolicy(**values)

    def reports(self, name: str, samples: int) -> bool:
        """Whether a metric over so many samples may be reported."""
        named = self.scores if isinstance(self.scores, bool) else name in self.scores
        return named and samples >= self.fewest

    def reported(self, scores: Sequence[Score]) -> tuple[dict[str, Any], ...]:
        """Return scores with what may be reported of them; of the rest only the count, which the server knows."""
        return tuple(
            Score(own.count, {name: value for name, value in own.values.items() if self.reports(name, own.count)}).plain()
            for own in scores
        )

    def admit(self, settings: Experiment, seeded: bool) -> None:
        """Refuse an experiment that is outside the policy as a whole; the settings are built, so every value has its type."""
        if settings.method.name not in self.methods:
            raise Refused("method", f"method '{settings.method.name}' is not allowed here")
        if settings.data.name not in self.data:
            raise Refused("data", f"data '{settings.data.name}' is not allowed here")
        if (count := passes(method_of(settings))) > self.epochs:
            raise Refused("passes", f"{count} epochs per round are more than the {self.epochs} allowed here")
        if settings.rounds > self.rounds:
            raise Refused("rounds", f"{settings.rounds} rounds are more than the {self.rounds} allowed here")
        if self.privacy == "required" and not settings.privacy.on:
            raise Refused("noise", "uploads without noise are not allowed here; the experiment has privacy=none")
        if seeded and not self.seeded_private:
            raise Refused("seeded", "private parts from the run's public seed are not allowed here")

    def admit_sums(self) -> None:
        """Refuse that sums over a table's columns leave, unless they may."""
        if not self.sums:
            raise Refused("sums", "sums over this table's columns may not leave here; `sums: true` in the policy would let them")

    def admit_size(self, parameters: int, steps: int) -> None:
        """Refuse a model or a round that is larger than allowed."""
        if parameters > self.parameters:
            raise Refused("parameters", f"a model of {parameters} parameters is larger than the {self.parameters} allowed here")
        if steps > self.steps:
            raise Refused("steps", f"{steps} steps per round are more than the {self.steps} allowed here")

    def admit_training(self, number: int, trained: int, today: int) -> None:
        """Refuse a training too many; ``trained`` the experiment has had already, ``today`` all experiments together."""
        if number > self.rounds or trained >= self.rounds:
            raise Refused(
                "rounds", f"training in round {number} (after {trained} trainings) is beyond the {self.rounds} allowed here"
            )
        if today >= self.daily:
            raise Refused("daily", f"{today} trainings today are as many as are allowed here")


def _metrics(names: list[Any], where: str) -> tuple[str, ...]:
    """Return names of metrics, each known."""
    for name in names:
        if name not in METRICS:
            raise suggest(f"metric under scores in {where}", str(name), METRICS)
    return tuple(names)


def passes(method: Method[Any, Any, Any, Any]) -> int:
    """Return the passes over the data in one round, as the method's own file counts them."""
    return method.passes


def steps(method: Method[Any, Any, Any, Any], samples: int) -> int:
    """Return the steps of training in one round."""
    return passes(method) * (method.budget.steps or -(-samples // method.budget.batch_size))
