"""The reference of the Python interface, read from signatures and docstrings."""

import inspect
import re
from typing import Any

from docstring import markdown
from source import cell, code, inherited, table

import perfed
from perfed import testing

GROUPS = {
    "Run, compare, open": ("run", "compare", "resume", "open", "train", "Run", "Comparison", "Trained", "Experiment", "Settings"),
    "Data and who owns it": ("federate", "Samples", "Split", "Federation"),
    "Take models home": ("export",),
    "Write a method": (
        "Method",
        "Budget",
        "Sampling",
        "Task",
        "Shard",
        "Batch",
        "descend",
        "cross_entropy",
        "Uploads",
        "broadcast",
        "average",
        "mean",
        "mix",
    ),
}


def page() -> str:
    """Return every public name, by group."""
    grouped = [name for names in GROUPS.values() for name in names]
    rest = tuple(name for name in perfed.__all__ if name not in grouped)
    parts = []
    for heading, names in (GROUPS | ({"More": rest} if rest else {})).items():
        here = [name for name in names if name in perfed.__all__]
        if here:
            parts.append(f"## {heading}")
            parts += [_entry(f"perfed.{name}", getattr(perfed, name)) for name in here]
    parts.append("## Check a method of your own")
    checks = [name for name in testing.__all__ if name.startswith("check")]
    parts += [_entry(f"perfed.testing.{name}", getattr(testing, name)) for name in checks]
    return "\n\n".join(parts)


def _entry(name: str, found: Any) -> str:
    said = markdown(found)
    if not inspect.isclass(found):
        return f"### {name}\n\n{_signature(name.split('.')[-1], found)}\n\n{said}"
    parts = [f"### {name}", said]
    rows = [[code(f.name), code(f.type), code(f.default), cell(f.meaning)] for f in inherited(found)]
    if rows and "**Takes**" not in said:
        parts.append(table(["field", "type", "default", "meaning"], rows))
    parts += [_member(name.split(".")[-1], *member) for member in vars(found).items() if _shown(*member)]
    return "\n\n".join(parts)


def _shown(name: str, member: Any) -> bool:
    plain = member.__func__ if isinstance(member, classmethod | staticmethod) else member
    return not name.startswith("_") and (inspect.isfunction(plain) or isinstance(plain, property)) and bool(plain.__doc__)


def _member(owner: str, name: str, member: Any) -> str:
    if isinstance(member, property):
        return f"```python\n{owner.lower()}.{name}\n```\n\n{markdown(member)}"
    if isinstance(member, classmethod | staticmethod):
        return f"{_signature(f'{owner}.{name}', member.__func__)}\n\n{markdown(member.__func__)}"
    return f"{_signature(f'{owner.lower()}.{name}', member)}\n\n{markdown(member)}"


def _signature(name: str, found: Any) -> str:
    """Return a signature as one would type it, a parameter per line where it is long."""
    parts, star = [], False
    for parameter in inspect.signature(found).parameters.values():
        if parameter.name in ("self", "cls"):
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            parts.append("*")
        star = star or parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
        parts.append(_short(str(parameter)))
    given = inspect.signature(found).return_annotation
    back = "" if given is inspect.Signature.empty else f" -> {_short(inspect.formatannotation(given))}"
    line = f"{name}({', '.join(parts)}){back}"
    if len(line) > 90:
        inner = "".join(f"    {part},\n" for part in parts)
        line = f"{name}(\n{inner}){back}"
    return f"```python\n{line}\n```"


def _short(written: str) -> str:
    """Return an annotation without the modules its names live in."""
    return re.sub(r"\b(?:[A-Za-z_]\w*\.)+([A-Za-z_]\w*)", r"\1", written)
