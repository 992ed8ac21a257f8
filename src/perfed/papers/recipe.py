"""A paper's table or figure as data: which experiments it needs and which numbers were published.

A paper's folder holds ``paper.yaml`` (what its experiments have in common) and one file per table or figure:

``paper.yaml``
    ``base``      settings of every experiment (clients, rounds, seeds, budget, evaluation rule)
    ``problems``  data + partition + network under a short name
    ``methods``   a method with its hyper-parameters under a short name; ``like`` starts from another entry,
                  ``when`` adds settings where the experiment's other settings are as given
    ``symbols``   the paper's letters and the settings they stand for, so that tables never name a method's field
``table2.yaml``
    ``rows``, ``columns``  what varies: names of methods or problems, or entries with settings and a reading of their own
    ``published``          per row the printed values in the order of the columns

A cell's settings are: the paper's base, the problem, the method, the table's base, the column's and the row's settings, later ones
over earlier ones. They are flat: ``{"partition": "dirichlet", "partition.alpha": 0.1, "method": "fedcp", ...}``.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from perfed.errors import InputError, suggest

Settings = dict[str, Any]

NAMED = ("data", "method", "model", "partition")
ROOTS = ("budget", "clients", "data", "evaluation", "method", "model", "partition", "rounds", "sampling", "seeds")

Analysis = Literal[
    "angle", "before_after", "cka", "classifiers", "collaborators", "communication", "curves", "distribution", "dlg", "fairness",
    "feature_overlap", "fisher", "gradcam", "masks", "overlap", "pir", "policy", "probe", "selection", "sensitivity", "separation",
    "sparsity", "stability", "sweep", "time", "tsne",
]  # fmt: skip
Measure = Literal["accuracy", "cv", "mebibytes", "minutes", "minutes_per_round", "psnr", "rounds", "std"]
Unit = Literal["%", "dB", "MiB", "min", "rounds", "1e-2"]
Scope = Literal["model", "extractor", "upload", "pseudo_extractor", "pseudo_model"]
Word = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")]


class Data(BaseModel):
    """A part of a recipe: unknown keys are mistakes, values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Published(Data):
    """A printed value with its standard deviation over the runs, or a word printed in its place."""

    mean: float | None
    std: float | None = None
    note: str = ""


class Reading(Data):
    """Which figure of a finished run a cell shows."""

    measure: Measure = "accuracy"
    unit: Unit = "%"
    digits: int = 2
    client: str | None = None  # one client's value instead of the summary over clients
    scope: Scope | None = None  # what the attacker of a privacy analysis works on
    target: float | None = None  # the accuracy to reach, for costs


class Gap(Data):
    """A cell without a number, and why."""

    row: Word
    column: Word
    reason: str


class Problem(Data):
    """Data, partition and network under one name."""

    label: str
    set: Settings


class Condition(Data):
    """Settings that hold where the experiment has one of the given values."""

    where: dict[str, list[Any]]
    set: Settings

    def holds(self, settings: Settings) -> bool:
        """Say whether ``settings`` has one of the listed values for every key."""
        return all(settings.get(key) in values for key, values in self.where.items())


class Choice(Data):
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
    """What the experiments of one paper have in common."""

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
    methods: dict[Word, Choice]

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


class Entry(Data):
    """A row or a column: what it is called, what it changes, what is read."""

    id: Word
    label: str
    group: str = ""  # the heading printed above it
    method: str | None = None
    problem: str | None = None
    set: Settings = {}
    read: dict[str, Any] = {}


class Cell(NamedTuple):
    """One experiment of a table or figure."""

    row: Entry
    column: Entry
    settings: Settings
    published: Published | None


def parse(printed: object) -> object:
    """Read ``97.93 ± 0.05``, ``97.93`` or a word printed in place of a number."""
    if isinstance(printed, bool | Mapping) or printed is None:
        return printed
    text = str(printed)
    number = re.fullmatch(r"(\d+(?:\.\d+)?)(?: ± (\d+\.\d+))?", text)
    if number:
        return {"mean": float(number[1]), "std": None if number[2] is None else float(number[2])}
    if re.fullmatch(r"[a-z ]+", text):
        return {"mean": None, "note": text}
    raise ValueError(f"'{text}' is not a published value; write '97.93 ± 0.05', '97.93' or a word such as 'diverged'")


