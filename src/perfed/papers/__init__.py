"""The experiments of the five papers, of a benchmark and of a leaderboard, as recipes with the numbers they published."""

import re
from collections.abc import Hashable
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

import yaml
from pydantic import ValidationError

from ..errors import InputError, suggest
from .paper import Paper
from .recipe import Heading, Published, Reading, Recipe, TableCell, expand

__all__ = [
    "PAPERS",
    "SOURCES",
    "TableCell",
    "Heading",
    "Paper",
    "Published",
    "Reading",
    "Recipe",
    "about",
    "listing",
    "load",
    "read",
]

PAPERS = ("dualfed", "fedcac", "fedcp", "fedpick", "gpfl")
SOURCES = (*PAPERS, "flamby", "pfllib")  # the papers of the five methods, a benchmark of hospitals, a leaderboard


def listing() -> tuple[str, ...]:
    """Return the names of all recipes, such as ``fedcp/table2``: papers by name, tables before figures, by number."""
    return tuple(name for paper in SOURCES for name in _names(paper))


@cache
def about(paper: str) -> Paper:
    """Return what the experiments of ``paper`` have in common."""
    if paper not in SOURCES:
        raise suggest("paper", paper, SOURCES)
    content = read(_folder(paper) / "paper.yaml")
    try:
        return Paper.model_validate(content)
    except ValidationError as wrong:
        raise InputError(f"{paper}/paper.yaml: {_first(wrong)}") from wrong


def load(name: str) -> Recipe:
    """Return the recipe called ``name``, such as ``fedcp/table2``."""
    known = listing()
    if name not in known:
        raise suggest("table or figure", name, known)
    folder, _, figure = name.partition("/")
    paper = about(folder)
    content = read(_folder(folder) / f"{figure}.yaml")
    try:
        axes = {axis: [expand(entry, paper) for entry in content.get(axis, [])] for axis in ("rows", "columns")}
        kind = "figure" if figure.startswith("figure") else "table"
        whole = content | axes | {"name": name, "paper": paper, "kind": kind}
        return Recipe.model_validate(whole)
    except ValidationError as wrong:
        raise InputError(f"{name}.yaml: {_first(wrong)}") from wrong


def read(path: Traversable) -> dict[str, Any]:
    """Return a YAML file's mapping; a key written twice is a mistake, not an override."""
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), _Strict)  # noqa: S506 - a safe loader
    except yaml.YAMLError as wrong:
        raise InputError(f"{path.name}: {wrong}") from wrong
    if not isinstance(content, dict):
        raise InputError(f"{path.name} must hold a mapping")
    return content


class _Strict(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # libyaml is ten times as fast
    """YAML without tags, with every key once."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        twice = sorted({str(key) for key in keys if keys.count(key) > 1})
        if twice:
            raise yaml.constructor.ConstructorError(None, None, f"key '{twice[0]}' occurs twice", node.start_mark)
        content: dict[Hashable, Any] = super().construct_mapping(node, deep)
        return content


def _folder(paper: str) -> Traversable:
    return files(__package__) / paper


def _names(paper: str) -> list[str]:
    stems = [path.name.removesuffix(".yaml") for path in _folder(paper).iterdir() if path.name.endswith(".yaml")]
    found = [match for stem in stems if stem != "paper" and (match := re.fullmatch(r"([a-z]+)(\d*)", stem))]
    return [f"{paper}/{match[0]}" for match in sorted(found, key=lambda match: (match[1] == "figure", int(match[2] or 0)))]


def _first(wrong: ValidationError) -> str:
    error = wrong.errors()[0]
    where = ".".join(str(part) for part in error["loc"])
    return f"{where}: {error['msg']}" if where else error["msg"]
