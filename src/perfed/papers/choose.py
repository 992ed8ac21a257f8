"""Which rows and columns of a table are meant by words such as ``mnist,fedcp,fedper``."""

import re
from collections.abc import Callable, Sequence

from ..errors import suggest
from .recipe import Heading, Recipe

Names = Callable[[Heading], Sequence[str | None]]


def choose(recipe: Recipe, only: Sequence[str]) -> tuple[list[Heading], list[Heading]]:
    """Return the rows and columns that ``only`` names; an axis that is not named is kept whole.

    A word is an id, a method, a data set, a problem, a label, a group's heading, or the beginning of an id; the first of
    these that fits counts, for rows and columns alike.
    """
    kept: dict[str, set[str]] = {"rows": set(), "columns": set()}
    axes: dict[str, list[Heading]] = {"rows": recipe.rows, "columns": recipe.columns}
    for word in only:
        wanted = slug(word)
        for names in _ways(recipe):
            found = {
                axis: {entry.id for entry in entries if wanted in {slug(name) for name in names(entry) if name}}
                for axis, entries in axes.items()
            }
            if any(found.values()):
                break
        else:
            if wanted in _whole(recipe):
                continue
            raise suggest("row or column", word, _words(recipe))
        for axis, ids in found.items():
            kept[axis] |= ids
    rows, columns = ([entry for entry in entries if not kept[axis] or entry.id in kept[axis]] for axis, entries in axes.items())
    return rows, columns


def slug(text: str) -> str:
    """Return a heading as one types it: ``Digits-Five`` and ``digits_five`` are ``digits-five``."""
    return re.sub(r"[\s_]+", "-", text.strip().lower())


def _ways(recipe: Recipe) -> list[Names]:
    def data(entry: Heading) -> list[str | None]:
        return [str(recipe.paper.settings(recipe.paper.problems[entry.problem].set)["data"])] if entry.problem else []

    return [
        lambda entry: [entry.id],
        lambda entry: [entry.method],
        data,
        lambda entry: [entry.problem],
        lambda entry: [entry.label],
        lambda entry: [entry.group],
        lambda entry: [entry.id[:place] for place, mark in enumerate(entry.id) if mark in "-."],
    ]


def _whole(recipe: Recipe) -> set[str]:
    """Return what the whole table is about: naming it leaves everything."""
    names = {recipe.method, recipe.problem, *(recipe.data if len(recipe.data) == 1 else ())}
    return {slug(name) for name in names if name}


def _words(recipe: Recipe) -> list[str]:
    return sorted({entry.id for entry in (*recipe.rows, *recipe.columns)})
