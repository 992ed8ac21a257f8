"""Frozen records from plain options, each checked against its type; what is wrong is said in one sentence."""

from dataclasses import fields
from typing import Any, get_args, get_type_hints

from pydantic import TypeAdapter, ValidationError

from .. import advice
from ..errors import InputError, suggest
from ..methods import CATALOGUE


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
