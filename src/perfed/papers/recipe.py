"""A paper's table or figure: which experiments it needs, what is read from them, and which numbers were published.

A file such as ``fedcp/table2.yaml`` has

``rows``, ``columns``  what varies: names of methods or problems of ``paper.yaml``, or entries with own settings
``read``               which figure of a run is shown, for the whole table or one entry
``published``          per row the printed values in the order of the columns

A cell's settings are, later ones over earlier ones: the paper's base, the problem, the method, the table's base, the
column, the row. They are flat: ``{"partition": "dirichlet", "partition.alpha": 0.1, "method": "fedcp", ...}``.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import BeforeValidator, Field, model_validator

from ..errors import InputError, suggest
from .paper import NAMED, Data, Paper, Settings, Word, lay

ROOTS = (
    *("after", "augment", "best", "budget", "clients", "data", "every", "inputs", "method", "model", "norm", "partition"),
    *("report", "rounds", "sampling", "seeds", "series", "split_seed", "test", "text", "transport", "validation"),
)

Analysis = Literal[
    "angle", "attack", "cka", "classifiers", "collaborators", "communication", "convergence", "curves", "distribution",
    "fairness", "feature_overlap", "fisher", "gradcam", "masks", "overlap", "pir", "policy", "probe", "selection",
    "sensitivity", "separation", "sparsity", "stability", "sweep", "timing", "tsne",
]  # fmt: skip
Measure = Literal["accuracy", "cv", "mebibytes", "minutes", "minutes_per_round", "psnr", "rounds", "std"]
Unit = Literal["%", "1e-2", "MiB", "dB", "min", "rounds"]
Scope = Literal["extractor", "known", "model", "pseudo_extractor", "pseudo_model", "upload"]


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


class Heading(Data):
    """A row or a column: what it is called, what it changes, what is read."""

    id: Word
    label: str
    group: str = ""  # the heading printed above it
    method: str | None = None
    problem: str | None = None
    set: Settings = {}
    read: dict[str, Any] = {}


class TableCell(NamedTuple):
    """One experiment of a table or figure."""

    row: Heading
    column: Heading
    settings: Settings
    published: Published | None


def parse(printed: object) -> object:
    """Read ``97.93 ± 0.05``, ``97.93`` or a word printed in place of a number."""
    if printed is None or isinstance(printed, bool | Mapping | Published):
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
    rows: list[Heading] = Field(min_length=1)
    columns: list[Heading] = Field(min_length=1)
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
            blank = {(row, column.id) for column, value in zip(self.columns, values, strict=True) if value is None}
            for _, column in sorted(blank ^ {gap for gap in gaps if gap[0] == row}):
                raise ValueError(f"'{row}', '{column}' needs a value, or null and a reason under unreadable or absent")

    def _check_settings(self, cell: TableCell) -> None:
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

    @property
    def needs(self) -> dict[str, str]:
        """The settings that only the user can give, and what they are for."""
        used = {self._one("problem", row, column) for row in self.rows for column in self.columns}
        return {key: why for name in sorted(used) for key, why in self.paper.problems[name].needs.items()}

    def settings(self, row: Heading, column: Heading) -> Settings:
        """Return the experiment of one cell; null takes a setting away."""
        flat = self.paper.settings
        own = lay(lay(flat(self.base), flat(column.set)), flat(row.set))
        problem = self.paper.problems[self._one("problem", row, column)]
        settings = lay(flat(self.paper.base), flat(problem.set))
        method = self.paper.method(self._one("method", row, column), lay(settings, own))
        whole = lay(lay(settings, method), own)
        return {key: value for key, value in whole.items() if value is not None}

    def varied(self, row: Heading, column: Heading) -> set[str]:
        """Return the settings in which a cell is meant to differ from others: what its row, column or variant sets."""
        choice = self.paper.methods[self._one("method", row, column)]
        variant = choice.set if choice.like is not None else {}
        return {key for own in (row.set, column.set, variant) for key in self.paper.settings(own)}

    def _one(self, what: Literal["method", "problem"], row: Heading, column: Heading) -> str:
        named: list[str] = [name for source in (self, row, column) if (name := getattr(source, what)) is not None]
        if len(named) != 1:
            found = ", ".join(named) or "none"
            raise ValueError(f"'{row.id}', '{column.id}' needs exactly one {what}, has {found}")
        known = self.paper.methods if what == "method" else self.paper.problems
        if named[0] not in known:
            raise suggest(what, named[0], known)
        return named[0]

    def reading(self, row: Heading, column: Heading) -> Reading:
        """Say which figure of the cell's run is shown."""
        return Reading.model_validate(self.read | column.read | row.read)

    def cells(self) -> Iterator[TableCell]:
        """Yield every cell, row by row: (row, column, settings, published or None)."""
        for row in self.rows:
            values = self.published.get(row.id, [None] * len(self.columns))
            for column, value in zip(self.columns, values, strict=True):
                yield TableCell(row, column, self.settings(row, column), value)


def expand(entry: object, paper: Paper) -> dict[str, Any]:
    """Write out a row or column that is only the name of a method or problem, and fill in its label."""
    if isinstance(entry, str):
        entry = {"id": entry, _source(entry, paper): entry}
    if not isinstance(entry, Mapping):
        raise InputError(f"a row or column is a name or a mapping, not {entry!r}")
    whole = dict(entry)
    name = whole.get("method") or whole.get("problem")
    whole.setdefault("id", name)
    known = paper.methods.get(str(name)) or paper.problems.get(str(name))
    if known is not None:
        whole.setdefault("label", known.label)
    return whole


def _source(name: str, paper: Paper) -> str:
    if name in paper.methods:
        return "method"
    if name in paper.problems:
        return "problem"
    raise suggest("method or problem", name, (*paper.methods, *paper.problems))
