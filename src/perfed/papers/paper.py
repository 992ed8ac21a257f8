"""What the experiments of one paper have in common, and how settings are laid over each other.

``paper.yaml`` has

``base``          settings of every experiment: rounds, seeds, budget, evaluation rule
``problems``      data, partition and network under a short name
``methods``       a method with its hyper-parameters under a short name; ``like`` starts from another entry, ``when``
                  adds settings where the experiment's other settings are as given
``every_method``  settings that come with every method unless it says otherwise
``symbols``       the paper's letters and the settings they stand for, so that a table never names a method's field
"""

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Settings = dict[str, Any]
Word = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")]

NAMED = ("data", "method", "model", "partition")


class Data(BaseModel):
    """A part of a recipe: unknown keys are mistakes, values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Problem(Data):
    """Data, partition and network under one name."""

    label: str
    set: Settings
    needs: dict[str, str] = {}  # settings that only the user can give, such as a path, and what they are for


class Condition(Data):
    """Settings that hold where the experiment has one of the given values."""

    where: dict[str, list[Any]]
    set: Settings

    def holds(self, settings: Settings) -> bool:
        """Say whether ``settings`` has one of the listed values for every key."""
        return all(settings.get(key) in values for key, values in self.where.items())


class NamedMethod(Data):
    """A method with its hyper-parameters under one name."""

    label: str
    method: str | None = None
    like: str | None = None
    set: Settings = {}
    when: list[Condition] = []

    @model_validator(mode="after")
    def _from_one_source(self) -> Self:
        if (self.method is None) == (self.like is None):
            raise ValueError(f"'{self.label}' needs either 'method' or 'like'")
        return self


class Paper(Data):
    """A paper and what its experiments share."""

    title: str
    authors: str
    venue: str
    year: int
    doi: str = ""
    notes: list[str] = []
    base: Settings
    every_method: Settings = {}
    symbols: dict[str, str] = {}
    problems: dict[Word, Problem]
    methods: dict[Word, NamedMethod]

    def settings(self, tree: Mapping[str, Any]) -> Settings:
        """Return ``tree`` flat, with the paper's symbols replaced by the settings they stand for."""
        return flat({self.symbols.get(key, key): value for key, value in tree.items()})

    def method(self, name: str, context: Settings) -> Settings:
        """Return the settings of the method called ``name`` here, in an experiment that otherwise has ``context``."""
        choice = self.methods[name]
        if choice.like is None:
            settings = {"method": choice.method} | self.settings(self.every_method)
        else:
            settings = self.method(choice.like, context)
        settings |= self.settings(choice.set)
        for condition in choice.when:
            if condition.holds(context):
                settings |= self.settings(condition.set)
        return settings


def flat(tree: Mapping[str, Any], prefix: str = "") -> Settings:
    """Turn ``{partition: {name: dirichlet, alpha: 0.1}}`` into ``{partition: dirichlet, partition.alpha: 0.1}``."""
    settings: Settings = {}
    for key, value in tree.items():
        path = prefix + key
        if isinstance(value, Mapping):
            options = {name: option for name, option in value.items() if name != "name"}
            settings |= ({path: value["name"]} if "name" in value else {}) | flat(options, f"{path}.")
        else:
            settings[path] = value
    return settings


def lay(under: Settings, over: Settings) -> Settings:
    """Lay ``over`` on ``under``; another name (of data, model, ...) takes the options of the former one away."""
    gone = tuple(f"{root}." for root in NAMED if root in over and root in under and over[root] != under[root])
    return {key: value for key, value in under.items() if not key.startswith(gone)} | over


def nested(settings: Settings) -> Settings:
    """Turn flat settings back into the form of a settings file, the inverse of ``flat``."""
    tree: Settings = {}
    for path, value in settings.items():
        root, _, option = path.partition(".")
        if not option:
            tree[root] = {"name": value} if root in NAMED else value
        else:
            tree.setdefault(root, {})[option] = value
    return tree
