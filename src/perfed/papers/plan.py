"""Which experiments a table needs here and now: a part of it, made smaller, on the data that is here."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import DataError, InputError
from ..partition import PARTITIONS
from ..reference import plain
from ..runs import parse
from ..runs.experiment import Experiment
from .choose import choose
from .paper import Settings as Flat
from .paper import flat, nested
from .recipe import Heading, Published, Reading, Recipe, TableCell
from .stand_in import editions, missing, replaced

IN_ROUNDS = {"method.narrowing": 1, "method.warmup": 0}  # schedules counted in rounds shrink with them, to no less
PER_CLIENT = ("partition.samples", "partition.test_size", "partition.train_size")
# What these look at over rounds is replayed from states kept along the way.
OVER_ROUNDS = ("angle", "cka", "classifiers", "collaborators", "pir", "separation", "sparsity")
KEPT = 20  # states per run


@dataclass(frozen=True)
class Asked:
    """What of a table is to be run, and how much smaller."""

    only: tuple[str, ...] = ()
    rounds: int | None = None
    fraction: float | None = None
    seeds: tuple[int, ...] | None = None
    overrides: tuple[str, ...] = ()
    stand_in: bool = False

    def __post_init__(self) -> None:
        if self.rounds is not None and self.rounds < 1:
            raise InputError(f"--rounds must be at least 1, got {self.rounds}")
        if self.fraction is not None and not 0 < self.fraction <= 1:
            raise InputError(f"--fraction must be above 0 and at most 1, got {self.fraction:g}; 0.1 keeps a tenth")


@dataclass(frozen=True)
class Plan:
    """One cell: the experiment, what is read from it, what was printed, and what is smaller than in the paper."""

    row: Heading
    column: Heading
    settings: Experiment | None  # None: cannot be run here
    reading: Reading
    published: Published | None
    reduced: tuple[str, ...] = ()
    missing: str = ""
    place: int | None = field(default=None)  # of the client that is read, where another data set stands in

    @property
    def name(self) -> str:
        return f"{self.row.id}/{self.column.id}"

    @property
    def key(self) -> str:
        """The folder of the cell's run: what decides its results, and how often states are kept."""
        assert self.settings is not None
        kept = f"-every-{self.settings.snapshots}" if self.settings.snapshots else ""
        data = self.settings.data.name.replace("/", "_").replace(":", "_")
        return f"{self.settings.method.name}-{data}-{self.settings.digest()[:12]}{kept}"


def plans(recipe: Recipe, asked: Asked) -> list[Plan]:
    """Return the cells that are asked for."""
    for text in asked.overrides:
        if (key := text.partition("=")[0]) in ("out", "name"):
            raise InputError(
                f"{key}= has no effect on a recipe, whose runs are named by what they are; --out says where they lie"
            )
    rows, columns = choose(recipe, asked.only)
    chosen = {(row.id, column.id) for row in rows for column in columns}
    cells = [cell for cell in recipe.cells() if (cell.row.id, cell.column.id) in chosen]
    letters = [key for key in (text.partition("=")[0] for text in asked.overrides) if key in recipe.paper.symbols]
    for letter in letters:
        if not any(_takes(recipe, cell, letter) for cell in cells):
            raise InputError(
                f"'{letter}' is a letter of the paper's own method; what is chosen has it nowhere, or varies it; "
                f"{recipe.paper.symbols[letter]}=VALUE sets it regardless"
            )
    return list(_plans(recipe, asked, cells))


def _plans(recipe: Recipe, asked: Asked, cells: Sequence[TableCell]) -> Iterator[Plan]:
    for cell in cells:
        reading = recipe.reading(cell.row, cell.column)
        here, said = dict(cell.settings), ""
        own = _given(asked)
        if asked.stand_in and "data" not in own and missing(here | own):
            here, said = replaced(here)
        lacking = missing(here | own)
        if lacking:
            yield Plan(cell.row, cell.column, None, reading, cell.published, missing=lacking)
            continue
        laid = list(_laid_over(recipe, cell, asked))
        try:
            made = settings_of(recipe, here, asked, laid)
        except InputError as wrong:
            if not str(wrong).startswith("no setting 'method."):
                raise
            yield Plan(cell.row, cell.column, None, reading, cell.published, missing=str(wrong))  # another row's method has it
            continue
        gone, place = _client(reading, cell.settings, made)
        reduced = _reduced(recipe, cell.settings, made, said, [key for key, _ in laid])
        yield Plan(cell.row, cell.column, None if gone else made, reading, cell.published, reduced, gone, place)


