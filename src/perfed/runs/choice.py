"""A setting that is a name with options or an object, and records made from plain options."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from .. import advice
from ..data.samples import Samples
from ..errors import InputError, suggest
from ..evaluate.metrics import Metric, facts
from ..methods import CATALOGUE, find
from . import code


class Choice(BaseModel):
    """A name from a catalogue with its options, or an object with what is known of it."""

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)
    name: str
    options: dict[str, Any] = Field(default_factory=dict)
    made: Any = Field(default=None, repr=False)  # the object itself
    known: dict[str, Any] | None = None  # what a record says of an object that is not here
    open: bool = Field(default=False, repr=False)  # nobody chose it: what fits the data takes its place

    @model_validator(mode="before")
    @classmethod
    def _from_anything(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"name": value}
        if isinstance(value, dict):
            if "object" in value:
                return {"name": value.get("name"), "known": value["object"]}
            if not value.keys() & {"options", "made", "known", "open"}:
                return {"name": value.get("name"), "options": {k: v for k, v in value.items() if k != "name"}}
            return value
        if value is None or isinstance(value, Choice | bool | int | float | list | tuple):
            return value
        return {"name": named(value), "made": value}

    def plain(self) -> Any:
        """Return the choice as it is written to YAML."""
        if self.made is not None or self.known is not None:
            return {"name": self.name, "object": self.known or code.described(self.made)}
        return {"name": self.name, **self.options} if self.options else self.name

    @property
    def stem(self) -> str:
        """The name as part of a folder's name."""
        name = self.name.rpartition(":")[2] if code.is_own(self.name) and ".py:" in self.name else self.name
        return name.replace("/", "_").replace(":", "_")


def former(method: Choice) -> Mapping[str, Any]:
    """Return the defaults that a method had in version 0.1.0, of fields that have others today."""
    return find(method.name).former if method.name in CATALOGUE else {}


def at_first(method: Choice) -> Mapping[str, Any]:
    """Return the defaults that a method had in version 0.1.0, of fields whose records since had today's without naming it."""
    return find(method.name).at_first if method.name in CATALOGUE else {}


def recorded(thing: Any) -> dict[str, Any]:
    """Return what a record says of an object; a metric is its function and how it is read."""
    if isinstance(thing, Metric):
        return {"name": thing.name, "object": code.described(thing.of) | facts([thing]).get(thing.name, {})}
    return {"name": named(thing), "object": code.described(thing)}


def name_of(metric: Any) -> str:
    """Return what a metric is called in records: a name, or that of the user's own function."""
    if isinstance(metric, str):
        return metric.rpartition(":")[2]
    return str(metric["name"]) if isinstance(metric, dict) else metric.name if isinstance(metric, Metric) else named(metric)


def named(thing: Any) -> str:
    """Return what an object is called in tables and folders."""
    if isinstance(thing, Samples):
        return thing.name
    return thing.__name__ if hasattr(thing, "__name__") else type(thing).__name__


def record(kind: type[Any], options: dict[str, Any], prefix: str) -> Any:
    """Return a frozen record of ``kind`` from plain options, each checked against its type."""
    hints = get_type_hints(kind)
    valid = [f.name for f in fields(kind)]
    values: dict[str, Any] = {}
    for name, value in options.items():
        if name not in valid:
            known = kind.__module__.rpartition(".")[2]
            raise (
                advice.unknown(f"{prefix}{name}", {"method": known})
                if prefix != "method." or known in CATALOGUE
                else suggest("setting", f"{prefix}{name}", [prefix + v for v in valid])
            )
        if isinstance(value, str) and "tuple" in str(hints[name]):
            value = [part for part in value.split(",") if part]
        try:
            values[name] = TypeAdapter(hints[name]).validate_python(value)
        except ValidationError as wrong:
            raise sentence(wrong, f"{prefix}{name}", get_args(hints[name])) from wrong
    return kind(**values)


def sentence(wrong: ValidationError, where: str, choices: tuple[Any, ...] = ()) -> InputError:
    """Return what pydantic found wrong, in a sentence that names the setting."""
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
