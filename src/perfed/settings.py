"""The experiment as validated data: a YAML file plus ``key=value`` overrides."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_type_hints

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator, model_validator

from .errors import InputError, suggest
from .evaluate.metrics import refuse, select
from .local.budget import Budget
from .sampling import Sampling

TRANSPORTS = ("auto", "serial", "pooled", "stacked")
_SINCE = ("metrics", "choose")  # settings younger than version 0.1.0: as long as they are not set, digests are the old ones
_ELSEWHERE = ("transport", "workers", "device", "out", "name", "checkpoint", "snapshots", "memory")  # change how, not what


class Choice(BaseModel):
    """A name from a catalogue with its options."""

    model_config = ConfigDict(frozen=True)
    name: str
    options: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"name": value}
        if isinstance(value, dict) and "options" not in value:
            return {"name": value.get("name"), "options": {k: v for k, v in value.items() if k != "name"}}
        return value

    def plain(self) -> Any:
        return {"name": self.name, **self.options} if self.options else self.name


class Settings(BaseModel):
    """Everything that decides a run; defaults here are the only ones that are not a method's."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    method: Choice = Choice(name="fedavg")
    model: Choice = Choice(name="mlp")
    data: Choice = Choice(name="digits")
    partition: Choice = Choice(name="dirichlet")
    clients: int | None = None  # None: one per group for domains and natural, else 20
    rounds: int = 50
    seeds: tuple[int, ...] = (0,)
    budget: Budget = Budget()
    sampling: Sampling = Sampling()
    norm: Literal["all", "local_stats", "local_all"] | None = None  # None: the method's own policy for BatchNorm
    validation: float = 0.1  # share of every client's own data
    test: float = 0.25
    split: Path | None = None  # a split's file, instead of partition
    split_seed: int | None = None  # None: the run's seed
    augment: bool = False  # flips and rotations of training images
    inputs: dict[str, Any] = Field(default_factory=dict)  # mean, std, size; with augment flip, rotate, crop
    text: dict[str, Any] = Field(default_factory=dict)  # length, least, size of the vocabulary
    every: int = 1  # rounds between tests
    after: bool = False  # also test right after local training
    metrics: tuple[str, ...] = ("accuracy", "loss")  # what clients are scored by; these two always are
    choose: str = "accuracy"  # the metric by which rounds are chosen
    report: Literal["weighted", "mean"] = "weighted"
    best: Literal["round", "per_client"] = "round"
    series: Literal["test", "after"] = "test"
    precision: Literal["fp32", "bf16"] = "fp32"
    transport: Literal["auto", "serial", "pooled", "stacked"] = "auto"
    workers: int | None = None  # None: one per core
    device: str = "cpu"
    out: Path = Path("runs")
    name: str | None = None  # of the run's folder; None: method, data and a hash
    checkpoint: float = 30.0  # seconds between checkpoints; 0 writes one every round
    snapshots: int = 0  # rounds between states kept for analyses; 0 keeps only the last
    memory: float = 4.0  # GiB of private states held in memory before they go to files

    @field_validator("seeds", "metrics", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        if isinstance(value, str):
            return [part.strip() for part in value.split(",") if part.strip()]
        return [value] if isinstance(value, int) else value

    @model_validator(mode="after")
    def _sensible(self) -> "Settings":
        for name, least in (("rounds", 1), ("every", 1), ("clients", 1), ("workers", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise InputError(f"{name} must be at least {least}, got {value}")
        if not self.seeds:
            raise InputError("seeds must name at least one seed, such as seeds=0,1,2")
        if min(self.seeds) < 0 or max(self.seeds) >= 2**63 or len(set(self.seeds)) < len(self.seeds):
            raise InputError(f"seeds must be different whole numbers from 0, got {','.join(map(str, self.seeds))}")
        if self.series == "after" and not self.after:
            raise InputError("series=after reports tests right after local training; it needs after=true")
        select(self.metrics)
        refuse(self.choose)
        if self.checkpoint < 0 or self.memory <= 0:
            raise InputError("checkpoint (seconds) must not be negative and memory (GiB) must be positive")
        return self

    def plain(self) -> dict[str, Any]:
        """Return the settings as they are written to YAML."""
        out: dict[str, Any] = {}
        for name in type(self).model_fields:
            value = getattr(self, name)
            if isinstance(value, Choice):
                value = value.plain()
            elif is_dataclass(value) and not isinstance(value, type):
                value = asdict(value)
            elif isinstance(value, Path):
                value = str(value)
            elif isinstance(value, tuple):
                value = list(value)
            out[name] = value
        return out

    def digest(self) -> str:
        """Return a SHA-256 over what decides the results; where and how it runs does not count."""
        usual = {name for name in _SINCE if getattr(self, name) == type(self).model_fields[name].default}
        decisive = {k: v for k, v in self.plain().items() if k not in (*_ELSEWHERE, *usual, "seeds")}
        return hashlib.sha256(json.dumps(decisive, sort_keys=True, default=str).encode()).hexdigest()


def load(path: Path | str | None, overrides: Sequence[str] = ()) -> Settings:
    """Return the settings of a YAML file, if any, with ``key=value`` overrides laid over it."""
    raw: dict[str, Any] = {}
    if path is not None:
        raw = read_yaml(Path(path))
    for text in overrides:
        apply(raw, text)
    return build(raw)


def read_yaml(path: Path) -> dict[str, Any]:
    """Return the mapping in a YAML file, or say what is wrong with it."""
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read settings from '{path}': {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"'{path}' is not YAML: {str(error).splitlines()[0]}") from error
    if not isinstance(found, dict):
        raise InputError(f"'{path}' must hold settings as `key: value` lines")
    return found


def apply(raw: dict[str, Any], text: str) -> None:
    """Lay one ``key=value`` over nested settings; a new name drops the old one's options."""
    key, mark, value = text.partition("=")
    if not mark or not key:
        raise InputError(f"'{text}' is not a setting; write key=value, such as rounds=100")
    head, *rest = key.split(".")
    known = Settings.model_fields
    if head not in known:
        raise suggest("setting", head, known)
    parsed = _value(value)
    if not rest:
        raw[head] = parsed
        return
    own = raw.get(head)
    if own is None and isinstance(known[head].default, Choice):
        own = known[head].default.name
    if isinstance(own, str):
        own = {"name": own}
    if own is None and (is_dataclass(known[head].default) or known[head].default_factory is dict):
        own = {}
    if not isinstance(own, dict) or len(rest) > 1:
        raise InputError(f"setting '{head}' has no option '{'.'.join(rest)}'")
    raw[head] = own | {rest[0]: parsed}


def _value(text: str) -> Any:
    try:
        return yaml.safe_load(text) if text else None
    except yaml.YAMLError:
        return text


def build(raw: dict[str, Any]) -> Settings:
    """Return validated settings, or one sentence about the first thing that is wrong."""
    for name in raw:
        if name not in Settings.model_fields:
            raise suggest("setting", str(name), Settings.model_fields)
    for name, kind in (("budget", Budget), ("sampling", Sampling)):
        if isinstance(raw.get(name), dict):
            raw = raw | {name: record(kind, raw[name], f"{name}.")}
    try:
        return Settings.model_validate(raw)
    except ValidationError as wrong:
        raise _sentence(wrong, "") from wrong


def record(kind: type[Any], options: dict[str, Any], prefix: str) -> Any:
    """Return a frozen record of ``kind`` from plain options, each checked against its type."""
    hints = get_type_hints(kind)
    valid = [f.name for f in fields(kind)]
    values: dict[str, Any] = {}
    for name, value in options.items():
        if name not in valid:
            raise suggest("setting", f"{prefix}{name}", [prefix + v for v in valid])
        if isinstance(value, str) and "tuple" in str(hints[name]):
            value = [part for part in value.split(",") if part]
        try:
            values[name] = TypeAdapter(hints[name]).validate_python(value)
        except ValidationError as wrong:
            raise _sentence(wrong, f"{prefix}{name}", get_args(hints[name])) from wrong
    return kind(**values)


def _sentence(wrong: ValidationError, where: str, choices: tuple[Any, ...] = ()) -> InputError:
    first = wrong.errors(include_url=False)[0]
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, InputError):
        return cause
    spot = where or ".".join(str(part) for part in first["loc"] if part not in ("name", "options"))
    if first["type"] == "literal_error":
        return InputError(f"{spot} must be {first['ctx']['expected']}, got '{first['input']}'")
    said = first["msg"].removeprefix("Input should be ").removeprefix("a valid ")
    said = said.split(", unable")[0]
    return InputError(f"{spot} must be a valid {said.removeprefix('Value error, ')}, got {first['input']!r}")
