"""What stands beside a field in the source: its type as written, its default, and the comment that says what it means."""

import ast
import inspect
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Field:
    """One line of a record."""

    name: str
    type: str
    default: str
    meaning: str


def fields_of(kind: type[Any]) -> list[Field]:
    """Return the fields that a class itself declares, in order."""
    source = inspect.cleandoc("\n" + inspect.getsource(kind))
    lines = source.splitlines()
    found = []
    for node in ast.parse(source).body[0].body:  # type: ignore[attr-defined]
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name) or node.target.id.startswith("_"):
            continue
        written = ast.unparse(node.annotation)
        if written.startswith("ClassVar"):
            continue
        default = ast.unparse(node.value) if node.value else ""
        found.append(Field(node.target.id, written, default, lines[(node.end_lineno or 1) - 1].partition("  # ")[2].strip()))
    return found


def inherited(kind: type[Any]) -> list[Field]:
    """Return the fields of a class and of the records it builds on, its own last."""
    found: dict[str, Field] = {}
    for base in reversed(kind.__mro__):
        if "__dataclass_fields__" in vars(base) or "__pydantic_fields__" in vars(base):
            found |= {field.name: field for field in fields_of(base)}
    return list(found.values())


def cell(text: str) -> str:
    """Return text as it may stand in a table."""
    return text.replace("|", "\\|").replace("\n", " ")


def code(text: str) -> str:
    """Return text as code in a table, or nothing; a bar would end the cell, and cannot be escaped in code."""
    return f"`{text.replace(' | ', ' or ')}`" if text else ""


def table(columns: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
