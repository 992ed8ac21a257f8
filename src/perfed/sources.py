"""What the package's own source says of its settings: names, types, defaults and meanings, without importing anything."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent


@dataclass(frozen=True)
class Field:
    """A field of a record or a parameter of a function, as its source states it."""

    name: str
    type: str
    default: Any  # a plain value, or the text of the expression
    meaning: str  # the comment on its line


@cache
def lines(file: str) -> tuple[str, ...]:
    """Return the lines of a file of the package."""
    return tuple((ROOT / file).read_text(encoding="utf-8").splitlines())


@cache
def tree(file: str) -> ast.Module:
    """Return the syntax tree of a file of the package."""
    return ast.parse("\n".join(lines(file)))


@cache
def classes(*files: str) -> dict[str, tuple[str, ast.ClassDef]]:
    """Return every class of the files, by name, with the file it is in."""
    return {node.name: (file, node) for file in files for node in tree(file).body if isinstance(node, ast.ClassDef)}


@cache
def fields(name: str, *files: str) -> tuple[Field, ...]:
    """Return the fields of a record and of its bases in the same files, the bases' first."""
    known = classes(*files)
    file, node = known[name]
    found: dict[str, Field] = {}
    for base in node.bases:
        own = base.value if isinstance(base, ast.Subscript) else base
        if isinstance(own, ast.Name) and own.id in known:
            found |= {field.name: field for field in fields(own.id, *files)}
    for step in node.body:
        if (
            isinstance(step, ast.AnnAssign)
            and isinstance(step.target, ast.Name)
            and "ClassVar" not in ast.unparse(step.annotation)
        ):
            meaning = lines(file)[(step.end_lineno or 1) - 1].partition("# ")[2]
            default = named(file, step.value.id) if isinstance(step.value, ast.Name) else value(step.value)
            found[step.target.id] = Field(step.target.id, ast.unparse(step.annotation), default, meaning)
    return tuple(found.values())


def named(file: str, name: str) -> Any:
    """Return what a name in a file stands for: a constant of its own, or one that it imports from another file."""
    for step in tree(file).body:
        if isinstance(step, ast.ImportFrom) and step.level and any(alias.name == name for alias in step.names):
            home = Path(file).parents[step.level - 1].joinpath(*(step.module or "").split("."))
            return constant(f"{home.as_posix()}.py", name)
    return constant(file, name)


@cache
def functions(*files: str) -> dict[str, tuple[str, ast.FunctionDef]]:
    """Return every function of the files, by name, with the file it is in."""
    return {node.name: (file, node) for file in files for node in tree(file).body if isinstance(node, ast.FunctionDef)}


def options(name: str, *files: str) -> tuple[Field, ...]:
    """Return the keyword-only parameters of a function."""
    file, node = functions(*files)[name]
    pairs = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
    return tuple(
        Field(own.arg, ast.unparse(own.annotation) if own.annotation else "", value(default), _comment(file, own))
        for own, default in pairs
    )


def _comment(file: str, own: ast.arg) -> str:
    return lines(file)[own.lineno - 1].partition("# ")[2]


def docstring(file: str, name: str | None = None) -> str:
    """Return the docstring of a file, or of a class or function in it."""
    node: Any = tree(file)
    if name is not None:
        node = next(step for step in node.body if getattr(step, "name", None) == name)
    return ast.get_docstring(node) or ""


def constant(file: str, name: str) -> Any:
    """Return what a name at the top of a file stands for; names inside it are kept as texts."""
    for step in tree(file).body:
        targets = step.targets if isinstance(step, ast.Assign) else [step.target] if isinstance(step, ast.AnnAssign) else []
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return value(step.value)  # type: ignore[attr-defined]
    raise KeyError(f"{file} has no {name}")


def calls(file: str, name: str) -> Iterator[dict[str, Any]]:
    """Yield the keyword arguments of every call of ``name`` in a file."""
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
            yield {own.arg: value(own.value) for own in node.keywords if own.arg}


def value(node: ast.expr | None) -> Any:
    """Return a plain value, a dict of plain values, or the text of an expression."""
    if node is None:
        return None
    try:
        return ast.literal_eval(node)
    except ValueError:
        if isinstance(node, ast.Dict):
            return {value(key): value(own) for key, own in zip(node.keys, node.values, strict=True)}
        if isinstance(node, ast.Tuple):
            return tuple(value(own) for own in node.elts)
        return ast.unparse(node)