class Recipe(Data):
    """A table or figure of results of a paper."""

    name: str
    paper: Paper
    kind: Literal["table", "figure"]
    title: str
    shows: str
    numbers: Literal["printed", "drawn"]  # drawn: only in a picture, so there is nothing to compare with
    analysis: list[Analysis] = []
    base: Settings = {}
    read: dict[str, Any] = {}
    method: str | None = None
    problem: str | None = None
    rows: list[Entry] = Field(min_length=1)
    columns: list[Entry] = Field(min_length=1)
    published: dict[str, list[Annotated[Published | None, BeforeValidator(parse)]]] = {}
    unreadable: list[Gap] = []  # printed, but the text at hand cannot be trusted there
    absent: list[Gap] = []  # the paper itself has no value
    assumed: list[str] = []  # what the paper does not say and the recipe had to choose
    expect: list[str] = []  # what the paper's text says one sees
    notes: list[str] = []

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        if self.kind == "figure" and not self.analysis:
            raise ValueError("a figure needs an analysis")
        for axis in (self.rows, self.columns):
            ids = [entry.id for entry in axis]
            if len(ids) != len(set(ids)):
                raise ValueError(f"an id occurs twice among {', '.join(ids)}")
        self._check_published()
        for cell in self.cells():
            self._check_settings(cell)
            self.reading(cell.row, cell.column)
        return self

    def _check_published(self) -> None:
        if (self.numbers == "printed") != bool(self.published):
            raise ValueError("numbers are 'printed' where there are published values, else 'drawn'")
        if not self.published:
            return
        if list(self.published) != [row.id for row in self.rows]:
            raise ValueError(f"published rows {', '.join(self.published)} are not the table's rows in order")
        gaps = {(gap.row, gap.column) for gap in (*self.unreadable, *self.absent)}
        for row, values in self.published.items():
            if len(values) != len(self.columns):
                raise ValueError(f"row '{row}' has {len(values)} published values for {len(self.columns)} columns")
            for column, value in zip(self.columns, values, strict=True):
                if (value is None) != ((row, column.id) in gaps):
                    raise ValueError(f"'{row}', '{column.id}' must have either a value or a reason under unreadable or absent")

    def _check_settings(self, cell: Cell) -> None:
        where = f"'{cell.row.id}', '{cell.column.id}'"
        for key in cell.settings:
            if key.split(".")[0] not in ROOTS:
                raise ValueError(f"{where}: no setting '{key}'; settings begin with {', '.join(ROOTS)}")
        missing = [root for root in (*NAMED, "clients", "rounds", "seeds") if root not in cell.settings]
        if missing:
            raise ValueError(f"{where} does not say {', '.join(missing)}")

    @property
    def data(self) -> tuple[str, ...]:
        """The names of the data sets this needs."""
        return tuple(sorted({str(cell.settings["data"]) for cell in self.cells()}))

    def settings(self, row: Entry, column: Entry) -> Settings:
        """Return the experiment of one cell."""
        own = lay(lay(self.paper.settings(self.base), self.paper.settings(column.set)), self.paper.settings(row.set))
        problem = self.paper.problems[self._one("problem", row, column)]
        settings = lay(self.paper.settings(self.paper.base), self.paper.settings(problem.set))
        method = self.paper.method(self._one("method", row, column), lay(settings, own))
        return lay(lay(settings, method), own)

    def _one(self, what: Literal["method", "problem"], row: Entry, column: Entry) -> str:
        named = [name for source in (self, row, column) if (name := getattr(source, what)) is not None]
        if len(named) != 1:
            raise ValueError(f"'{row.id}', '{column.id}' has {len(named)} entries under '{what}', needs one: {', '.join(named)}")
        known = self.paper.methods if what == "method" else self.paper.problems
        if named[0] not in known:
            raise suggest(what, named[0], known)
        return named[0]

    def reading(self, row: Entry, column: Entry) -> Reading:
        """Say which figure of the cell's run is shown."""
        return Reading.model_validate(self.read | column.read | row.read)

    def cells(self) -> Iterator[Cell]:
        """Yield every cell, row by row: (row, column, settings, published or None)."""
        for row in self.rows:
            values = self.published.get(row.id, [None] * len(self.columns))
            for column, value in zip(self.columns, values, strict=True):
                yield Cell(row, column, self.settings(row, column), value)


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


def expand(entry: object, paper: Paper) -> dict[str, Any]:
    """Write out a row or column that is only the name of a method or problem, and fill in its label."""
    whole: dict[str, Any] = {"id": entry, _source(entry, paper): entry} if isinstance(entry, str) else dict(_mapping(entry))
    if "id" not in whole:
        whole["id"] = whole.get("method") or whole.get("problem")
    if "label" not in whole:
        known = paper.methods.get(whole.get("method", "")) or paper.problems.get(whole.get("problem", ""))
        if known is None:
            raise InputError(f"row or column '{whole['id']}' needs a label")
        whole["label"] = known.label
    return whole


def _source(name: str, paper: Paper) -> str:
    if name in paper.methods:
        return "method"
    if name in paper.problems:
        return "problem"
    raise suggest("method or problem", name, (*paper.methods, *paper.problems))


def _mapping(entry: object) -> Mapping[str, Any]:
    if not isinstance(entry, Mapping):
        raise InputError(f"a row or column is a name or a mapping, not {entry!r}")
    return entry