def settings_of(recipe: Recipe, here: Flat, asked: Asked, laid: Sequence[tuple[str, str]]) -> Experiment:
    """Return the settings of one experiment, made smaller as asked, with ``laid`` laid over."""
    smaller = dict(here)
    if asked.rounds is not None:
        share = asked.rounds / here["rounds"]
        for key, least in IN_ROUNDS.items():
            if here.get(key) and share < 1:
                smaller[key] = max(least, min(asked.rounds - 1, round(here[key] * share)))
        smaller["rounds"] = min(asked.rounds, here["rounds"]) if recipe.base.get("rounds") == 1 else asked.rounds
    if asked.seeds is not None:
        smaller["seeds"] = list(asked.seeds)
    if asked.fraction is not None and asked.fraction < 1:
        smaller["data.fraction"] = asked.fraction
        for key in PER_CLIENT:
            if here.get(key):
                smaller[key] = max(2, round(here[key] * asked.fraction))
    if set(recipe.analysis) & set(OVER_ROUNDS):
        smaller["snapshots"] = max(1, smaller["rounds"] // KEPT)
    raw = nested(smaller)
    for key, value in laid:
        parse.apply(raw, key + value)
        if key == "data" and asked.fraction is not None:  # other data drops the options of the paper's, but not what was asked
            parse.apply(raw, f"data.fraction={asked.fraction}")
        if key == "model" and here.get("model.projector"):  # another network drops the options of the paper's, but not its rows'
            parse.apply(raw, f"model.projector={here['model.projector']}")
        if (key, value) == ("augment", "=false"):  # how the paper changes pictures goes with it
            raw["inputs"] = {
                name: own for name, own in (raw.get("inputs") or {}).items() if name not in ("flip", "rotate", "crop")
            }
    named, split = (flat(raw).get(part) for part in ("data", "partition"))
    if ":" in str(named) and split in PARTITIONS and PARTITIONS[split].by_group and "clients" not in dict(laid):
        raw.pop("clients", None)  # one's own data has as many as it has
    return parse.build(raw)


def _laid_over(recipe: Recipe, cell: TableCell, asked: Asked) -> Iterator[tuple[str, str]]:
    """Yield the settings that the overrides name and what stands behind, where a paper's own letter stands for one."""
    for text in asked.overrides:
        key = text.partition("=")[0]
        if key not in recipe.paper.symbols or _takes(recipe, cell, key):
            yield recipe.paper.symbols.get(key, key), text[len(key) :]


def _takes(recipe: Recipe, cell: TableCell, letter: str) -> bool:
    """Whether a letter means something in a cell: the paper's own method, unless the letter is what the cell varies."""
    own = cell.settings["method"] == recipe.name.partition("/")[0]
    return own and recipe.paper.symbols[letter] not in recipe.varied(cell.row, cell.column)


def _given(asked: Asked) -> Flat:
    """Return which data the overrides name, where it lies, and which domains of it."""
    found: Flat = {}
    for text in asked.overrides:
        key, _, value = text.partition("=")
        if key in ("data", "data.root"):
            found[key] = value
        elif key == "data.domains":
            found[key] = [part.strip() for part in value.strip("[]").split(",")]
    return found


def _client(reading: Reading, published: Flat, made: Experiment) -> tuple[str, int | None]:
    """Say why the client that is read does not exist, or at which place it is found in another data set."""
    if reading.client is None:
        return "", None
    from ..data.catalogue import CATALOGUE

    if ":" in made.data.name:  # the reader's own: a client is known by its name once the data is read
        return "", None
    domains = made.data.options.get("domains") or list(CATALOGUE[made.data.name].groups)
    if made.data.name == published["data"]:
        listed = domains.split(",") if isinstance(domains, str) else domains
        return ("" if reading.client in listed else f"{reading.client} is not here"), None
    before = published.get("data.domains") or list(CATALOGUE[str(published["data"])].groups)
    place = before.index(reading.client)
    return ("", place) if place < len(domains) else (f"{made.data.name} has only {len(domains)} domains", None)


HOW = ("transport", "workers", "device", "devices", "checkpoint", "memory", "engine")  # change how a cell runs, not what
_OF_DATA = ("data", "model", "inputs", "clients", "partition.classes")


def _reduced(recipe: Recipe, published: Flat, made: Experiment, said: str, named: Sequence[str]) -> tuple[str, ...]:
    """Say in which way an experiment is smaller than, or other than, the paper's."""
    ours = flat(made.plain())
    notes = [said] if said else []
    for key in sorted(set(published) | set(ours), key=_order):
        before, after = published.get(key), ours.get(key)
        if key.partition(".")[0] in ("seeds", "snapshots", *HOW) or _same(before, after):
            continue
        if key not in (*published, *named, "data.fraction"):
            continue
        if said and key not in ("data.fraction", *named) and key.startswith(_OF_DATA):
            continue  # the stand-in has other options
        if key == "data.fraction":
            notes.append(f"{after:g} of the data")
        elif key == "data.size":
            notes.append(f"{'pictures as they are' if after is None else after} instead of {before} pixels")
        else:
            notes.append(f"{key} {plain(after)}" + ("" if before is None else f" instead of {plain(before)}"))
    if len(made.seeds) < len(published["seeds"]):
        notes.append(f"{len(made.seeds)} of {len(published['seeds'])} seeds")
    domains = made.data.options.get("domains")
    if ":" not in made.data.name:
        notes += editions(made.data.name, domains.split(",") if isinstance(domains, str) else domains)
    if made.model.name == "resnet18" and "model.weights" in recipe.needs and "weights" not in made.model.options:
        notes.append("no ImageNet weights: the network starts from random numbers")
    return tuple(notes)


def _same(before: Any, after: Any) -> bool:
    if isinstance(before, list | tuple) and isinstance(after, list | tuple):
        return list(before) == list(after)
    return bool(before == after)


def _order(key: str) -> tuple[int, str]:
    first = ("rounds", "data", "data.fraction", "data.size", "clients")
    return (first.index(key) if key in first else len(first), key)


def runnable(found: Sequence[Plan]) -> list[Plan]:
    """Return the cells that can be run here; if there is none, say what is missing."""
    ready = [plan for plan in found if plan.settings is not None]
    if not ready:
        reasons = list(dict.fromkeys(plan.missing for plan in found))
        raise DataError("; ".join(reasons))
    return ready
